"""Leases of shards, by which several runs on one results folder share the work.

A lease is a file that only one run can create. It is advisory: what keeps results right is that of two records of a
shard the first stays, so that a lease which is lost, or taken over too early, costs time alone.

A lease expires when its file was not renewed for some time. Ages are differences between dates that the file server
gave, since clocks of machines may differ by hours. A lease of a process that has ended on this machine expires at once.
"""

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from robench.core.protocols import Claimed
from robench.store.paths import Paths
from robench.store.sealed import candidate, keeping, persistently

# A run that pauses for longer, such as on a laptop that sleeps, loses its leases to other runs.
LEASE_SECONDS = 60.0
RENEWALS_PER_LEASE = 4
# A lease is a few hundred bytes; larger files were not written by robench.
_MAX_BYTES = 4096


class Leases:
    """Claims on the shards of a results folder (``core.protocols.Claims``).

    Args:
        has: whether a shard, given by measurement key and shard key, has a record.
        seconds: age at which a lease that is not renewed expires.
    """

    def __init__(self, paths: Paths, has: Callable[[str, str], bool], seconds: float = LEASE_SECONDS) -> None:
        self._paths = paths
        self._has = has
        self._seconds = seconds
        # Process ids are unique only on one machine and in one namespace.
        pid, token = os.getpid(), secrets.token_hex(8)
        owner = {
            "host": socket.gethostname(),
            "machine": _machine(),
            "pid": pid,
            "started": _started(pid),
            "token": token,
        }
        self._content = json.dumps(owner, sort_keys=True).encode()
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._renewing: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._is_over.clear()
        self._renewing = threading.Thread(target=self._renew_until_over, name="robench-leases", daemon=True)
        self._renewing.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_over.set()
        if self._renewing is not None:
            self._renewing.join()
        for key in list(self._held):
            self.release(key)
        # Others may have leases there; then it stays.
        with suppress(OSError):
            self._paths.leases.rmdir()

    def claim(self, measurement_key: str, key: str) -> Claimed:
        """Claim a shard, unless another run has claimed it or it has a record.

        Raises:
            StoreError: the lease could not be written.
        """
        path = self._paths.lease(key)
        with keeping(path):
            if key not in self._held and not self._created(path) and not self._taken_over(path):
                return Claimed.TAKEN
        with self._lock:
            self._held.add(key)
        # Looked up only now: a run stores the record first and releases the lease after it.
        if self._has(measurement_key, key):
            self.release(key)
            return Claimed.DONE
        return Claimed.MINE

    def release(self, key: str) -> None:
        """Remove the lease of a shard if this run has it."""
        with self._lock:
            if key not in self._held:
                return
            self._held.remove(key)
        path = self._paths.lease(key)
        # It may have expired and be another run's by now.
        with suppress(OSError):
            if path.read_bytes() == self._content:
                path.unlink()

    def renew(self) -> None:
        """Renew all leases of this run."""
        with self._lock:
            held = list(self._held)
        for key in held:
            # The file server's time, not this machine's; the lease may be lost.
            with suppress(OSError):
                os.utime(self._paths.lease(key))

    def _renew_until_over(self) -> None:
        while not self._is_over.wait(self._seconds / RENEWALS_PER_LEASE):
            self.renew()

    def _created(self, path: Path) -> bool:
        while True:
            persistently(partial(path.parent.mkdir, parents=True, exist_ok=True))
            try:
                with path.open("xb") as file:
                    file.write(self._content)
            except FileExistsError:
                return False
            except FileNotFoundError:
                # A run that ended has removed the empty folder since.
                continue
            return True

    def _taken_over(self, path: Path) -> bool:
        """Take the place of an expired lease; return whether it is now this run's."""
        if not self._is_expired(path):
            return False
        aside = candidate(path)
        try:
            path.rename(aside)
        except FileNotFoundError:
            # Released, or taken over by another run.
            return self._created(path)
        try:
            # Between the look and the renaming another run may have put its own there, which is put back.
            if not self._is_expired(aside):
                with suppress(FileExistsError):
                    path.hardlink_to(aside)
                return False
            return self._created(path)
        finally:
            aside.unlink(missing_ok=True)

    def _is_expired(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_BYTES)
            return _has_ended(content) or self._now() - path.stat().st_mtime > self._seconds
        except FileNotFoundError:
            # Released since, perhaps with the folder, by the last run that had a lease there.
            return True

    def _now(self) -> float:
        """Return the file server's time, as the date of a new file."""
        probe = candidate(self._paths.leases / "probe")
        probe.touch()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)


class Unshared:
    """Claims that all succeed, of a store that no other run has (``core.protocols.Claims``)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """End the context; there is nothing to release."""

    def claim(self, measurement_key: str, key: str) -> Claimed:
        """Return that the shard is this run's."""
        return Claimed.MINE

    def release(self, key: str) -> None:
        """Do nothing."""


def _has_ended(content: bytes) -> bool:
    """Return whether a lease is of a process of this machine that has ended; False if that cannot be known."""
    try:
        owner = json.loads(content)
        host, machine, pid, started = (owner[name] for name in ("host", "machine", "pid", "started"))
    except (ValueError, TypeError, KeyError):
        return False
    is_here = (host, machine) == (socket.gethostname(), _machine()) and machine and started
    return bool(is_here) and isinstance(pid, int) and _started(pid) != started


def _machine() -> str:
    """Return the running system and its namespace of processes; empty where they cannot be distinguished."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process started, in ticks since the system did; empty if it does not exist or cannot be known."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name of the program, in brackets, may have spaces.
    state, *fields = text.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
