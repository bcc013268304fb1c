"""Writes docs/attention.md from the docstrings of the mechanisms (``make docs``); a test holds the two together."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from robench.attention import ATTENTIONS
from robench.declarations import attentions

if TYPE_CHECKING:
    from robench.declarations.base import DeclarationBase

PAGE = Path(__file__).parents[1] / "docs" / "attention.md"
HEADER = """\
# Attention mechanisms

Written by `make docs` from the docstrings of `robench/attention/`; edit those. `attention: {kind: KIND}` in the
architecture of a checkpoint takes each of these, with the fields named; what is not given takes its default.

Axes: N tokens, H heads, D width of a head, C = H D.
"""


def page() -> str:
    """Return the page: each kind with its fields, what it computes, its source, and known disagreements."""
    kinds = attentions.ATTENTIONS.items()
    contents = "\n".join(f"- [`{kind}`](#{kind}): {_title(declared)}" for kind, declared in kinds)
    return "\n".join([HEADER, contents, "", *(_section(kind, declared) for kind, declared in kinds)])


def _section(kind: str, declared: type[DeclarationBase]) -> str:
    fields = ", ".join(_field(field) for field in dataclasses.fields(declared))  # type: ignore[arg-type]  # all are dataclasses
    body = "\n".join(_paragraphs(declared)[1:])
    return f"## {kind}\n\n{_title(declared)}\n\nFields: {fields or 'none'}.\n\n{body.rstrip()}\n"


def _field(field: dataclasses.Field[object]) -> str:
    if field.default is dataclasses.MISSING:
        return f"`{field.name}` (required)"
    return f"`{field.name}` ({field.default})"


def _title(declared: type[DeclarationBase]) -> str:
    return _paragraphs(declared)[0].strip().replace("\n", " ")


def _paragraphs(declared: type[DeclarationBase]) -> list[str]:
    """Return the paragraphs of the implementation's module; equations are indented, which is code in Markdown."""
    module = sys.modules[ATTENTIONS[declared].__module__]
    # Double backquotes are reStructuredText's, single ones Markdown's.
    return [f"{text}\n".replace("``", "`") for text in (inspect.getdoc(module) or "").split("\n\n")]


if __name__ == "__main__":
    PAGE.write_text(page())
