"""Leases of shards: who gets one, when it expires, and what is left of it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from robench.core.errors import StoreError
from robench.core.protocols import Claimed
from robench.store import leases as leases_module
from robench.store.leases import Leases, Unshared
from robench.store.paths import Paths

KEY = "a1" * 16
MEASURED = "b2" * 16
HOUR = 3600.0


def nothing(measurement_key: str, key: str) -> bool:
    return False


def leases(folder: Path, has: Callable[[str, str], bool] = nothing, seconds: float = 60.0) -> Leases:
    return Leases(Paths(folder), has, seconds)


def grow_old(folder: Path, seconds: float, key: str = KEY) -> None:
    """Date a lease back, as if nobody had renewed it."""
    path = Paths(folder).lease(key)
    dated = path.stat().st_mtime - seconds
    os.utime(path, (dated, dated))


def test_of_two_runs_one_gets_the_shard_until_it_is_released(tmp_path: Path) -> None:
    with leases(tmp_path) as first, leases(tmp_path) as second:
        assert first.claim(MEASURED, KEY) is Claimed.MINE
        assert first.claim(MEASURED, KEY) is Claimed.MINE
        assert second.claim(MEASURED, KEY) is Claimed.TAKEN
        first.release(KEY)
        assert second.claim(MEASURED, KEY) is Claimed.MINE
        assert first.claim(MEASURED, KEY) is Claimed.TAKEN


def test_a_shard_that_was_measured_meanwhile_is_done_and_leaves_no_lease(tmp_path: Path) -> None:
    with leases(tmp_path, lambda measured, key: (measured, key) == (MEASURED, KEY)) as claims:
        assert claims.claim(MEASURED, KEY) is Claimed.DONE
        assert list((tmp_path / "leases").iterdir()) == []
        assert claims.claim(MEASURED, "c3" * 16) is Claimed.MINE


def test_the_record_is_looked_for_after_the_lease_was_won(tmp_path: Path) -> None:
    """Otherwise a run could store the record and release its lease between the two."""
    seen = []

    def has(measurement_key: str, key: str) -> bool:
        seen.append(Paths(tmp_path).lease(key).exists())
        return True

    with leases(tmp_path, has) as claims:
        assert claims.claim(MEASURED, KEY) is Claimed.DONE
    assert seen == [True]


def test_leaving_releases_everything_and_removes_the_folder(tmp_path: Path) -> None:
    with leases(tmp_path) as claims:
        for number in range(5):
            claims.claim(MEASURED, f"{number:032d}")
        assert len(list((tmp_path / "leases").iterdir())) == 5
    assert list(tmp_path.iterdir()) == []


def test_leaving_keeps_the_leases_of_others(tmp_path: Path) -> None:
    with leases(tmp_path) as other:
        other.claim(MEASURED, KEY)
        with leases(tmp_path) as claims:
            claims.claim(MEASURED, "c3" * 16)
        assert [path.name for path in (tmp_path / "leases").iterdir()] == [KEY]
        assert claims.claim(MEASURED, KEY) is Claimed.TAKEN


def test_a_lease_that_nobody_renews_expires(tmp_path: Path) -> None:
    dead, alive = leases(tmp_path), leases(tmp_path)
    assert dead.claim(MEASURED, KEY) is Claimed.MINE
    grow_old(tmp_path, 59.0)
    assert alive.claim(MEASURED, KEY) is Claimed.TAKEN
    grow_old(tmp_path, 2.0)
    assert alive.claim(MEASURED, KEY) is Claimed.MINE
    assert dead.claim(MEASURED, "d4" * 16) is Claimed.MINE


def test_who_has_lost_a_lease_does_not_remove_that_of_the_next(tmp_path: Path) -> None:
    slow, next_run = leases(tmp_path), leases(tmp_path)
    slow.claim(MEASURED, KEY)
    grow_old(tmp_path, HOUR)
    assert next_run.claim(MEASURED, KEY) is Claimed.MINE
    slow.release(KEY)
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.TAKEN


def test_renewing_keeps_a_lease(tmp_path: Path) -> None:
    owner = leases(tmp_path)
    owner.claim(MEASURED, KEY)
    grow_old(tmp_path, HOUR)
    owner.renew()
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.TAKEN


def test_leases_are_renewed_while_the_run_goes_on(tmp_path: Path) -> None:
    with leases(tmp_path, seconds=0.2) as owner:
        owner.claim(MEASURED, KEY)
        other = leases(tmp_path, seconds=0.2)
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            assert other.claim(MEASURED, KEY) is Claimed.TAKEN
            time.sleep(0.02)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_an_hour_wrong_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    owner, other = leases(tmp_path), leases(tmp_path)
    owner.claim(MEASURED, KEY)
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + hours * HOUR)
    assert other.claim(MEASURED, KEY) is Claimed.TAKEN
    owner.renew()
    assert other.claim(MEASURED, KEY) is Claimed.TAKEN
    grow_old(tmp_path, 61.0)
    assert other.claim(MEASURED, KEY) is Claimed.MINE


CLAIM_AND_END = f"""
import sys
from pathlib import Path
from robench.store.leases import Leases
from robench.store.paths import Paths
assert Leases(Paths(Path(sys.argv[1])), lambda measured, key: False).claim("{MEASURED}", "{KEY}").value == "mine"
"""


def test_a_lease_of_a_process_that_was_killed_on_this_machine_expires_at_once(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CLAIM_AND_END, str(tmp_path)], check=True)
    assert Paths(tmp_path).lease(KEY).exists()
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.MINE


def test_a_lease_of_another_machine_expires_by_its_age_alone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CLAIM_AND_END, str(tmp_path)], check=True)
    path = Paths(tmp_path).lease(KEY)
    owner = json.loads(path.read_text())
    for name in ("host", "machine"):
        path.write_text(json.dumps(owner | {name: "elsewhere"}))
        other = leases(tmp_path)
        assert other.claim(MEASURED, KEY) is Claimed.TAKEN
        grow_old(tmp_path, 61.0)
        assert other.claim(MEASURED, KEY) is Claimed.MINE


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff" * 10_000, b"x" * 1_000_000])
def test_a_lease_that_cannot_be_understood_expires_by_its_age(tmp_path: Path, content: bytes) -> None:
    path = Paths(tmp_path).lease(KEY)
    path.parent.mkdir()
    path.write_bytes(content)
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.TAKEN
    grow_old(tmp_path, 61.0)
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.MINE


def test_a_new_lease_in_place_of_an_expired_one_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, quick, slow = leases(tmp_path), leases(tmp_path), leases(tmp_path)
    dead.claim(MEASURED, KEY)
    grow_old(tmp_path, HOUR)
    looked = leases_module.Leases._is_expired

    def look_and_be_overtaken(self: Leases, path: Path) -> bool:
        expired = looked(self, path)
        if self is slow and path.name == KEY:
            assert quick.claim(MEASURED, KEY) is Claimed.MINE
        return expired

    monkeypatch.setattr(leases_module.Leases, "_is_expired", look_and_be_overtaken)
    assert slow.claim(MEASURED, KEY) is Claimed.TAKEN
    monkeypatch.undo()
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.TAKEN
    assert [path.name for path in (tmp_path / "leases").iterdir()] == [KEY]
    quick.release(KEY)
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.MINE


def test_a_folder_that_a_run_removes_at_its_end_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, removed = Path.mkdir, []

    def make_and_lose(self: Path, *args: Any, **settings: Any) -> None:
        make(self, *args, **settings)
        if self.name == "leases" and not removed:
            removed.append(self)
            self.rmdir()

    monkeypatch.setattr(Path, "mkdir", make_and_lose)
    assert leases(tmp_path).claim(MEASURED, KEY) is Claimed.MINE
    assert removed == [tmp_path / "leases"]


def test_a_lease_that_goes_with_its_folder_meanwhile_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, other = leases(tmp_path), leases(tmp_path)
    owner.claim(MEASURED, KEY)
    now, ended = Leases._now, []

    def end_and_look(self: Leases) -> float:
        if not ended:
            ended.append(True)
            owner.__exit__()
        return now(self)

    monkeypatch.setattr(Leases, "_now", end_and_look)
    assert other.claim(MEASURED, KEY) is Claimed.MINE
    assert ended == [True]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "leases").touch()
    with pytest.raises(StoreError, match=r"leases.*could not be written"):
        leases(tmp_path).claim(MEASURED, KEY)


def test_a_key_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot name a file"):
        leases(tmp_path).claim(MEASURED, "../up")


def test_a_store_of_one_run_grants_everything() -> None:
    with Unshared() as claims:
        assert claims.claim(MEASURED, KEY) is Claimed.MINE
        claims.release(KEY)
        assert claims.claim(MEASURED, KEY) is Claimed.MINE


class ManyRuns(RuleBasedStateMachine):
    """Whatever three runs do in whatever order, at most one live run holds a shard, and every shard can be had."""

    runs = st.integers(0, 2)
    keys = st.integers(0, 2)

    @initialize(folder=st.just(None))
    def begin(self, folder: None) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name)
        self.claims = [leases(self.folder, self._has) for _ in range(3)]
        self.holder: dict[str, int] = {}
        self.done: set[str] = set()

    def _has(self, measurement_key: str, key: str) -> bool:
        return key in self.done

    def teardown(self) -> None:
        self.place.cleanup()

    @rule(run=runs, number=keys)
    def claim(self, run: int, number: int) -> None:
        key = f"{number:032d}"
        answer = self.claims[run].claim(MEASURED, key)
        if key in self.done and self.holder.get(key, run) == run:
            assert answer is Claimed.DONE
            self.holder.pop(key, None)
        elif self.holder.get(key, run) == run:
            assert answer is Claimed.MINE
            self.holder[key] = run
        else:
            assert answer is Claimed.TAKEN

    @rule(run=runs, number=keys, has_record=st.booleans())
    def release(self, run: int, number: int, has_record: bool) -> None:
        key = f"{number:032d}"
        if self.holder.get(key) == run:
            if has_record:
                self.done.add(key)
            del self.holder[key]
        self.claims[run].release(key)

    @rule(run=runs)
    def crash(self, run: int) -> None:
        """The run's leases stay, nobody renews them, and another run comes in its place."""
        self.claims[run] = leases(self.folder, self._has)
        for key in [key for key, holder in self.holder.items() if holder == run]:
            grow_old(self.folder, HOUR, key)
            del self.holder[key]

    @invariant()
    def files_are_those_of_holders_or_expired(self) -> None:
        if not hasattr(self, "folder"):
            return
        paths = Paths(self.folder)
        assert all(paths.lease(key).exists() for key in self.holder)


TestManyRuns = ManyRuns.TestCase
TestManyRuns.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
