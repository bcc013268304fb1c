"""What the README and the pages of docs show is what happens: their commands and their Python run."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT, Robench
from PIL import Image
from snippets import PAGES, READERS, README_COMMANDS, README_FILES, quickened, readme_blocks, run_snippet, runnable

import robench
from robench.declare import shipped

SUITE = "digits-adv"
MODELS = ("digits-vit", "digits-symvit", "digits-rpc-symvit")
MY_CNN = """
from torch import nn

def build(num_classes):
    convolution = nn.Conv2d(3, 8, 3, stride=2)
    return nn.Sequential(convolution, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, num_classes))
"""


def write_photos(folder: Path) -> None:
    """Write the photos of two classes that the README names, a module and its weights."""
    for number, name in enumerate(("cat/001.png", "cat/002.png", "dog/1.jpg", "dog/holiday/7.jpg")):
        image = folder / "photos" / name
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((40, 50, 3), 60 * number, dtype=np.uint8)).save(image)
    (folder / "my_cnn.py").write_text(MY_CNN)
    namespace: dict[str, Any] = {}
    exec(MY_CNN, namespace)
    torch.save(namespace["build"](2).state_dict(), folder / "my_cnn.pth")


@pytest.fixture(scope="module")
def as_a_user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything that the README speaks of is in place."""
    folder: Path = tmp_path_factory.mktemp("user")
    for name in ("checkpoints.yaml", "checkpoints", "suites"):
        (folder / name).symlink_to(ROOT / name)
    for name, text in README_FILES.items():
        (folder / name).write_text(text)
    write_photos(folder)
    return folder


def measure_demo(robench: Robench) -> None:
    models = ("--model", "digits-vit", "--model", "digits-symvit")
    kept = ("--suite", "digits-adv", *models, "--results", "results/demo", "--limit", 1)
    assert robench("run", *kept, "--executor", "serial", "--no-audit").code == 0
    assert robench("baseline", "write", "digits.parquet", *kept).code == 0


@pytest.mark.parametrize("command", README_COMMANDS, ids=" ".join)
def test_every_command_of_the_readme_ends_well(
    robench: Robench, as_a_user: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(as_a_user)
    monkeypatch.setattr(shipped, "shipped_folder", lambda: as_a_user)
    options = command[1:]
    if options[0] in (*READERS, "leaderboard", "status"):
        # They read what is measured by then.
        measure_demo(robench)
    # Fifteen checkpoints take minutes.
    options += ["--dry-run"] if "--all-seeds" in options else []
    assert robench(*quickened(options)).code == 0


@pytest.mark.parametrize("source", readme_blocks("python"))
def test_the_python_of_the_readme_runs(as_a_user: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(as_a_user)
    # With one core a run needs no worker processes.
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    exec(source, {})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that pages share, of the first shard of the demo, so that each is measured once."""
    results: Path = tmp_path_factory.mktemp("kept")
    robench.run(SUITE, list(MODELS), limit=1, audit=False, results=results / "demo")
    (results / "records").symlink_to(results / "demo" / "records")
    return results


@pytest.fixture
def folder(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a reader's, the current one; modules that a test imports from it are forgotten."""
    (tmp_path / "results").symlink_to(kept)
    (tmp_path / "reports").symlink_to(ROOT / "reports")
    monkeypatch.chdir(tmp_path)
    # With one core a run needs no worker processes.
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if list(runnable(page))])
def test_the_snippets_of_a_page_run(robench: Robench, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for snippet in runnable(PAGES[name]):
        run_snippet(snippet, robench, monkeypatch)
