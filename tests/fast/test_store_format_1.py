"""Files of format 1, written before outcomes were columns, are read as ever."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from shutil import copyfile

from examples import HEADER, PROVENANCE, everything, failure_of, outcome_of, record_of
from robench.store import FolderStore
from robench.store.envelope import decode_failure
from robench.store.parquet import decode_description, decode_record
from robench.store.paths import Paths

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1"
SHARD = replace(HEADER, start=0, stop=3)
ROWS = [
    outcome_of(
        "digits-00000", True, linf=8 / 255, l2=0.5, l1=None, num_queries=21, num_gradients=20, loss_nats=math.nan
    ),
    outcome_of("digits-00001", False, correct_top5=None, confidence=None, loss_nats=None),
    outcome_of("digits-00002", True, num_predictions=5, num_correct=4),
]


def test_a_record_has_the_outcomes_that_were_kept() -> None:
    content = (GOLDEN / "record.parquet").read_bytes()
    assert decode_record(content) == record_of(SHARD, ROWS)
    assert decode_description(content).provenance == PROVENANCE


def test_a_failure_is_read() -> None:
    assert decode_failure((GOLDEN / "failure.json").read_bytes()) == failure_of(SHARD)


def test_a_folder_without_manifest_is_read_and_gets_one_with_its_next_record(tmp_path: Path) -> None:
    path = Paths(tmp_path).record(SHARD)
    path.parent.mkdir(parents=True)
    copyfile(GOLDEN / "record.parquet", path)
    store = FolderStore(tmp_path)
    assert store.keys() == {SHARD.key}
    assert [each.shard for each in store.manifests()] == [SHARD]
    assert everything(store) == [record_of(SHARD, ROWS)]
    later = replace(HEADER, key="9" * 32, start=3, stop=6)
    store.put(record_of(later))
    assert Paths(tmp_path).manifest(SHARD.measurement_key).exists()
    assert everything(store) == [record_of(SHARD, ROWS), record_of(later)]
