"""A disk that refuses: one clear error, nothing lost, nothing half-written, and the next try goes through."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import HEADER, NEXT_HEADER, everything, failure_of, record_of
from robench.core.errors import StoreError, StoreUnwritableError
from robench.store import FolderStore
from robench.store.paths import Paths

# Every call by which the store changes a disk; refusing each in turn visits every place where a write can fail.
WRITING_CALLS = [(os, "fsync"), *((Path, name) for name in ("open", "replace", "hardlink_to", "mkdir", "unlink"))]


def parts(store: FolderStore) -> list[Path]:
    return list(Paths(store.path).temporary())


def refuse(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int) -> None:
    def refusing(*arguments: Any, **named: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(owner, name, refusing)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "results")
    store.put(record_of(HEADER))
    return store


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@pytest.mark.parametrize("number", sorted({*FULL, errno.EIO, errno.EROFS, errno.ESTALE, errno.EACCES}))
@pytest.mark.parametrize("put", [record_of, failure_of])
def test_a_refused_put_is_said_with_the_path_the_reason_what_is_safe_and_what_to_do(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, number: int, put: Any
) -> None:
    refuse(monkeypatch, os, "fsync", number)
    with pytest.raises(StoreError) as said:
        store.put(put(NEXT_HEADER))
    assert not isinstance(said.value, StoreUnwritableError)
    advice = ("free space", "run the same command again") if number in FULL else ("--results",)
    for told in (NEXT_HEADER.key, os.strerror(number), "kept so far is safe", *advice):
        assert told in str(said.value)
    assert ("free space" in str(said.value)) == (number in FULL)


@pytest.mark.parametrize(("owner", "name"), WRITING_CALLS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_whichever_call_is_refused_nothing_is_lost_and_the_next_try_goes_through(
    store: FolderStore, owner: Any, name: str, number: int
) -> None:
    store.put(failure_of(NEXT_HEADER))
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, owner, name, number)
        with pytest.raises(StoreError):
            store.put(record_of(NEXT_HEADER))
    assert record_of(HEADER) in everything(store)
    keys = store.keys()
    assert everything(store) == [record_of(shard) for shard in (HEADER, NEXT_HEADER) if shard.key in keys]
    # Either the record is kept or the failure still tells of the shard.
    assert (NEXT_HEADER.key in keys) != bool(list(store.failures()))
    store.put(record_of(NEXT_HEADER))
    assert everything(store) == [record_of(HEADER), record_of(NEXT_HEADER)]
    assert list(store.failures()) == []


@pytest.mark.parametrize(("owner", "name"), [call for call in WRITING_CALLS if call[1] != "unlink"])
def test_a_refused_put_leaves_no_unfinished_file(store: FolderStore, owner: Any, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, owner, name, errno.ENOSPC)
        if name == "replace":
            refuse(patch, Path, "hardlink_to", errno.EPERM)
        with pytest.raises(StoreError):
            store.put(record_of(NEXT_HEADER))
    assert parts(store) == []


def test_without_hard_links_records_are_kept_all_the_same(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, Path, "hardlink_to", errno.EPERM)
    store.put(record_of(NEXT_HEADER))
    assert everything(store) == [record_of(HEADER), record_of(NEXT_HEADER)]
    assert parts(store) == []


def test_a_put_that_is_interrupted_leaves_no_file_and_goes_on_as_an_interrupt(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put(record_of(NEXT_HEADER))
    assert parts(store) == []
    assert store.keys() == {HEADER.key}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO])
@pytest.mark.parametrize(("owner", "name"), [(Path, "mkdir"), (Path, "open"), (os, "fsync"), (Path, "replace")])
def test_a_folder_that_cannot_be_written_is_said_with_path_and_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int
) -> None:
    refuse(monkeypatch, owner, name, number)
    with pytest.raises(StoreUnwritableError) as said:
        FolderStore(tmp_path / "results").check_writable()
    for told in (str(tmp_path / "results"), os.strerror(number), "--results"):
        assert told in str(said.value)
    assert said.value.exit_code == 2


def test_a_full_disk_at_the_check_is_told_as_one_and_not_as_unwritable(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, os, "fsync", errno.ENOSPC)
    with pytest.raises(StoreError, match="no space for") as said:
        store.check_writable()
    assert said.value.exit_code == 1


@pytest.mark.parametrize("name", ["file/results", "file/deep/results", "/proc/self/robench", "n" * 300])
def test_a_folder_that_cannot_be_made_is_unwritable_for_everybody(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnwritableError, match=rf"{name}.*--results"):
        FolderStore(tmp_path / name).check_writable()


def test_without_permission_the_folder_is_unwritable_or_the_user_is_root(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    store = FolderStore(locked)
    if os.access(locked, os.W_OK):
        store.check_writable()
        return
    with pytest.raises(StoreUnwritableError, match="Permission denied"):
        store.check_writable()


def test_results_can_be_read_from_a_folder_that_cannot_be_written(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(failure_of(NEXT_HEADER))
    for owner, name in WRITING_CALLS:
        if name != "open":
            refuse(monkeypatch, owner, name, errno.EROFS)
    assert store.keys() == {HEADER.key}
    assert everything(store) == [record_of(HEADER)]
    assert list(store.failures()) == [failure_of(NEXT_HEADER)]


LIMITED = """
import resource, sys
sys.path.insert(0, {folder!r})
from examples import HEADER, NEXT_HEADER, record_of
from robench.core.errors import StoreError
from robench.store import FolderStore
from robench.store.paths import Paths
store = FolderStore(sys.argv[1])
store.put(record_of(HEADER))
resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
try:
    store.put(record_of(NEXT_HEADER))
except StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(sorted(store.keys()), list(Paths(store.path).temporary()))
store.put(record_of(NEXT_HEADER))
"""


@pytest.mark.slow
def test_a_real_limit_on_file_sizes_is_one_message_and_the_next_try_goes_through(tmp_path: Path) -> None:
    script = LIMITED.format(folder=str(Path(__file__).parents[1]))
    ended = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    said, kept = ended.stdout.splitlines()
    assert "no space for" in said
    assert NEXT_HEADER.key in said
    assert kept == f"{[HEADER.key]} []"
    assert everything(FolderStore(tmp_path)) == [record_of(HEADER), record_of(NEXT_HEADER)]
