"""Files that come with robench, and entries that take fields from others.

An entry with ``of`` gives weights to an entry of the shipped registry: it inherits what they must fit and how they were
trained, and has location, further seeds, source and licence of its own. An entry with ``like`` is another model: it
takes the same from an entry of its own file or of the shipped registry, and may replace any of it. One with
``smoothed`` is another entry's model under noise: it takes the weights too, and replaces nothing.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

from robench.core.checkpoint import HUB
from robench.core.errors import did_you_mean
from robench.declare.document import MAX_DEPTH, Document, Place, Problem, Value, show
from robench.declare.schema import FAMILIES, construct
from robench.declare.yaml_source import read_yaml

_REGISTRY = "checkpoints.yaml"
_FIXED = ("architecture", "preprocessing", "task", "training", "trained_on", "coupled", "patches")
_INHERITED = (*_FIXED, "training_data", "paper", "code")
_TAKEN = (*_FIXED, "training_data")
_SMOOTHED = (*_INHERITED, "weights", "source", "licence")
_BESIDE_SMOOTHED = ("smoothed", "source", "licence", "paper", "code", "expected")
_BASES = ("smoothed", "like", "of")
# Of these, an entry with ``like`` takes the fields that it does not state.
MERGED = ("architecture", "training")


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


def with_inherited(document: Document) -> Document:
    """Return a registry whose entries with ``of``, ``like`` or ``smoothed`` state all their fields, with problems.

    Entries with such a problem are left out.
    """
    whole, problems, shipped = dict(document.mapping_at("checkpoints")), list(document.problems), None
    for name, entry in document.mapping_at("checkpoints").items():
        bases = [each for each in _BASES if isinstance(entry, dict) and entry.get(each) is not None]
        if not bases:
            continue
        shipped = shipped or read_yaml(shipped_registry())
        try:
            whole[name] = _whole(name, document, shipped)
        except ValueError as error:
            problems.append(document.problem(("checkpoints", name, bases[0]), str(error)))
            del whole[name]
    if shipped is None:
        return document
    return replace(document, value=document.mapping_at() | {"checkpoints": whole}, problems=tuple(problems))


def _whole(name: str, document: Document, shipped: Document, above: tuple[str, ...] = ()) -> dict[str, Value]:
    """Return an entry with all its fields; those ``above`` are like it.

    Raises:
        ValueError: ``of``, ``like`` or ``smoothed`` names no entry, two are given, or the entry is like itself.
    """
    own, known = document.mapping_at("checkpoints"), shipped.mapping_at("checkpoints")
    entry, subject = document.mapping_at("checkpoints", name), f"{name!r}: " if above else ""
    like, of = entry.get("like"), entry.get("of")
    if entry.get("smoothed") is not None:
        return _smoothed(name, document, shipped)
    if like is None and of is None:
        return entry
    if like is not None and of is not None:
        raise ValueError(f"{subject}must not be given beside 'of', whose entry stays as it is; remove one of the two")
    base, where, known = (of, " of the shipped registry", known) if like is None else (like, "", known | own)
    if not isinstance(base, str):
        raise ValueError(f"{subject}must be the name of an entry{where}, got {show(base)}")
    if base not in known:
        raise ValueError(f"{subject}unknown entry {show(base)}{where}.{did_you_mean(base, known)}")
    if like is None:
        return _seeded(_inherited(shipped, base) | entry)
    path = (*above, name)
    if base in path or len(path) > MAX_DEPTH:
        raise ValueError(f"must lead to an entry that is like no other, got {' -> '.join((*path, base))}")
    theirs = _whole(base, document, shipped, path) if base in own else _inherited(shipped, base)
    stated = {field: _merged(field, theirs.get(field), value) for field, value in entry.items() if field != "like"}
    return {field: theirs[field] for field in _TAKEN if field in theirs} | stated


def _smoothed(name: str, document: Document, shipped: Document) -> dict[str, Value]:
    """Return an entry with ``smoothed`` with the fields and weights of the entry that it names."""
    own, known = document.mapping_at("checkpoints"), shipped.mapping_at("checkpoints")
    entry = document.mapping_at("checkpoints", name)
    if others := [field for field in entry if field not in _BESIDE_SMOOTHED]:
        raise ValueError(f"must be given without {', '.join(others)}: a smoothed model has those of its checkpoint")
    stated = entry["smoothed"]
    base = stated.get("checkpoint") if isinstance(stated, dict) else None
    if not isinstance(base, str):
        raise ValueError(f"must be a mapping such as {{checkpoint: NAME, sigma: 1/4}}, got {show(stated)}")
    of, _, seed = base.partition("@")
    if of not in known | own:
        raise ValueError(f"checkpoint: unknown entry {show(of)}.{did_you_mean(of, known | own)}")
    source = document if of in own else shipped
    if source.at("checkpoints", of, "smoothed") is not None:
        raise ValueError(f"checkpoint: must not be smoothed itself, and {show(of)} is")
    theirs = _whole(of, source, shipped)
    if seed:
        theirs = theirs | {"weights": _weights_of_seed(theirs, base, seed)}
    if of not in own and isinstance(theirs.get("weights"), dict):
        theirs = theirs | {"weights": _moved(theirs["weights"])}
    return {field: theirs[field] for field in _SMOOTHED if field in theirs and field != "training"} | entry


def _weights_of_seed(entry: dict[str, Value], name: str, seed: str) -> Value:
    """Return the weights of a further training of an entry."""
    listed, weights = entry.get("seeds"), entry.get("weights")
    items = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    found = next((each for each in items if str(each.get("seed")) == seed), None)
    if found is None or not isinstance(weights, dict):
        there = ", ".join(str(each.get("seed")) for each in items) or "none"
        raise ValueError(f"checkpoint: its entry has no training {show(name)}; its further seeds are {there}")
    return {"by": weights.get("by", "user")} | {name: found[name] for name in ("uri", "sha256", "by") if name in found}


def _merged(field: str, theirs: Value, own: Value) -> Value:
    """Return the value of a field of an entry that is like another; a part of the same kind has its other fields."""
    if field not in MERGED or not isinstance(theirs, dict) or not isinstance(own, dict):
        return own
    tags = (FAMILIES[field].tag, FAMILIES[field].alias)
    before, stated = ([each[tag] for tag in tags if tag in each] for each in (theirs, own))
    if stated and stated != before:
        return own
    return {name: value for name, value in theirs.items() if not (stated and name in tags)} | own


def _seeded(entry: dict[str, Value]) -> dict[str, Value]:
    """Return an entry whose training has its ``seed`` if there is one."""
    training, seed = entry.get("training"), entry.get("seed")
    return (
        entry | {"training": {**training, "seed": seed}} if isinstance(training, dict) and seed is not None else entry
    )


def differences(document: Document, name: str, base: str, entry: object) -> Iterator[Problem]:
    """Yield a problem for each field of an entry with ``of`` that is not as in the shipped entry.

    The training may have another seed. ``entry`` is the one called ``name`` in the document.
    """
    anywhere: Value = {"uri": "anywhere", "sha256": None}
    theirs = construct(type(entry), _inherited(read_yaml(shipped_registry()), base) | {"weights": anywhere})
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
    entry = _whole(base, shipped, shipped)
    found = {name: entry[name] for name in _INHERITED if name in entry}
    return found | {"training": _moved(found["training"])} if "training" in found else found


def _moved(recipe: Value) -> Value:
    """Return a recipe of the shipped registry whose files are where they are, wherever an entry that takes it is."""
    if not isinstance(recipe, dict):
        return recipe
    moved = {name: _moved(value) for name, value in recipe.items()}
    if isinstance(uri := recipe.get("uri"), str) and not uri.startswith(HUB):
        moved["uri"] = str(shipped_folder() / uri)
    return moved


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
