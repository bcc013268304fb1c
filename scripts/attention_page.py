"""Text of docs/attention.md, from the docstrings of the mechanisms' sources, which are parsed and not imported."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from robench.attention import ATTENTIONS
from robench.models.transformer import FeatScale

if TYPE_CHECKING:
    from robench.attention.base import AttentionBase

# Beginning of the part on the causal form in the docstring of a mechanism's implementation.
CAUSAL_SECTION = "\n\nCausal form: "
ROOT = Path(__file__).parents[1]
HEADER = """\
# Attention mechanisms

Written by `make generated` from the docstrings of `robench/attention/`; edit those. `attention: {kind: KIND}` in the
architecture of a checkpoint takes each of these, with the fields named; omitted fields take their defaults. Backbones
`vit` and `segmenter` take all of them, `fan` softmax, symmetric, rpc and twicing, beside its channel and class
attention.

Axes: N tokens, H heads, D width of a head, C = H D.
"""

CAUSAL_HEADER = """\
## Causal forms

A language model needs the output of each token to depend on it and earlier ones alone. These mechanisms have a form in
which it does, with the same fields and parameters (`mgk` alone has one mixture weight for each position). It takes
texts of up to the number of tokens that it was built for. Tests hold each form to a reference that computes one token
at a time, and to exact independence of later tokens, in value and gradient.
"""

# Parts of a block beside its attention, by the name of its section.
BESIDE = {
    "residual boost": "robench.models.transformer_impl:BoostBlock",
    "residual featscale": "robench.models.transformer_impl:FeatScaleBlock",
    "channel attention": "robench.models.fan_impl:ChannelProcessing",
    "symmetric class attention": "robench.models.fan_impl:SymmetricClassAttention",
}


def page() -> str:
    """Return the page: each kind with its fields, what it computes, its source, and known disagreements."""
    kinds = ATTENTIONS.builtin.items()
    contents = [f"- [`{kind}`](#{kind}): {_title(declared)}" for kind, declared in kinds]
    contents += [f"- [{name}](#{name.replace(' ', '-')}): {_text(part)[0]}" for name, part in BESIDE.items()]
    contents += ["- [Causal forms](#causal-forms) for language models: which mechanisms have one, and its cost."]
    sections = [_section(kind, declared) for kind, declared in kinds]
    sections += ["\n\n".join([f"## {name}", *_text(part)]) + "\n" for name, part in BESIDE.items()]
    return "\n".join([HEADER, *contents, "", *sections, _causal_forms()])


def _causal_forms() -> str:
    """Return the section on causal forms: what each computes and costs, and why others have none."""
    kinds = ATTENTIONS.builtin.items()
    forms = [_causal_form(kind, declared) for kind, declared in kinds if declared.has_causal_form]
    refused = [f"- `{kind}`: {declared.not_causal}." for kind, declared in kinds if declared.not_causal]
    refused += [f"- `{FeatScale.kind}`, a residual connection: {FeatScale.not_causal}."]
    without = "### No causal form\n\nThese are refused in language models, with the reason:\n\n" + "\n".join(refused)
    return "\n".join([CAUSAL_HEADER, *forms, without]) + "\n"


def _causal_form(kind: str, declared: type[AttentionBase]) -> str:
    text = _text_of(declared)[2].rstrip()
    return f"### {kind}, causal\n\n{text[:1].upper()}{text[1:]}\n"


def _section(kind: str, declared: type[AttentionBase]) -> str:
    fields = ", ".join(_field(field) for field in dataclasses.fields(declared))  # type: ignore[arg-type]  # all are dataclasses
    body = "\n".join(_paragraphs(declared)[1:])
    return f"## {kind}\n\n{_title(declared)}\n\nFields: {fields or 'none'}.\n\n{body.rstrip()}\n"


def _field(field: dataclasses.Field[object]) -> str:
    if field.default is dataclasses.MISSING:
        return f"`{field.name}` (required)"
    return f"`{field.name}` ({field.default})"


def _title(declared: type[AttentionBase]) -> str:
    return _paragraphs(declared)[0].strip().replace("\n", " ")


def _paragraphs(declared: type[AttentionBase]) -> list[str]:
    """Return the paragraphs of the implementation's module; equations are indented, which is code in Markdown."""
    return [f"{text}\n" for text in _text_of(declared)[0].split("\n\n")]


def _text_of(declared: type[AttentionBase]) -> tuple[str, str, str]:
    """Return the docstring of the implementation's module: what precedes the causal form, and what it is."""
    return _docstring(declared.implementation.partition(":")[0]).partition(CAUSAL_SECTION)


def _text(part: str) -> list[str]:
    """Return the paragraphs of the docstring of a class, ``module:Class``."""
    return _docstring(*part.split(":")).split("\n\n")


def _docstring(module: str, name: str | None = None) -> str:
    """Return the docstring of a module, or of a class in it, as Markdown, whose backquotes are single."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    return (ast.get_docstring(classes[name] if name else tree) or "").replace("``", "`")
