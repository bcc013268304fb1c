"""Docstrings of functions begin with an imperative verb, those of classes and modules with a noun phrase."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "robench").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
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
    for node in ast.walk(ast.parse(source)):
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
