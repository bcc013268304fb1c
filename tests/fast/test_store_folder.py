"""A folder of results: what happens when files are damaged, moved, unreadable or of another time."""

import dataclasses
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from presence import present

from examples import HEADER, NEXT_HEADER, everything, failure_of, header_of, record_of
from robench.core import files
from robench.core.errors import StoreError, StoreUnwritableError
from robench.core.outcomes import Outcome
from robench.core.records import Failure, Record
from robench.core.shard import ShardHeader
from robench.store import FolderStore, MemoryStore, adversarial, damaged
from robench.store import sealed as seal_module
from robench.store.paths import Paths
from robench.store.sealed import candidate
from robench.store.upkeep import compact_store
from robench.tasks import TASKS, Task


def file_of(store: FolderStore, shard: ShardHeader = HEADER) -> Path:
    return Paths(store.path).record(shard)


def aside(store: FolderStore) -> list[str]:
    folder = store.path / "damaged"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def keys_read(store: FolderStore) -> set[str]:
    """Read all records, which sets damaged ones aside, and return the keys of the others."""
    keys = {record.shard.key for record in everything(store)}
    assert keys <= store.keys()
    return keys


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "results")
    store.put(record_of(HEADER))
    store.put(record_of(NEXT_HEADER))
    return store


Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "zero bytes": lambda content: b"",
    "no Parquet": lambda content: b"<html>404 Not Found</html>",
    "half of it": lambda content: content[: len(content) // 2],
    "without its last byte": lambda content: content[:-1],
    "without its first byte": lambda content: content[1:],
    "zeros": lambda content: bytes(len(content)),
    "twice": lambda content: content * 2,
    "another seed in the footer": lambda content: content.replace(b'"seed":0', b'"seed":1'),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
class TestDamage:
    def test_once_read_the_shard_is_left_out_and_its_file_set_aside_as_it_was(
        self, store: FolderStore, damage: Damage, caplog: pytest.LogCaptureFixture
    ) -> None:
        damaged = damage(file_of(store).read_bytes())
        file_of(store).write_bytes(damaged)
        assert store.keys() == {HEADER.key, NEXT_HEADER.key}
        assert store.num_lost == 0
        assert keys_read(store) == store.keys() == {NEXT_HEADER.key}
        assert store.num_lost == 1
        assert not store.has(HEADER.measurement_key, HEADER.key)
        assert not file_of(store).exists()
        place = store.path / "damaged" / f"{HEADER.key}.parquet-1"
        assert place.read_bytes() == damaged
        (warning,) = caplog.records
        assert (warning.name, warning.levelno) == ("robench.store", logging.WARNING)
        for told in (str(file_of(store)), str(place), "is damaged", "measures it again"):
            assert told in warning.getMessage()

    def test_the_shard_can_be_put_again_even_over_the_damaged_file(self, store: FolderStore, damage: Damage) -> None:
        file_of(store).write_bytes(damage(file_of(store).read_bytes()))
        store.put(record_of(HEADER))
        assert everything(store) == [record_of(HEADER), record_of(NEXT_HEADER)]
        assert aside(store) == [f"{HEADER.key}.parquet-1"]


def test_what_is_set_aside_never_replaces_what_was_set_aside_before(store: FolderStore) -> None:
    for content in (b"first", b"second", b"third"):
        file_of(store).write_bytes(content)
        keys_read(store)
    kept = [(store.path / "damaged" / f"{HEADER.key}.parquet-{number}").read_bytes() for number in (1, 2, 3)]
    assert kept == [b"first", b"second", b"third"]


def test_a_damaged_file_that_cannot_be_moved_is_passed_by_with_a_warning(
    store: FolderStore, caplog: pytest.LogCaptureFixture
) -> None:
    (store.path / "damaged").touch()
    file_of(store).write_bytes(b"")
    assert keys_read(store) == {NEXT_HEADER.key}
    assert everything(store) == [record_of(NEXT_HEADER)]
    assert "cannot be set aside" in caplog.text
    with pytest.raises(StoreError, match="damaged and cannot be replaced"):
        store.put(record_of(HEADER))


def test_a_file_that_another_process_takes_away_meanwhile_is_passed_by(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = files.read_regular

    def vanish(path: Path, max_bytes: int) -> bytes:
        path.unlink()
        return read(path, max_bytes)

    monkeypatch.setattr(damaged, "read_regular", vanish)
    assert keys_read(store) == set()
    assert caplog.records == []


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), FileNotFoundError(2, "No such file")])
def test_a_failed_move_leaves_no_empty_file_behind_and_what_another_process_took_is_left_to_it(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: OSError
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise error

    file_of(store).write_bytes(b"")
    monkeypatch.setattr(Path, "replace", refuse)
    assert keys_read(store) == {NEXT_HEADER.key}
    assert len(caplog.records) == isinstance(error, PermissionError)
    assert aside(store) == []


@pytest.mark.parametrize(("moves", "is_kept"), [(1, True), (2, True), (3, False)])
def test_a_folder_that_is_moved_while_a_record_is_written_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int, is_kept: bool
) -> None:
    store = FolderStore(tmp_path)
    write, left = seal_module.write_whole, [moves]

    def moved_away(path: Path, content: bytes) -> None:
        write(path, content)
        if path.parent.parent == store.path / "records" and left[0]:
            left[0] -= 1
            path.parent.rename(store.path / f"aside-{left[0]}")

    monkeypatch.setattr(seal_module, "write_whole", moved_away)
    if is_kept:
        store.put(record_of(HEADER))
        assert store.has(HEADER.measurement_key, HEADER.key)
        return
    with pytest.raises(StoreError, match=r"could not be written: No such file.*'robench store gc --apply'"):
        store.put(record_of(HEADER))


@pytest.mark.parametrize("result", [record_of(HEADER), failure_of(HEADER)], ids=["record", "failure"])
@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), FileExistsError(17, "found, and then gone")])
def test_a_folder_that_goes_once_while_anything_is_written_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Record | Failure, error: OSError
) -> None:
    raised = [error]
    mkdir = Path.mkdir

    def vanishing(path: Path, *arguments: object, **options: object) -> None:
        if path.name == HEADER.measurement_key and raised:
            raise raised.pop()
        mkdir(path, *arguments, **options)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Path, "mkdir", vanishing)
    store = FolderStore(tmp_path)
    store.put(result)
    assert [*everything(store), *store.failures()] == [result]
    assert not raised


def test_a_folder_that_is_moved_while_a_run_begins_leaves_results_writable(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def moved(path: str | Path = ".") -> object:
        if Path(path).name == HEADER.measurement_key:
            Path(path).rename(store.path / "aside")
        return scan(path)

    monkeypatch.setattr(os, "scandir", moved)
    store.check_writable()
    assert (store.path / "aside").exists()


@pytest.mark.parametrize(
    "look",
    [lambda store: store.record(HEADER), lambda store: next(iter(store.outline(HEADER.measurement_key)), None)],
    ids=["record", "outline"],
)
def test_a_record_that_is_packed_while_it_is_read_is_read_from_the_pack(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, look: Callable[[FolderStore], Record | None]
) -> None:
    read = files.read_regular

    def packed(path: Path, max_bytes: int) -> bytes:
        monkeypatch.setattr(damaged, "read_regular", read)
        assert compact_store(FolderStore(store.path)).num_packed == 1
        return read(path, max_bytes)

    monkeypatch.setattr(damaged, "read_regular", packed)
    found = present(look(store))
    assert found.shard == HEADER


def test_a_copied_or_renamed_record_counts_for_no_other_shard(store: FolderStore) -> None:
    file_of(store).rename(file_of(store).with_stem("9" * 32))
    elsewhere = store.path / "records" / ("8" * 32)
    elsewhere.mkdir()
    file_of(store, NEXT_HEADER).rename(elsewhere / file_of(store, NEXT_HEADER).name)
    assert keys_read(store) == store.keys() == set()
    assert len(aside(store)) == 2


class TestManifests:
    def manifest(self, store: FolderStore) -> Path:
        return Paths(store.path).manifest(HEADER.measurement_key)

    def asked(self, store: FolderStore) -> list[ShardHeader]:
        asked: list[ShardHeader] = []

        def refuse(shard: ShardHeader) -> bool:
            asked.append(shard)
            return False

        assert list(store.records(refuse)) == []
        return asked

    def test_selection_asks_with_the_header_of_the_first_record_and_opens_no_other_file(
        self, store: FolderStore
    ) -> None:
        for shard in (HEADER, NEXT_HEADER):
            file_of(store, shard).write_bytes(b"")
        assert self.asked(store) == [HEADER]
        assert aside(store) == []
        assert everything(store) == []

    @pytest.mark.parametrize("content", [None, b"", b"{}"])
    def test_without_a_whole_one_the_first_readable_record_says_the_same(
        self, store: FolderStore, content: bytes | None
    ) -> None:
        self.manifest(store).unlink()
        if content is not None:
            self.manifest(store).write_bytes(content)
        file_of(store, HEADER).write_bytes(b"")
        assert self.asked(store) == [NEXT_HEADER]
        assert [each.name for each in self.manifest(store).parent.glob("_manifest*")] == []
        store.put(record_of(HEADER))
        assert self.manifest(store).exists()

    def test_one_without_any_record_describes_nothing(self, store: FolderStore) -> None:
        for shard in (HEADER, NEXT_HEADER):
            file_of(store, shard).unlink()
        assert list(store.manifests()) == []

    def test_records_of_asks_for_measurements_by_key(self, store: FolderStore) -> None:
        other = header_of("2" * 32, 0, 20)
        store.put(record_of(other))
        assert list(store.records_of(["2" * 32, "no such key"])) == [record_of(other)]
        assert [each.shard.measurement_key for each in store.manifests()] == ["2" * 32, HEADER.measurement_key]

    def test_manifests_of_some_keys_open_no_other_file(self, store: FolderStore) -> None:
        other = header_of("2" * 32, 0, 20)
        store.put(record_of(other))
        self.manifest(store).write_bytes(b"damaged")
        assert [each.shard for each in store.manifests({"2" * 32, "no such key"})] == [other]
        assert self.manifest(store).read_bytes() == b"damaged"
        memory = MemoryStore()
        for shard in (other, HEADER, NEXT_HEADER):
            memory.put(record_of(shard))
        assert [each.shard for each in memory.manifests(["2" * 32])] == [other]
        assert list(memory.manifests([])) == []


def test_a_damaged_failure_is_set_aside_and_the_others_come(
    store: FolderStore, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (header_of(HEADER.measurement_key, start, start + 20, dataset=HEADER.dataset) for start in (40, 60))
    store.put(failure_of(first))
    store.put(failure_of(second))
    path = Paths(store.path).failure(first)
    path.write_bytes(path.read_bytes().replace(b"killed", b"cured!"))
    assert list(store.failures()) == [failure_of(second)]
    assert aside(store) == [f"{first.key}.json-1"]
    assert str(path) in caplog.text


def test_a_failure_beside_its_record_is_not_shown(store: FolderStore) -> None:
    # What a writer leaves that was killed after the record appeared and before the failure went.
    path = Paths(store.path).failure(HEADER)
    third = header_of(HEADER.measurement_key, 40, 60, dataset=HEADER.dataset)
    store.put(failure_of(third))
    other = FolderStore(store.path.parent / "other")
    other.put(failure_of(HEADER))
    path.write_bytes(Paths(other.path).failure(HEADER).read_bytes())
    assert [kept.shard.key for kept in store.failures()] == [third.key]


def test_of_a_failure_no_file_stays_beside_a_record(store: FolderStore) -> None:
    shard = header_of(HEADER.measurement_key, 40, 60, dataset=HEADER.dataset)
    store.put(failure_of(shard))
    assert Paths(store.path).failure(shard).exists()
    store.put(record_of(shard))
    assert not Paths(store.path).failure(shard).exists()
    store.put(failure_of(shard))
    assert not Paths(store.path).failure(shard).exists()


def test_a_newer_format_is_neither_read_nor_set_aside_nor_replaced_but_said(store: FolderStore) -> None:
    shard = dataclasses.replace(HEADER, key="0" * 32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seal_module, "FORMAT_VERSION", seal_module.LATEST_FORMAT + 1)
        store.put(record_of(shard))
    with pytest.raises(StoreError, match=r"newer robench: .*format 4.*Update robench.*--results") as said:
        everything(store)
    assert f"{shard.key}.parquet" in str(said.value)
    assert aside(store) == []
    assert store.num_lost == 0
    before = file_of(store, shard).read_bytes()
    with pytest.raises(StoreError, match="newer robench"):
        store.put(record_of(shard))
    assert file_of(store, shard).read_bytes() == before


def test_a_task_that_only_a_newer_robench_knows_disturbs_no_other_measurement(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_task = Task(name="later", title="", outcome=Outcome, implementation="")
    monkeypatch.setitem(TASKS.builtin, "later", later_task)
    later = header_of("7" * 32, 0, 1, task="later")
    store.put(record_of(later, (Outcome(example_id="a"),)))
    monkeypatch.undo()
    assert len(list(store.records(lambda shard: shard.task == "classification"))) == 2
    with pytest.raises(StoreError, match="newer robench: its task 'later'"):
        everything(store)


@pytest.mark.parametrize("kind", ["pipe", "device", "sparse"])
@pytest.mark.parametrize("place", ["record", "failure", "adversarial"])
def test_what_is_no_file_of_a_store_is_set_aside_at_once_and_measured_again(
    tmp_path: Path, kind: str, place: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, paths = FolderStore(tmp_path / "results"), Paths(tmp_path / "results")
    monkeypatch.setattr(adversarial, "MAX_BYTES", 1 << 30)
    path = {
        "record": paths.record(HEADER),
        "failure": paths.failure(HEADER),
        "adversarial": paths.adversarial_examples(HEADER.measurement_key, HEADER.key),
    }[place]
    path.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 40 << 30)
    assert keys_read(store) == store.keys() == set()
    assert list(store.failures()) == []
    assert store.adversarial.get(HEADER.measurement_key, HEADER.key) is None
    reason = {"pipe": "it is a named pipe", "device": "it is a device", "sparse": "it has 42,949,672,960 bytes"}[kind]
    assert [record.getMessage().count(reason) for record in caplog.records] == [1]
    assert not os.path.lexists(path)
    store.put(record_of(HEADER))
    assert store.keys() == {HEADER.key}


@pytest.mark.parametrize("name", ["records", "failures", "adversarial", "damaged"])
@pytest.mark.parametrize("kind", ["file", "pipe", "dangling link"])
def test_a_file_in_place_of_one_of_the_folders_makes_results_unwritable(tmp_path: Path, name: str, kind: str) -> None:
    store = FolderStore(tmp_path)
    blocker = tmp_path / name
    if kind == "file":
        blocker.write_text("mine")
    elif kind == "pipe":
        os.mkfifo(blocker)
    else:
        blocker.symlink_to(tmp_path / "absent")
    with pytest.raises(StoreUnwritableError, match=rf"cannot be written: Not a directory \(.*{name}\)"):
        store.check_writable()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("length", [0, 100])
def test_unfinished_files_are_no_records(store: FolderStore, length: int) -> None:
    part = candidate(file_of(store))
    part.write_bytes(file_of(store).read_bytes()[:length])
    assert store.keys() == {HEADER.key, NEXT_HEADER.key}
    assert len(everything(store)) == 2
    assert part.exists()


def parts_of_age(store: FolderStore, *ages: float) -> list[Path]:
    """Unfinished files that were written so many seconds ago."""
    parts = [candidate(file_of(store)) for _ in ages]
    for part, age in zip(parts, ages, strict=True):
        part.write_bytes(b"part")
        os.utime(part, (time.time() - age, time.time() - age))
    return parts


def test_sweeping_removes_unfinished_files_that_are_older_and_nothing_else(store: FolderStore) -> None:
    old, young = parts_of_age(store, 7200, 0)
    os.utime(file_of(store), (time.time() - 7200, time.time() - 7200))
    assert store.sweep(3600) == 1
    assert not old.exists()
    assert young.exists()
    assert len(everything(store)) == 2
    assert store.sweep(0) == 1
    assert not young.exists()


def test_age_is_told_by_the_clock_of_the_file_server(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = parts_of_age(store, 0)
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    monkeypatch.setattr(time, "time_ns", lambda: int(tomorrow * 1e9))
    assert store.sweep(3600) == 0
    assert part.exists()


def test_checking_sweeps_what_is_older_than_an_hour_and_leaves_nothing_of_its_own(store: FolderStore) -> None:
    old, _ = parts_of_age(store, 3700, 3500)
    before = {path for path in store.path.rglob("*") if path.is_file()}
    store.check_writable()
    assert {path for path in store.path.rglob("*") if path.is_file()} == before - {old}


def test_nothing_but_a_check_or_a_put_makes_a_folder(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "deep" / "results")
    assert store.keys() == set()
    assert everything(store) == []
    assert list(store.failures()) == []
    assert list(tmp_path.iterdir()) == []
    store.check_writable()
    assert store.path.is_dir()


def test_a_file_in_place_of_the_folder_is_unwritable_and_holds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "results"
    file.write_text("mine")
    with pytest.raises(StoreUnwritableError, match=r"results cannot be written.*--results"):
        FolderStore(file).check_writable()
    assert FolderStore(file).keys() == set()
    assert file.read_text() == "mine"


def test_a_record_that_cannot_be_read_is_named(store: FolderStore) -> None:
    file_of(store).unlink()
    file_of(store).mkdir()
    for read in (lambda: everything(store), lambda: store.put(record_of(HEADER))):
        with pytest.raises(StoreError, match=rf"{HEADER.key}\.parquet cannot be read: Is a directory"):
            read()
