"""Envelopes of records and failures as JSON: the shard, and the provenance of its measurement.

Any Python text survives the round trip, including undecodable bytes of file names. The only exception is a high
surrogate followed by a low one, which JSON merges into one character.

All decoders of this layer raise a ``DamagedError`` where the bytes changed after writing or a field is
missing, and a ``NewerFormatError`` where a later robench wrote them.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from robench.core.errors import StoreError
from robench.core.flags import Flag, Observations
from robench.core.records import Failure, Manifest, Provenance, Record
from robench.core.shard import DatasetIdentity, ShardHeader
from robench.store.sealed import DamagedError, NewerFormatError, check_seal, seal, with_blank_seal

Noun = TypeVar("Noun")
# Whole numbers up to here are exact as floats.
_LARGEST = 1 << 53
_PLAIN: frozenset[type] = frozenset({str, int, bool, float, type(None)})
Json = str | list[dict[str, Any]]


def envelope_text(shard: ShardHeader, provenance: Provenance, **further: Json) -> str:
    """Return the envelope, with further members, as ASCII JSON that ends in a blank seal; equal values give equal text.

    Raises:
        StoreError: a value cannot be represented in JSON.
    """
    members = {"shard": members_of(shard), "provenance": provenance_members(provenance)}
    try:
        return with_blank_seal(json.dumps(members | further, sort_keys=True, separators=(",", ":")))
    except (TypeError, ValueError) as error:
        raise StoreError(f"{shard.title} cannot be kept: its header or provenance is not JSON: {error}") from error


def members_of(shard: ShardHeader) -> dict[str, Any]:
    """Return a shard as JSON values, which ``shard_of`` reads back from an envelope's ``shard``.

    Fields at their default are left out, so that records from before a field existed keep their bytes. A robench that
    does not know a field refuses the record instead of showing its numbers unmarked.
    """
    found = {each.name: (getattr(shard, each.name), each.default) for each in dataclasses.fields(shard)}
    members = {name: value for name, (value, default) in found.items() if value != default}
    return members | {"dataset": dataclasses.asdict(shard.dataset)}


def provenance_members(provenance: Provenance) -> dict[str, Any]:
    """Return a provenance as JSON values, which ``provenance_of`` reads back from an envelope's ``provenance``."""
    members = {each.name: getattr(provenance, each.name) for each in dataclasses.fields(provenance)}
    members["versions"] = dict(provenance.versions)
    return {name: each for name, each in members.items() if each is not None or name not in ("suite", "rows_per_pass")}


def read_envelope(text: str | bytes) -> Mapping[str, Any]:
    """Return the members of an envelope."""
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"its envelope is not JSON: {error}") from error
    if not isinstance(members, dict):
        raise DamagedError("its envelope is not a JSON object")
    return members


def shard_of(members: Mapping[str, Any]) -> ShardHeader:
    """Return the shard of an envelope."""
    fields = _member(members, "shard")
    return build(ShardHeader, {**fields, "dataset": build(DatasetIdentity, _member(fields, "dataset"))})


def members_of_audit(record: Record) -> dict[str, list[dict[str, Any]]]:
    """Return the fields of a record that only audits have as JSON values, without empty ones."""
    found = {
        "flags": [dataclasses.asdict(each) for each in record.flags],
        "observations": [dataclasses.asdict(each) for each in record.observations],
    }
    return {name: each for name, each in found.items() if each}


def audit_of(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that only audits have, read back from an envelope."""
    flags = tuple(build(Flag, flag) for flag in _objects(members, "flags"))
    observations = tuple(build(Observations, _as_tuples(each)) for each in _objects(members, "observations"))
    if any(len(set(map(len, each.columns))) > 1 for each in observations):
        raise DamagedError("its observations have columns of several lengths")
    return {"flags": flags, "observations": observations}


def _objects(members: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = members.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise DamagedError(f"its {name} are not a list of JSON objects")
    return found


def _as_tuples(value: Any) -> Any:
    """Return JSON values with tuples in the place of lists."""
    if isinstance(value, dict):
        return {name: _as_tuples(each) for name, each in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def provenance_of(members: Mapping[str, Any]) -> Provenance:
    """Return the provenance of an envelope's shard."""
    return build(Provenance, _member(members, "provenance"))


def encode_failure(failure: Failure) -> bytes:
    """Return a failure as sealed JSON; equal failures give equal bytes; raises like ``envelope_text``."""
    texts = {"error": failure.error, "traceback": failure.traceback}
    return seal(envelope_text(failure.shard, failure.provenance, **texts).encode("ascii"))


def decode_failure(content: bytes) -> Failure:
    """Decode a failure encoded by ``encode_failure``."""
    check_seal(content)
    members = read_envelope(content)
    texts = {name: members[name] for name in ("error", "traceback") if name in members}
    return build(Failure, {**texts, "shard": shard_of(members), "provenance": provenance_of(members)})


def encode_manifest(record: Record) -> bytes:
    """Return the manifest of a record's measurement as sealed JSON; raises like ``envelope_text``."""
    return seal(envelope_text(record.shard, record.provenance).encode("ascii"))


def decode_manifest(content: bytes) -> Manifest:
    """Decode a manifest encoded by ``encode_manifest``."""
    check_seal(content)
    members = read_envelope(content)
    return Manifest(shard=shard_of(members), provenance=provenance_of(members))


def build(noun: type[Noun], fields: Mapping[str, Any]) -> Noun:
    """Return a dataclass from its fields; fields added later with a default may be missing.

    Raises:
        DamagedError: a field without default is missing, or has another type than declared.
        NewerFormatError: a field is unknown.
    """
    types = _types_of(noun)  # type: ignore[arg-type]  # mypy takes a class of any noun for one without a hash
    if unknown := sorted(fields.keys() - types.keys()):
        raise NewerFormatError(f"its {noun.__name__} has fields that this robench does not know: {', '.join(unknown)}")
    for name, value in fields.items():
        exact, accepts = types[name]
        if type(value) not in exact and not accepts(value):
            raise DamagedError(f"its {name} is {value!r:.60}, wanted {_described(noun, name)}")
    try:
        return noun(**fields)
    except TypeError as error:
        raise DamagedError(f"its {noun.__name__} is incomplete: {error}") from error


def whole_number(members: Mapping[str, Any], name: str) -> int:
    """Return a member that is a whole number of at least 0."""
    found = members.get(name)
    if type(found) is not int or found < 0:
        raise DamagedError(f"its {name} must be a whole number, got {found!r:.60}")
    return found


@cache
def _types_of(noun: type[Any]) -> Mapping[str, tuple[frozenset[type], Callable[[Any], bool]]]:
    """Return for each field of a dataclass types that it takes as they are, and whether it takes a value."""
    hints = {field.name: get_type_hints(noun)[field.name] for field in dataclasses.fields(noun)}
    options = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}
    return {name: (_PLAIN.intersection(options[name]), _accepts(hint)) for name, hint in hints.items()}


def _accepts(hint: Any) -> Callable[[Any], bool]:
    arguments = get_args(hint)
    if isinstance(hint, UnionType):
        several = [*map(_accepts, arguments)]
        return lambda value: any(accepts(value) for accepts in several)
    if arguments:
        # Mappings and tuples, of values of one type.
        outer, inner = get_origin(hint), _accepts(arguments[-1 if get_origin(hint) is Mapping else 0])
        return lambda value: (
            isinstance(value, outer) and all(map(inner, value.values() if isinstance(value, Mapping) else value))
        )
    if hint is float:
        return lambda value: type(value) is float or (type(value) is int and abs(value) < _LARGEST)
    # A truth value does not count as a whole number.
    return lambda value: isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _described(noun: type[Any], name: str) -> str:
    hint = get_type_hints(noun)[name]
    return getattr(hint, "__name__", str(hint)) if not get_args(hint) else str(hint)


def _member(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = members.get(name)
    if not isinstance(member, dict):
        raise DamagedError(f"its envelope lacks {name!r}")
    return member
