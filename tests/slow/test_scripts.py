"""Scripts of users that measure with processes: without a guard of their entry point, and with classes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[2]
# A line for each time that the script ran.
BEGINNING = """\
from pathlib import Path
with Path("began").open("a") as file:
    file.write("once\\n")
"""
WORKERS = """
import robench
report = robench.run("smoke", "digits-vit", dataset="digits", workers=2, audit=False)
print(report.is_complete)
"""
IMAGES = """
import robench
from torch import nn
net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2))
report = robench.run("smoke", {"net": net}, dataset="shapes", registry="shapes.yaml", smoke=True)
print(report.is_complete)
"""
OWN_CLASS = """
from robench.declare import find_checkpoints, find_datasets, find_suite
from robench.evaluation.evaluator import Evaluator
from robench.runs import RunRequest, prepare
from robench.executors import ProcessExecutor
from robench.scheduling import ShardQueue

class Watched(Evaluator):
    pass

if __name__ == "__main__":
    suite = find_suite("smoke", find_datasets(()), "digits")
    request = RunRequest(suites=(suite,), checkpoints=tuple(find_checkpoints(["digits-vit"])), audit=False)
    shards = prepare(request).shards
    results = list(ProcessExecutor([Watched(), Watched()]).execute(ShardQueue(shards)))
    print(len(results) == len(shards) and all(type(each).__name__ == "Record" for each in results))
"""


def run(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(BEGINNING + source)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def times_begun(folder: Path) -> int:
    return len((folder / "began").read_text().splitlines())


def test_workers_do_not_run_an_unguarded_script_again(tmp_path: Path) -> None:
    ended = run(tmp_path, WORKERS)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
    assert times_begun(tmp_path) == 1


def test_decoders_do_not_run_an_unguarded_script_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(4):
            Image.fromarray(np.full((32, 32, 3), 50 * number, np.uint8)).save(tmp_path / f"images/{name}/{number}.png")
    (tmp_path / "shapes.yaml").write_text("datasets:\n  shapes: {kind: image-folder, path: images, image_size: 32}\n")
    ended = run(tmp_path, IMAGES)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
    assert times_begun(tmp_path) == 1


def test_classes_of_a_guarded_script_reach_workers(tmp_path: Path) -> None:
    ended = run(tmp_path, OWN_CLASS)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
    # Each worker imports the script, as it must.
    assert times_begun(tmp_path) == 3
