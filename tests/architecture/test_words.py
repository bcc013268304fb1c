"""Docstrings open with an imperative verb or a noun phrase, and texts have few expressions that robench avoids."""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sources import parsed

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "robench").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
# The sum of the limits; lower it with them.
MOST_AVOIDED = 34
INTERROGATIVES = {"how", "that", "what", "when", "where", "whether", "which", "who", "whoever", "whom", "whose", "why"}
INVERSIONS = {"by", "for", "from", "in", "of", "on", "only", "so", "such", "to", "with", "without"}
# Of a function: what begins a noun phrase, and what begins a sentence about something else than what it does.
NOUN_PHRASES = {"a", "all", "an", "any", "each", "every", "it", "no", "one", "several", "some", "the", "this", "those"}
# Of a class or module: a verb in the third person says what it does, and not what it is.
THIRD_PERSON = {"can", "does", "gives", "holds", "keeps", "lets", "makes", "reads", "runs", "says", "takes", "writes"}
NO_FUNCTION = INTERROGATIVES | INVERSIONS | NOUN_PHRASES | {"return what", "return how", "return which", "yield what"}
NO_CLASS = INTERROGATIVES | INVERSIONS | {"a", "an", "the", "one"} | THIRD_PERSON


def openings(source: str) -> list[tuple[str, str]]:
    """Return the kind of each docstring in a source, ``function`` or ``class``, and the docstring."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            kind = "class" if isinstance(node, ast.ClassDef | ast.Module) else "function"
            docstring = ast.get_docstring(node)
            if docstring:
                found.append((kind, docstring))
    return found


def wrong_opening(kind: str, docstring: str) -> bool:
    words = docstring.lower().replace(",", " ").replace(":", " ").split()
    refused = NO_FUNCTION if kind == "function" else NO_CLASS
    return words[0] in refused or " ".join(words[:2]) in refused


@pytest.mark.parametrize("package", ["robench", "examples"])
def test_docstrings_open_with_a_verb_or_a_noun_phrase(package: str) -> None:
    paths = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == package]
    found = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in paths
        for kind, docstring in openings(path.read_text())
        if wrong_opening(kind, docstring)
    ]
    assert paths
    assert found == []


@pytest.mark.parametrize(
    ("source", "is_wrong"),
    [
        ('def f():\n    """Whether a row is padding."""', True),
        ('def f():\n    """Return whether a row is padding."""', False),
        ('def f():\n    """Return what a name is shown as."""', True),
        ('def f():\n    """The size in bytes."""', True),
        ('class C:\n    """How a training script saves a model."""', True),
        ('class C:\n    """Layout of a file of weights."""', False),
        ('class C:\n    """Keeps results in memory."""', True),
        ('"""Which libraries are installed."""', True),
        ('"""Installed libraries of attacks."""', False),
    ],
)
def test_an_opening_is_judged_by_its_first_words(source: str, is_wrong: bool) -> None:
    assert [wrong_opening(*opening) for opening in openings(source)] == [is_wrong]


@pytest.fixture(scope="module")
def words() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "scripts"))
    import words

    yield words
    sys.path.remove(str(ROOT / "scripts"))


def test_no_folder_has_more_avoided_expressions_than_its_limit(words: Any) -> None:
    """``python scripts/words.py --show FOLDER`` prints them; rewrite them, or move the limit with the code."""
    limits = json.loads(words.LIMITS.read_text())
    above = {folder: number for folder, number in words.counts().items() if number > limits.get(folder, 0)}
    assert above == {}


def test_the_limits_only_fall(words: Any) -> None:
    limits = json.loads(words.LIMITS.read_text())
    assert sum(limits.values()) <= MOST_AVOIDED
    assert {limits[folder] for folder in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")} == {0}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Convert to float, so that what is broken is found.", ["what is broken"]),
        ("Compare those that read\nresults.", ["those that"]),
        ("The run measures what is missing.", []),
        ("A file of which two are kept.", ["of which"]),
        ("A name that is no number; there is no limit.", ["is no"]),
        ("The attack met a point; the model stands. A stand-in stays.", ["met", "stands"]),
        ("The share of images; jobs share a folder.", ["The share"]),
        ("`what is none` is code.\n```text\nthose that\n```\n", []),
    ],
)
def test_avoided_expressions_are_found_in_prose_alone(words: Any, text: str, wanted: list[str]) -> None:
    assert sorted(words.found_in(text)) == sorted(wanted)


def test_avoided_words_are_found_in_names_that_code_defines(words: Any) -> None:
    source = "class Standing:\n    def places_of(self, crew):\n        outstanding = self.slope\n        shared = 1\n"
    assert words.found_in_names(source) == ["Standing", "places_of", "crew"]


def test_texts_are_strings_and_comments(words: Any) -> None:
    source = 'x = "one"  # two\n# three\n# four\ny = 1\n# five\n'
    assert [text for text in words.texts_of(source) if text] == ["one", "two three four", "five"]
