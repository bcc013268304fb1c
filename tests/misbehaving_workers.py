"""An evaluator that does harm in its worker process, and what is left of those processes."""

import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples import MEASUREMENT, record_of
from robench.core.records import Failure, Record
from robench.core.shard import Shard, into_shards
from robench.executors.worker import LENGTH_SIZE, TOKEN_SIZE

SHARDS = list(into_shards([MEASUREMENT], batches_per_shard=1))
BAD = 200


def sleep_in_a_fork(folder: Path) -> None:
    """Fork a process that would live for minutes, and note its number."""
    if (child := os.fork()) == 0:
        time.sleep(300)
        os._exit(0)
    (folder / f"fork-{child}").touch()


def hold_the_interpreter() -> None:
    ctypes.PyDLL(None).sleep(300)


def write_into_all_descriptors(content: bytes) -> None:
    for number in range(3, 64):
        try:
            os.write(number, content)
        except OSError:
            continue


@dataclass(frozen=True)
class Misbehaving:
    """An evaluator that does harm when it has the shard that starts at ``BAD``; workers import it from this file."""

    folder: Path
    harm: str

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        (self.folder / f"worker-{os.getpid()}").touch()
        if shard.start == BAD:
            (self.folder / f"attempt-{time.time_ns()}").touch()
            return getattr(self, self.harm)(shard) or record_of(shard.header)
        return record_of(shard.header)

    def exit_0(self, shard: Shard) -> None:
        os._exit(0)

    def exit_3(self, shard: Shard) -> None:
        os._exit(3)

    def abort(self, shard: Shard) -> None:
        os.abort()

    def segfault(self, shard: Shard) -> None:
        ctypes.string_at(0)

    def sigkill(self, shard: Shard) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def sigterm(self, shard: Shard) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def die_with_a_fork_alive(self, shard: Shard) -> None:
        sleep_in_a_fork(self.folder)
        os._exit(3)

    def live_with_a_fork_alive(self, shard: Shard) -> None:
        sleep_in_a_fork(self.folder)

    def another_shard(self, shard: Shard) -> Record:
        return record_of(SHARDS[0].header)

    def no_record(self, shard: Shard) -> Any:
        return "done"

    def garbage(self, shard: Shard) -> None:
        write_into_all_descriptors(b"garbage")

    def begun_message(self, shard: Shard) -> None:
        """Half of what could be a message by its size; its reader must not wait for the rest."""
        write_into_all_descriptors(bytes(TOKEN_SIZE) + (1 << 40).to_bytes(LENGTH_SIZE))
        time.sleep(300)

    def close_descriptors(self, shard: Shard) -> None:
        os.closerange(3, 256)
        time.sleep(300)

    def hang(self, shard: Shard) -> None:
        sleep_in_a_fork(self.folder)
        time.sleep(300)

    def hang_in_c(self, shard: Shard) -> None:
        hold_the_interpreter()

    def stop_itself(self, shard: Shard) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def take_three_seconds(self, shard: Shard) -> None:
        time.sleep(3.0)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/status")
    return not (status.exists() and "\nState:\tZ" in status.read_text())


def left_of(folder: Path, kind: str) -> list[int]:
    """Return which of the processes noted in a folder run on, once those that are being killed had time to go."""
    noted = [int(path.name.partition("-")[2]) for path in folder.glob(f"{kind}-*")]
    for _ in range(100):
        if not (found := [process for process in noted if is_running(process)]):
            break
        time.sleep(0.1)
    return found
