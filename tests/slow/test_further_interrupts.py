"""Ctrl-C twice, SIGTERM once and twice, an interrupted transfer, and two runs at once on one folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import timm
import torch
from killed_runs import begin, wait_for_lease, wait_for_records
from PIL import Image
from safetensors.torch import save_file

from robench.store import FolderStore


def test_two_interrupts_stop_at_once_without_a_traceback(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(**{"num_steps: 4": "num_steps: 4000", "num_examples: 150": "num_examples: 600"})
    run = begin(suite, tmp_path / "r", "--executor", "serial")
    # The longest come first: what is under way is a shard of 4000 steps.
    wait_for_lease(tmp_path / "r")
    for _ in range(2):
        os.kill(run.pid, signal.SIGINT)
        time.sleep(0.3)
    stdout, stderr = run.communicate()
    assert run.returncode == 130
    assert stdout == ""
    assert "Interrupted. Nothing was measured" in stderr
    assert "Traceback" not in stderr


def test_two_runs_at_once_on_one_folder_both_end_well_with_the_same_table(
    small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite()
    runs = [begin(suite, tmp_path / "r", "--executor", "serial") for _ in range(2)]
    tables = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert tables[0][0] == tables[1][0]
    assert all("other outcomes" not in stderr for _, stderr in tables)
    assert len(FolderStore(tmp_path / "r").keys()) == 9


def test_sigterm_drains_and_ends_with_143(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(**{"num_steps: 4": "num_steps: 20", "num_examples: 150": "num_examples: 600"})
    run = begin(suite, tmp_path / "r", "--workers", "2")
    wait_for_records(tmp_path / "r")
    run.send_signal(signal.SIGTERM)
    stdout, stderr = run.communicate()
    assert run.returncode == 143
    assert "Finishing the shards under way; another SIGTERM stops at once" in stderr
    assert "the same command goes on from there" in stderr
    assert "missing" in stdout
    assert [word for word in ("Traceback", "leaked", "semaphore", "Warning") if word in stderr] == []
    store = FolderStore(tmp_path / "r")
    assert 0 < len(store.keys()) < 36
    assert list(store.failures()) == []


# Measures images of a folder in workers whose decoding processes share semaphores with them.
DECODING_RUN = """\
import sys
sys.argv = ["robench", "run", "--suite", "suite.yaml", "--model", "mine", "--registry", "registry.yaml", "--workers",
            "1", "--executor", "processes", "--data-root", ".", "--results", "r"]
if __name__ == "__main__":
    from robench.cli.main import main
    main()
"""
DECODING_SUITE = """\
name: decoding
version: 1
seed: 0
dataset: imagenet-1k
batch_size: 4
conditions:
  - {name: clean}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 100000}}
metrics: [top1_accuracy]
audit: false
"""
DECODING_REGISTRY = """\
checkpoints:
  mine:
    architecture: {backbone: timm, name: vit_tiny_patch16_224, arguments: {depth: 1}}
    weights: {uri: mine.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5], resize: 256, crop: 224}
"""


def test_sigterm_twice_kills_workers_without_warning_of_what_they_shared(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_file(
        timm.create_model("vit_tiny_patch16_224", depth=1, pretrained=False).state_dict(),
        tmp_path / "mine.safetensors",
    )
    folder = tmp_path / "imagenet-1k" / "val" / "n01440764"
    folder.mkdir(parents=True)
    for number in range(4):
        Image.new("RGB", (256, 256), (number, 0, 0)).save(folder / f"ILSVRC2012_val_{number:08}.JPEG")
    for name, text in (("run.py", DECODING_RUN), ("suite.yaml", DECODING_SUITE), ("registry.yaml", DECODING_REGISTRY)):
        (tmp_path / name).write_text(text)
    run = subprocess.Popen(
        [sys.executable, "run.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    wait_for_lease(tmp_path / "r")
    # The worker has been handed its shard, and takes some seconds to start its decoding processes.
    time.sleep(8.0)
    for _ in range(2):
        run.send_signal(signal.SIGTERM)
        time.sleep(0.5)
    stdout, stderr = run.communicate()
    assert run.returncode == 143
    assert stdout == ""
    assert "Terminated. Nothing was measured" in stderr
    assert [word for word in ("Traceback", "leaked", "semaphore") if word in stderr] == []


def test_an_interrupted_transfer_keeps_what_is_done_and_shows_what_is_missing(
    small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"num_steps: 4": "num_steps: 60", "num_examples: 150": "num_examples: 300"})
    asked = [
        "transfer",
        "--suite",
        str(suite),
        "--condition",
        "pgd",
        "--model",
        "digits-vit",
        "--model",
        "digits-rpc-symvit",
        "--results",
        str(tmp_path / "r"),
    ]
    run = subprocess.Popen(
        [sys.executable, "-m", "robench", *asked, "--executor", "serial"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(tmp_path.rglob("*.safetensors")):
        time.sleep(0.02)
    os.kill(run.pid, signal.SIGINT)
    stdout, stderr = run.communicate()
    assert run.returncode == 130
    assert "missing" in stdout
    assert "the same command goes on from there" in stderr
    assert "scoring" not in stderr
    assert "Traceback" not in stderr
