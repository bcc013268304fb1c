"""Files of format 1, written before outcomes were columns, are read as ever."""

import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from examples import HEADER, PROVENANCE, everything, failure_of, outcome_of, record_of
from robench.core.shard import shard_key
from robench.store import FolderStore
from robench.store.envelope import decode_failure
from robench.store.parquet import decode_description, decode_record
from robench.store.paths import Paths
from robench.store.sealed import seal

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1"
SHARD = replace(HEADER, key="a" * 32, start=0, stop=3)
SOUND = replace(SHARD, key=shard_key(HEADER.measurement_key, 0, 3))
ROWS = [
    outcome_of(
        "digits-00000", True, linf=8 / 255, l2=0.5, l1=None, num_queries=21, num_gradients=20, loss_nats=math.nan
    ),
    outcome_of("digits-00001", False, correct_top5=None, confidence=None, loss_nats=None),
    outcome_of("digits-00002", True, num_predictions=5, num_correct=4, loss_nats=0.7),
]


def test_a_record_has_the_outcomes_that_were_kept() -> None:
    content = (GOLDEN / "record.parquet").read_bytes()
    assert decode_record(content) == record_of(SHARD, ROWS)
    assert decode_description(content).provenance == PROVENANCE


def test_a_failure_is_read() -> None:
    assert decode_failure((GOLDEN / "failure.json").read_bytes()) == failure_of(SHARD)


def sound_record() -> bytes:
    """The record of the file with a key of its own, and without a loss that no model has."""
    table = pq.read_table(GOLDEN / "record.parquet")
    losses = pa.array([math.log(2), None, math.log(2)], pa.float64())
    place = table.schema.get_field_index("loss_nats")
    table = table.set_column(place, table.schema.field("loss_nats"), losses)
    text = table.schema.metadata[b"robench"].decode().replace(SHARD.key, SOUND.key)
    text = re.sub(r'"sha256":"[0-9a-f]{64}"', f'"sha256":"{"0" * 64}"', text)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(table.replace_schema_metadata(None))
        writer.add_key_value_metadata({"robench": text})
    return seal(sink.getvalue())


def test_a_folder_without_manifest_is_read_and_gets_one_with_its_next_record(tmp_path: Path) -> None:
    path = Paths(tmp_path).record(SOUND)
    path.parent.mkdir(parents=True)
    path.write_bytes(sound_record())
    rows = [replace(ROWS[0], loss_nats=math.log(2)), ROWS[1], replace(ROWS[2], loss_nats=math.log(2))]
    store = FolderStore(tmp_path)
    assert store.keys() == {SOUND.key}
    assert [each.shard for each in store.manifests()] == [SOUND]
    assert everything(store) == [record_of(SOUND, rows)]
    later = replace(HEADER, key=shard_key(HEADER.measurement_key, 3, 6), start=3, stop=6)
    store.put(record_of(later))
    assert Paths(tmp_path).manifest(SOUND.measurement_key).exists()
    assert everything(store) == [record_of(SOUND, rows), record_of(later)]
