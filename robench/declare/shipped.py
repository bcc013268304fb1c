"""Files that come with robench, and entries of its registry to which other registries give weights.

An entry with ``of`` gives weights to an entry of the shipped registry: it inherits what they must fit and how they were
trained, and has location, further seeds, source and licence of its own.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

from robench.core.checkpoint import HUB
from robench.core.errors import did_you_mean
from robench.declare.document import Document, Place, Problem, Value, show
from robench.declare.schema import construct
from robench.declare.yaml_source import read_yaml

_REGISTRY = "checkpoints.yaml"
_FIXED = ("architecture", "preprocessing", "task", "training", "trained_on", "coupled", "patches")
_INHERITED = (*_FIXED, "training_data", "paper", "code")


def shipped_folder() -> Path:
    """Return the folder with checkpoints.yaml, checkpoints/, suites/ and reports/published/."""
    package = Path(__file__).resolve().parents[1]
    return package.parent if (package.parent / _REGISTRY).is_file() else package / "shipped"


def is_clone() -> bool:
    """Return whether this is a clone, with all published weights; an installed wheel has those of ``make demo``."""
    return shipped_folder() == Path(__file__).resolve().parents[2]


def shipped_registry() -> Path:
    """Return the registry that comes with robench."""
    return shipped_folder() / _REGISTRY


def shipped_suites() -> dict[str, Path]:
    """Return the suites that come with robench, by name."""
    return {path.stem: path for path in sorted((shipped_folder() / "suites").glob("*.yaml"))}


def shipped_for(document: Document) -> Document | None:
    """Return the shipped registry if an entry of the document gives weights to one of its entries."""
    gives = any(document.at("checkpoints", name, "of") is not None for name in document.mapping_at("checkpoints"))
    return read_yaml(shipped_registry()) if gives else None


def with_inherited(document: Document, shipped: Document) -> tuple[Document, list[Problem]]:
    """Return a registry whose entries with ``of`` have the fields that they inherit, and the problems of ``of``.

    Entries with such a problem are left out of the document.
    """
    entries = document.mapping_at("checkpoints")
    giving = {name: entry for name, entry in entries.items() if isinstance(entry, dict) and entry.get("of") is not None}
    if not giving:
        return document, []
    known = shipped.mapping_at("checkpoints")
    problems: list[Problem] = []
    whole = dict(entries)
    for name, entry in giving.items():
        base = entry["of"]
        if isinstance(base, str) and base in known:
            whole[name] = _seeded(_inherited(shipped, base) | entry)
            continue
        wrong = f"must be the name of an entry of the shipped registry, got {show(base)}"
        if isinstance(base, str):
            wrong = f"unknown entry {show(base)} of the shipped registry.{did_you_mean(base, known)}"
        problems.append(document.problem(("checkpoints", name, "of"), wrong))
        del whole[name]
    return replace(document, value={**document.mapping_at(), "checkpoints": whole}), problems


def _seeded(entry: dict[str, Value]) -> dict[str, Value]:
    """Return an entry whose training has its ``seed`` if there is one."""
    training, seed = entry.get("training"), entry.get("seed")
    return (
        entry | {"training": {**training, "seed": seed}} if isinstance(training, dict) and seed is not None else entry
    )


def differences(document: Document, name: str, base: str, entry: object, shipped: Document) -> Iterator[Problem]:
    """Yield a problem for each field of an entry with ``of`` that is not as in the shipped entry.

    The training may have another seed. ``entry`` is the one called ``name`` in the document.
    """
    anywhere: Value = {"uri": "anywhere", "sha256": None}
    theirs = construct(type(entry), _inherited(shipped, base) | {"weights": anywhere})
    for field in _FIXED:
        ours, wanted = getattr(entry, field), getattr(theirs, field)
        if field == "training" and ours is not None and wanted is not None:
            wanted = wanted.seeded(ours.seed)
        if ours != wanted:
            place, found, expected = _first_difference(ours, wanted)
            message = (
                f"must be {_shown(expected)} as in {base!r}, to which these weights belong, got {_shown(found)}; remove"
                " the field, or remove 'of' and state every field"
            )
            yield document.problem(("checkpoints", name, field, *place), message)


def _inherited(shipped: Document, base: str) -> dict[str, Value]:
    entry = shipped.mapping_at("checkpoints", base)
    found = {name: entry[name] for name in _INHERITED if name in entry}
    training = ("checkpoints", base, "training")
    for below in (("initial_weights",), ("vocabulary",), ("teacher", "weights")):
        weights = shipped.mapping_at(*training, *below)
        if isinstance(uri := weights.get("uri"), str) and not uri.startswith(HUB):
            # Relative to the shipped registry, wherever the entry that inherits it is.
            moved: Value = {**weights, "uri": str(shipped_folder() / uri)}
            for depth in range(len(below), 0, -1):
                moved = {**shipped.mapping_at(*training, *below[: depth - 1]), below[depth - 1]: moved}
            found["training"] = moved
    return found


def _first_difference(ours: object, theirs: object) -> tuple[Place, object, object]:
    """Return the place of the first field in which two declarations differ, and both values."""
    if type(ours) is type(theirs) and is_dataclass(ours):
        for field in fields(ours):
            one, other = getattr(ours, field.name), getattr(theirs, field.name)
            if one != other:
                below, found, expected = _first_difference(one, other)
                return (field.name, *below), found, expected
    return (), getattr(ours, "kind", ours), getattr(theirs, "kind", theirs)


def _shown(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else show(value)
