"""A fault at each system call of a run that stores results: nothing stored is lost, and a rerun is whole."""

import errno
import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples import MEASUREMENT, record_of
from robench.core.errors import StoreError
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard, into_shards
from robench.executors import SerialExecutor
from robench.scheduling import Progress, run_shards
from robench.store import FolderStore

DATA = DatasetIdentity(name="digits", fingerprint="f", num_examples=200)
SHARDS = list(into_shards([replace(MEASUREMENT, dataset=DATA)], batches_per_shard=1))
# All that the store, leases and files call; `open` of pathlib is that of io.
CALLS = ((os, ("fsync", "link", "replace", "rename", "unlink", "mkdir", "rmdir", "utime", "listdir")), (io, ("open",)))


def recorded(shard: Shard, following: Shard | None = None) -> Record:
    return record_of(shard.header)


def run(folder: Path, on_progress: Callable[[Progress], None] = lambda progress: None) -> None:
    store = FolderStore(folder)
    store.check_writable()
    todo = [each for each in SHARDS if not store.has(each.measurement.key, each.key)]
    run_shards(todo, SerialExecutor(recorded), store, on_progress)


def state_of(folder: Path) -> dict[str, bytes]:
    """Return all files but those that a killed run may leave, which the next one passes by."""
    kept = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".part")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept if path.parent.name != "leases"}


class Faults:
    """Counts the calls that concern a folder, and has a fault at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, at: int, fault: Callable[[], Any]) -> None:
        self.count = 0
        self._folder, self._at, self._fault = str(folder), at, fault
        for module, names in CALLS:
            for name in names:
                monkeypatch.setattr(module, name, self._wrapped(getattr(module, name)))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **settings: Any) -> Any:
            if isinstance(args[0], int) or self._folder in str(args[0]):
                self.count += 1
                if self.count == self._at:
                    self._fault()
            return real(*args, **settings)

        return call


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("reference")
    run(folder)
    assert len(state_of(folder)) == len(SHARDS) + 1
    return state_of(folder)


def num_calls(monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    with monkeypatch.context() as patched:
        faults = Faults(patched, folder, 0, lambda: None)
        run(folder)
    return faults.count


def check_that_a_rerun_is_whole(folder: Path, reference: dict[str, bytes]) -> None:
    assert state_of(folder).items() <= reference.items(), folder
    run(folder)
    assert state_of(folder) == reference, folder
    # A lease that could not be removed is, like all that killed runs leave, once it is old.
    FolderStore(folder).sweep(-1.0)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files == sorted(map(folder.joinpath, reference)), folder


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_an_error_of_any_call_loses_nothing_and_a_rerun_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: dict[str, bytes], number: int
) -> None:
    count = num_calls(monkeypatch, tmp_path / "count")
    assert count > 30

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    num_errors = 0
    for at in range(1, count + 1):
        folder = tmp_path / str(at)
        with monkeypatch.context() as patched:
            Faults(patched, folder, at, fail)
            # Some calls are of no consequence, such as removing a lease; all others are reported and not raised bare.
            try:
                run(folder)
            except StoreError:
                num_errors += 1
        check_that_a_rerun_is_whole(folder, reference)
    assert num_errors > 10


def test_death_at_any_call_loses_nothing_that_was_stored_and_a_rerun_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: dict[str, bytes]
) -> None:
    count = num_calls(monkeypatch, tmp_path / "count")
    num_deaths = 0
    for at in range(1, count + 1):
        folder = tmp_path / str(at)
        if (child := os.fork()) == 0:
            Faults(monkeypatch, folder, at, lambda: os._exit(9))
            run(folder)
            os._exit(0)
        # The order of the calls of two threads varies, and with it the number of calls by one or two.
        num_deaths += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        check_that_a_rerun_is_whole(folder, reference)
    assert num_deaths >= count - 5
