"""File names: one place each, below the results folder, and never one that escapes it."""

import dataclasses
from pathlib import Path

import pytest

from examples import HEADER
from robench.core.errors import StoreError
from robench.store.damaged import check_place
from robench.store.paths import FAILURE_SUFFIX, RECORD_SUFFIX, Paths, kept_files, measurement_folders
from robench.store.sealed import DamagedError, candidate

SHARD = dataclasses.replace(HEADER, key="a1" * 16, measurement_key="b2" * 16, checkpoint="../../etc", condition="a/b")
PATHS = Paths(Path("/results"))


def test_the_layout_is_the_documented_one() -> None:
    assert PATHS.record(SHARD) == Path("/results/records") / ("b2" * 16) / f"{'a1' * 16}.parquet"
    assert PATHS.failure(SHARD) == Path("/results/failures") / ("b2" * 16) / f"{'a1' * 16}.json"
    examples = PATHS.adversarial_examples(SHARD.measurement_key, SHARD.key)
    assert examples == Path("/results/adversarial") / ("b2" * 16) / f"{'a1' * 16}.safetensors"


@pytest.mark.parametrize(
    "key", ["", ".", "..", "../a", "/etc/passwd", "a/b", "a\\b", "a\x00b", "A", ".hidden", "a" * 65, "a\n", "é", "~"]
)
@pytest.mark.parametrize("field", ["key", "measurement_key"])
def test_a_key_that_could_escape_or_hide_names_no_file(field: str, key: str) -> None:
    shard = dataclasses.replace(SHARD, **{field: key})  # type: ignore[arg-type]  # both fields are text
    for place in (PATHS.record, PATHS.failure):
        with pytest.raises(StoreError, match="cannot name a file"):
            place(shard)


def test_unfinished_files_lie_beside_what_they_become_under_names_of_their_own() -> None:
    path = PATHS.record(SHARD)
    names = {candidate(path).name for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(f".{path.name}.") and name.endswith(".part") for name in names)
    assert candidate(path).parent == path.parent


def test_readers_pass_by_unfinished_hidden_and_foreign_files(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet", ".a.parquet.1-ff.part", "._a.parquet", "notes.txt", "a.json", ".DS_Store"):
        (tmp_path / name).touch()
    assert [path.name for path in kept_files(tmp_path, RECORD_SUFFIX)] == ["a.parquet", "b.parquet"]
    assert [path.name for path in kept_files(tmp_path, FAILURE_SUFFIX)] == ["a.json"]


def test_measurements_are_folders_by_key(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert [path.name for path in measurement_folders(tmp_path)] == ["a", "b"]


def test_parts_are_found_at_every_depth_and_nothing_else_is(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    examples = paths.adversarial_examples(SHARD.measurement_key, SHARD.key)
    for part in (paths.probe(), *map(candidate, (paths.record(SHARD), paths.failure(SHARD), examples))):
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    paths.record(SHARD).touch()
    (tmp_path / ".mine.part").touch()
    assert len(list(paths.temporary())) == 4


def test_a_file_is_where_it_belongs_or_was_moved() -> None:
    check_place(PATHS.record(SHARD), SHARD)
    check_place(PATHS.failure(SHARD), SHARD)
    for other in (PATHS.record(SHARD).with_stem("ff"), PATHS.records / "ff" / PATHS.record(SHARD).name):
        with pytest.raises(DamagedError, match="moved here"):
            check_place(other, SHARD)
