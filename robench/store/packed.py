"""Packs: all records of a measurement in one file, so that a folder of a million shards has a thousand files.

A pack is Parquet like a record, with the rows of all shards one after another. The footer has, in place of a record's
envelope, every distinct header and provenance once, and a list of parts: each with its bounds, rows and times. A pack
holds shards of equal size from the first example on, so that its name says which shards it has.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types

from robench.core.columns import Outcomes
from robench.core.errors import StoreError
from robench.core.records import Provenance, Record
from robench.core.shard import ShardHeader, shard_key
from robench.store.envelope import (
    audit_of,
    members_of,
    members_of_audit,
    provenance_members,
    provenance_of,
    shard_of,
    whole_number,
)
from robench.store.parquet import envelope_of, opened, outcomes_of, sealed, table_of
from robench.store.paths import Extent, extent_named
from robench.store.sealed import PACK_FORMAT, DamagedError, NewerFormatError, with_blank_seal
from robench.tasks import TASKS


def extent_of(records: Sequence[Record]) -> Extent | None:
    """Return the extent of records in any order, or None if they leave gaps, overlap, or differ in size."""
    bounds = sorted((record.shard.start, record.shard.stop) for record in records)
    if not bounds:
        return None
    extent = Extent(size=bounds[0][1] - bounds[0][0], stop=bounds[-1][1])
    # Bounds of a file may be any: no list of a billion shards is made for two.
    is_possible = extent.size > 0 and len(bounds) == -(-extent.stop // extent.size)
    return extent if is_possible and bounds == extent.bounds() else None


def encode_pack(records: Sequence[Record]) -> bytes:
    """Return records of one measurement, of equal size and without gaps, as a sealed pack."""
    ordered = sorted(records, key=lambda record: record.shard.start)
    if extent_of(ordered) is None or len({record.shard.measurement_key for record in ordered}) != 1:
        raise ValueError("a pack holds all shards of one measurement, of equal size and without gaps")
    headers: dict[str, int] = {}
    provenances: dict[str, int] = {}
    parts = [_part(record, headers, provenances) for record in ordered]
    members = {
        "headers": [json.loads(text) for text in headers],
        "provenances": [json.loads(text) for text in provenances],
        "parts": parts,
    }
    try:
        text = with_blank_seal(json.dumps(members, sort_keys=True, separators=(",", ":")), PACK_FORMAT)
    except (TypeError, ValueError) as error:
        title = ordered[0].shard.title
        raise StoreError(f"{title} cannot be packed: its header or provenance is not JSON: {error}") from error
    table = pa.concat_tables([table_of(record) for record in ordered])
    return sealed(table.unify_dictionaries().combine_chunks(), text)


def decode_pack(content: bytes) -> list[Record]:
    """Decode a pack encoded by ``encode_pack``, in the order of the shards; raises like all decoders (``envelope``)."""
    file = opened(content)
    described, counts = _described(envelope_of(file))
    outcomes = outcomes_of(file, described[0].shard.task)
    if sum(counts) != len(outcomes):
        raise DamagedError(f"it has {len(outcomes)} rows, but its parts have {sum(counts)}")
    stops = itertools.accumulate(counts)
    return [
        replace(each, outcomes=outcomes.take(slice(stop - count, stop)))
        for each, count, stop in zip(described, counts, stops, strict=True)
    ]


def decode_pack_description(content: bytes) -> list[Record]:
    """Return the records of a pack without their outcomes."""
    return _described(envelope_of(opened(content)))[0]


def described_record(shard: ShardHeader, provenance: Provenance) -> Record:
    """Return a record without outcomes."""
    if shard.task not in TASKS:
        raise NewerFormatError(f"its task {shard.task!r} is unknown to this robench")
    empty = Outcomes(TASKS[shard.task].outcome, {}, 0)
    return Record(shard=shard, outcomes=empty, provenance=provenance)


def _described(members: Mapping[str, Any]) -> tuple[list[Record], list[int]]:
    """Return the records of a pack's footer without outcomes, and the number of rows of each."""
    headers, provenances, parts = (_mappings(members, name) for name in ("headers", "provenances", "parts"))
    records = []
    for part in parts:
        shard = _shard_of_part(part, headers)
        times = {name: part[name] for name in ("seconds", "finished_at") if name in part}
        provenance = provenance_of({"provenance": _listed(part, "provenance", provenances) | times})
        records.append(replace(described_record(shard, provenance), **audit_of(part)))
    return records, [whole_number(part, "rows") for part in parts]


def _part(record: Record, headers: dict[str, int], provenances: dict[str, int]) -> dict[str, Any]:
    """Return the members of a record's own, and the places of its header and provenance in the lists."""
    shard, provenance = record.shard, record.provenance
    header = {name: value for name, value in members_of(shard).items() if name not in ("key", "start", "stop")}
    members = provenance_members(provenance)
    common = {name: value for name, value in members.items() if name not in ("seconds", "finished_at")}
    part: dict[str, Any] = {
        "header": headers.setdefault(json.dumps(header, sort_keys=True), len(headers)),
        "provenance": provenances.setdefault(json.dumps(common, sort_keys=True), len(provenances)),
        "start": shard.start,
        "stop": shard.stop,
        "rows": len(record.outcomes),
        "seconds": provenance.seconds,
        "finished_at": provenance.finished_at,
    }
    return part | members_of_audit(record)


def pack_at(path: Path, content: bytes, decode: Callable[[bytes], list[Record]] = decode_pack) -> list[Record]:
    """Decode the pack at ``path``, which is damaged if it was copied or renamed."""
    records = decode(content)
    keys = {record.shard.measurement_key for record in records}
    if keys != {path.parent.name} or extent_of(records) != extent_named(path.stem):
        raise DamagedError(f"it is a pack of measurement {', '.join(sorted(keys))}, so it was moved or renamed")
    return records


def _mappings(members: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = members.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise DamagedError(f"its footer lacks {name!r}")
    return found


def _listed(part: Mapping[str, Any], name: str, listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    place = whole_number(part, name)
    if place >= len(listed):
        raise DamagedError(f"its {name} is number {place} of {len(listed)}")
    return dict(listed[place])


def _shard_of_part(part: Mapping[str, Any], headers: Sequence[Mapping[str, Any]]) -> ShardHeader:
    header, start, stop = _listed(part, "header", headers), whole_number(part, "start"), whole_number(part, "stop")
    key = shard_key(str(header.get("measurement_key")), start, stop)
    return shard_of({"shard": {**header, "key": key, "start": start, "stop": stop}})
