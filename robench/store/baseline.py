"""Baselines, which later results are checked against, and their sealed files of Parquet.

A file has the columns of records. The rows of one record follow those of the other; the envelope in the footer says how
many each has, and of its shard. ``docs/comparing.md`` documents the form.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types

from robench.core.errors import IncomparableError, StoreError, UsageError
from robench.core.files import read_regular, write_whole
from robench.core.records import Record
from robench.store.consistency import DataClaims, Promises
from robench.store.damaged import MAX_BYTES
from robench.store.envelope import build, members_of, provenance_members, provenance_of, shard_of, whole_number
from robench.store.parquet import envelope_of, opened, outcomes_of, sealed, table_of
from robench.store.sealed import DamagedError, NewerFormatError, keeping, with_blank_seal

_MEMBERS = ("protocols", "cells")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """All that must be the same of a suite for its numbers to be comparable, but for weights and data.

    Attributes:
        seed: root of all randomness; ``task`` and ``batch_size`` as of the suite.
        limit: the first examples of each condition that were asked for; None for all.
        dataset: name of the dataset that was given to a suite that names none.
        conditions: key of the dataset and perturbation of each condition, by its name.
        all_examples: whether conditions cover whole datasets in place of numbers of examples that the suite states.
        plugins: version, or digest of the code, of every plug-in of others that decides conditions or metrics, by its
            distribution or module.
    """

    suite: str
    version: int
    seed: int
    task: str
    batch_size: int
    limit: int | None
    dataset: str | None
    models: tuple[str, ...]
    conditions: Mapping[str, str]
    columns: tuple[str, ...]
    plugins: Mapping[str, str]
    all_examples: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Outcomes of some models under some suites.

    Attributes:
        records: one record of each condition and model, from the first example on, under the model's name.
    """

    protocols: tuple[Protocol, ...]
    records: tuple[Record, ...]


def encode_baseline(baseline: Baseline) -> bytes:
    """Return a baseline as sealed Parquet; equal baselines give equal bytes under one release of pyarrow.

    Raises:
        StoreError: there are no records, they are of different tasks, or a text is not Unicode.
    """
    tasks = {record.shard.task for record in baseline.records}
    if len(tasks) != 1:
        raise StoreError(f"a baseline holds outcomes of one task, got {sorted(tasks)}; write one for each")
    cells = [
        {
            "shard": members_of(record.shard),
            "provenance": provenance_members(record.provenance),
            "rows": len(record.outcomes),
        }
        for record in baseline.records
    ]
    members = {"protocols": [_members_of(each) for each in baseline.protocols], "cells": cells}
    text = with_blank_seal(json.dumps(members, sort_keys=True, separators=(",", ":")))
    tables = [table_of(record) for record in baseline.records]
    return sealed(pa.concat_tables(tables).unify_dictionaries().combine_chunks(), text)


def decode_baseline(content: bytes) -> Baseline:
    """Return the baseline that ``encode_baseline`` encoded; raises like all decoders (``envelope``)."""
    file = opened(content)
    members = envelope_of(file)
    if any(not isinstance(members.get(name), list) for name in _MEMBERS):
        raise DamagedError("it is not a baseline")
    cells = members["cells"]
    if not cells:
        raise DamagedError("it has no results")
    if not all(isinstance(cell, dict) for cell in cells):
        raise DamagedError("its cells are not JSON objects")
    shards = [shard_of(cell) for cell in cells]
    outcomes = outcomes_of(file, shards[0].task)
    records, start = [], 0
    for cell, shard in zip(cells, shards, strict=True):
        stop = start + whole_number(cell, "rows")
        records.append(Record(shard=shard, outcomes=outcomes[start:stop], provenance=provenance_of(cell)))
        start = stop
    if start != len(outcomes):
        raise DamagedError(f"it has {len(outcomes)} rows, and its footer says {start}")
    return Baseline(protocols=tuple(map(_protocol, members["protocols"])), records=tuple(records))


def checked_baseline(baseline: Baseline) -> Baseline:
    """Return a baseline; raises DamagedError if its records contradict themselves or each other."""
    promises, claims = Promises(), DataClaims()
    for number, record in enumerate(baseline.records):
        promises.check_record(record)
        claims.add(Path(record.shard.model, f"{record.shard.condition} ({number})"), record)
    if not claims.agree:
        (where, reason), *_ = claims.outvoted().items()
        raise DamagedError(f"results of {where.name} of {where.parent}: {reason}")
    return baseline


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline whole, in place of an existing file; raises like ``encode_baseline``."""
    content = encode_baseline(baseline)
    with keeping(path):
        write_whole(path, content)


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file.

    Raises:
        UsageError: there is no such file, or it cannot be read.
        IncomparableError: it is damaged, no baseline, or of a later robench.
    """
    try:
        return checked_baseline(decode_baseline(read_regular(path, MAX_BYTES)))
    except OSError as error:
        raise UsageError(
            f"the baseline {path} cannot be read: {error.strerror or error}. Write one with 'robench baseline write'"
        ) from error
    except (DamagedError, NewerFormatError) as error:
        raise IncomparableError(
            f"the baseline {path} cannot be used: {error}. Restore it, or write it anew with 'robench baseline write'"
        ) from error


def _members_of(protocol: Protocol) -> dict[str, Any]:
    """Return the fields of a protocol; releases that do not know ``all_examples`` read a baseline without it."""
    members = asdict(protocol)
    return members if protocol.all_examples else {name: members[name] for name in members if name != "all_examples"}


def _protocol(members: Any) -> Protocol:
    if not isinstance(members, dict):
        raise DamagedError("a protocol is not a JSON object")
    lists = {name: tuple(each) for name, each in members.items() if isinstance(each, list)}
    return build(Protocol, {**members, **lists})
