"""A queue of trainings survives kills and moves: the weights are those of an undisturbed one, byte for byte."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from queue_examples import write_registry

from robench.declare import read_registry
from robench.runs.training_queue import NICENESS

FIELDS = "num_epochs: 150, batch_size: 20, learning_rate: 0.01, crop_padding: 2"
NAMES = ("first", "second", "third")
NUM_KILLS = 6


def begin(registry: Path, state: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "robench", "train", *NAMES, "second@1", "--jobs", "2"]
    command += ["--registry", str(registry), "--state", str(state)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


def trainings_of(command: int) -> list[int]:
    """Return the processes that train for a command."""
    found = subprocess.run(
        ["ps", "-ww", "--ppid", str(command), "-o", "pid=,args="], capture_output=True, text=True, check=False
    )
    return [int(line.split()[0]) for line in found.stdout.splitlines() if "spawn_main" in line]


def digests(registry: Path) -> dict[str, str | None]:
    return {name: each.weights.sha256 for name, each in read_registry(registry).items()}


def test_killed_and_moved_it_ends_in_the_same_weights(tmp_path: Path) -> None:
    entries = dict.fromkeys(NAMES, FIELDS)
    undisturbed = write_registry(tmp_path / "undisturbed" / "mine.yaml", entries)
    assert begin(undisturbed, tmp_path / "state").wait() == 0
    disturbed, state = write_registry(tmp_path / "disturbed" / "mine.yaml", entries), tmp_path / "moving-0"
    generator = random.Random(5)
    for number in range(NUM_KILLS):
        running = begin(disturbed, state)
        while not (trainings := trainings_of(running.pid)) and running.poll() is None:
            time.sleep(0.1)
        # Importing torch takes some of the time.
        time.sleep(3 + 3 * generator.random())
        # The command itself, or one of its trainings, without which it goes on with the others.
        victim = generator.choice(trainings_of(running.pid) or trainings) if number % 2 else running.pid
        assert number or NICENESS in {os.getpriority(os.PRIO_PROCESS, each) for each in trainings}
        with suppress(ProcessLookupError):
            os.kill(victim, generator.choice([signal.SIGKILL, signal.SIGTERM]))
        running.wait()
        # The trainings of a killed command end with it.
        time.sleep(2)
        if state.exists():
            state = Path(shutil.move(state, tmp_path / f"moving-{number + 1}"))
    assert begin(disturbed, state).wait() == 0
    assert digests(disturbed) == digests(undisturbed)
    # The entries are one recipe under three names, and one of them has another seed too.
    assert len(set(digests(disturbed).values())) == 2
    assert state.name != "moving-0"
    assert not list(state.iterdir())
