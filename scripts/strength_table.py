"""The comparison of strength as Markdown, from the values of its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strength_agreement import as_lines
from strength_settings import EXCEPTIONS, NOT_COMPARED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # Any: values of JSON.
    Rows = Sequence[Mapping[str, Any]]

HEADER = """\
# robench's attacks beside other libraries'

Written by `make strength`. Each library ran its own code, at the same settings, on the same images, in the same process
on one thread. *Accuracy* is the share of images that stand, in per cent: right when clean, and at what the attack made
of them; of attacks without a budget (fab, cw), at no found point within the radius. *Same* is the share of images of
which robench's attack says the same. An attack that draws random numbers draws others in each library. Seconds are of
one run, whatever else the machine did meanwhile: speeds are compared by `make bench`.
"""
AGREEMENT = """\
## AutoAttack standard beside pyautoattack

Robust accuracies in per cent, and of how many images two runs say the same. Square draws random numbers, so that
pyautoattack at another seed judges some images differently too; robench should agree with it on no fewer, less a point.
Where inputs are quantised gradients are zero, and Square decides alone.
"""
COLUMNS = "| attack | library | images | accuracy | same | seconds | images/s | |\n|---|---|---|---|---|---|---|---|"


def as_markdown(document: Mapping[str, Any]) -> str:
    """Return the page of a comparison."""
    rows: Rows = document.get("rows", [])
    models = dict.fromkeys(row["model"] for row in rows)
    tables = [f"## {model}\n\n{_table([row for row in rows if row['model'] == model])}" for model in models]
    ends = [_exceptions(), *([_manifest(document["manifest"])] if rows else [])]
    return "\n".join([HEADER, *tables, *_agreement(document.get("agreement")), *ends])


def _agreement(part: Mapping[str, Any] | None) -> list[str]:
    if part is None:
        return []
    return [AGREEMENT, *as_lines(part["rows"]), "", _manifest(part["manifest"], heading="###")]


def _table(rows: Rows) -> str:
    return "\n".join([COLUMNS, *map(_line, rows)]) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    same = "" if row["agreement"] is None else f"{100 * row['agreement']:.1f}"
    cells = [
        row["attack"] if row["library"] == "robench" else "",
        row["library"],
        str(row["num_examples"]),
        f"{100 * row['accuracy']:.1f}",
        same,
        f"{row['seconds']:.1f}",
        f"{row['examples_per_second']:.1f}",
        row["problem"] or ("exception" if (row["attack"], row["library"]) in EXCEPTIONS else ""),
    ]
    return f"| {' | '.join(cells)} |"


def _exceptions() -> str:
    lines = [f"- {attack}, {library}: {reason}." for (attack, library), reason in EXCEPTIONS.items()]
    others = [f"- {name}: {reason}." for name, reason in NOT_COMPARED.items()]
    return "\n".join(["## Exceptions", "", *lines, "", "## Not compared", "", *others, ""])


def _manifest(manifest: Mapping[str, Any], heading: str = "##") -> str:
    versions = ", ".join(f"{name} {release}" for name, release in manifest["versions"].items())
    settings = [f"- {name}: `{_text_of(fields)}`" for name, fields in manifest["settings"].items()]
    return "\n".join(
        [
            f"{heading} What this rests on",
            "",
            f"{manifest['date']}; {manifest['device']}, {manifest['threads']} thread; {versions}.",
            f"First {manifest['num_examples']} images of {manifest['dataset']} or fewer (column images), "
            f"batches of {manifest['batch_size']}, seed {manifest['seed']}.",
            *(f"{name}: measured on {date}." for name, date in manifest.get("measured_later", {}).items()),
            "",
            f"{heading} Settings",
            "",
            *settings,
            "",
        ]
    )


def _text_of(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in fields.items())
