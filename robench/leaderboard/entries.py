"""Registry entries in the words that readers filter a leaderboard by."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from robench.core.identity import to_plain
from robench.leaderboard.board import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.checkpoint import Checkpoint

# Fields of a backbone that give its size, with the words around their values.
_SIZES = (("depth", "{} layers"), ("dim", "width {}"), ("num_heads", "{} heads"), ("image_size", "{} px"))
OF_THE_BACKBONE = "of the backbone"


def entry_of(checkpoint: Checkpoint) -> Entry:
    """Return the description of a checkpoint by the fields of its architecture, whatever its backbone."""
    declared = checkpoint.architecture
    values = {each.name: getattr(declared, each.name) for each in fields(declared)}  # type: ignore[arg-type]
    name = values.get("name") or values.get("target") or declared.kind
    sizes = [words.format(values[size]) for size, words in _SIZES if values.get(size) is not None]
    return Entry(
        family=declared.kind,
        attention=_attention(values, stated=to_plain(declared)),
        architecture=", ".join([str(name), *sizes]),
        training_data=checkpoint.training_data,
        source=checkpoint.source,
        licence=checkpoint.licence,
    )


def _attention(values: Mapping[str, Any], stated: object) -> str:
    """Return the mechanism's kind, its reading and the residual connection where they are stated.

    Plain forms leave out what is at its default.
    """
    if "attention" not in values:
        return OF_THE_BACKBONE
    mechanism, words = to_plain(values["attention"]), [values["attention"].kind]
    if isinstance(mechanism, dict) and "formula" in mechanism:
        words.append(f"({mechanism['formula']})")
    if isinstance(stated, dict) and "residual" in stated:
        words.append(f"+ {values['residual'].kind}")
    return " ".join(words)
