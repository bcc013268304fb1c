"""Counts expressions that robench's texts avoid, by folder: ``python scripts/words.py``.

Counted are headless relatives ("those which read results"), a dangling "of", nouns negated by "no" ("which is no
number"), and private vocabulary where docs/glossary.md has a word. Texts are pages, docstrings, comments and strings;
vocabulary is also counted in the names that code defines. ``--show FOLDER`` prints what is counted there, ``--write``
makes the present counts the limits that ``tests/architecture/test_words.py`` holds.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LIMITS = ROOT / "tests" / "architecture" / "word_limits.json"
# Pages that scripts write from docstrings, which are counted where they are.
GENERATED = ("docs/attention.md",)
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PACKAGES = ("robench", "scripts", "examples")
# "what is missing" and its like are idioms.
IDIOMS = "missing|left|measured|stored|found|expected"
PROSE = {
    "headless relative": rf"\bthose (?:that|which|who|whose)\b"
    rf"|\bwhat (?:is|are|was|were|has|have|had) (?!{IDIOMS})\w+|\b(?:whoever|whatever)\b",
    "dangling of": r"\bof which\b|\bof(?=[.,;)]|:(?! entry))|\b(?:each|all) (?:its|their) own\b",
    "negated noun": r"(?<!there )\b(?:is|are) (?:no(?! longer| farther)|(?-i:none))\b|\bthere is none\b",
    "private vocabulary": r"\b(?:met|stands?(?!-)|stood|told|said|shown as|apart(?! from)|blame[ds]?)\b"
    r"|\b(?:crew|standings?)\b",
    "share for proportion": r"\bshares? of\b|\b(?:the|a|stated|largest) share\b|\bshares in\b",
}
# Words of the vocabulary within names such as `Standing` and `places_of`.
NAMES = re.compile(r"(?:^|_)(?:apart|blamed|crew|met|said|sent|shares?|standings?|stands|told|waits|places_of)(?:_|$)")
# A YAML field.
TERMS = {"warmup_share"}
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
# A comment, or a line of a string that looks like one.
COMMENT = re.compile(r"(?:^\s*|  )#+ (.*)")
CODE = re.compile(r"``[^`]*``|`[^`\n]*`")


def found_in(text: str) -> list[str]:
    """Return the expressions found in a text, without code in backticks."""
    plain = " ".join(CODE.sub("`", FENCE.sub("", text)).split())
    return [found[0] for pattern in PROSE.values() for found in re.finditer(pattern, plain, re.IGNORECASE)]


def found_in_names(source: str) -> list[str]:
    """Return the names that a source defines with a word of the private vocabulary."""
    names = (name for name in _defined(_parsed(source)) if name not in TERMS)
    return [name for name in names if NAMES.search(_snake_case(name))]


def texts_of(source: str) -> Iterator[str]:
    """Yield the strings of a source, docstrings included, and its comments, consecutive lines as one."""
    constants = [node.value for node in ast.walk(_parsed(source)) if isinstance(node, ast.Constant)]
    strings = [constant for constant in constants if isinstance(constant, str)]
    yield from strings
    like_comments = "\n".join(string for string in strings if "#" in string)
    block: list[str] = []
    last = 0
    for number, line in enumerate(source.splitlines(), start=1):
        if (comment := COMMENT.search(line)) and comment[1].rstrip("\"',)") not in like_comments:
            if number > last + 1:
                yield " ".join(block)
                block = []
            block.append(comment[1])
            last = number
    yield " ".join(block)


def found() -> dict[str, list[tuple[str, str]]]:
    """Return what is found in each folder, as pairs of file and expression."""
    pages = [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
    sources = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    folders: dict[str, list[tuple[str, str]]] = {}
    for path in [*pages, *sources]:
        name = path.relative_to(ROOT).as_posix()
        if name not in GENERATED:
            text = path.read_text()
            folders.setdefault(_folder(name), []).extend((name, each) for each in _of_file(path, text))
    return folders


def counts() -> dict[str, int]:
    """Return the number of expressions found in each folder."""
    return {folder: len(pairs) for folder, pairs in sorted(found().items())}


def _of_file(path: Path, text: str) -> list[str]:
    # This file names what it looks for, and the glossary what to avoid.
    if path == Path(__file__) or path.name == "glossary.md":
        return []
    if path.suffix == ".md":
        return found_in(text)
    # No expression has the mark between texts.
    return found_in("\n¶\n".join(texts_of(text))) + found_in_names(text)


@lru_cache(maxsize=1)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _folder(name: str) -> str:
    parts = Path(name).parts
    return "/".join(parts[:2]) if parts[0] == "robench" and len(parts) > 2 else parts[0]


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def main(arguments: list[str]) -> None:
    """Print counts, or what is found in a folder, or write the limits."""
    if arguments[:1] == ["--show"]:
        for (name, each), number in Counter(found()[arguments[1]]).items():
            sys.stdout.write(f"{name}: {each} ({number})\n")
    elif arguments == ["--write"]:
        LIMITS.write_text(json.dumps(counts(), indent=2) + "\n")
    else:
        for folder, number in counts().items():
            sys.stdout.write(f"{number:5} {folder}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
