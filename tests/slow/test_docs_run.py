"""What the README and the pages of docs show is what happens: their commands and their Python run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from conftest import ROOT
from PIL import Image
from safetensors.torch import save_file
from snippets import PAGES, READERS, README_COMMANDS, README_FILES, quickened, readme_blocks, run_snippet, runnable

import robench
from robench.declare import read_registry, shipped
from robench.models.build import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Robench

SUITE = "digits-adv"
MODELS = ("digits-vit", "digits-symvit", "digits-rpc-symvit")
MY_MODULE = """
import timm

def build(depth):
    return timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=16, depth=depth, num_heads=2, num_classes=10
    )
"""


def write_photos(folder: Path) -> None:
    """Write what the section on images of one's own speaks of: photos of two classes, a module and its weights."""
    for number, name in enumerate(("cat/001.png", "cat/002.png", "dog/1.jpg", "dog/holiday/7.jpg")):
        image = folder / "photos" / name
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((40, 50, 3), 60 * number, dtype=np.uint8)).save(image)
    source = readme_blocks("python")[-1]
    (folder / "my_cnn.py").write_text(source)
    namespace: dict[str, Any] = {}
    exec(source, namespace)
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
    (folder / "my_package").mkdir()
    (folder / "my_package" / "my_module.py").write_text(MY_MODULE)
    namespace: dict[str, object] = {}
    exec(MY_MODULE, namespace)
    save_file(namespace["build"](4).state_dict(), folder / "my-model.safetensors")  # type: ignore[operator]
    image = folder / "DATA" / "imagenet-1k" / "val" / "n01440764" / "ILSVRC2012_val_00000293.JPEG"
    image.parent.mkdir(parents=True)
    Image.fromarray(np.full((256, 256, 3), 100, dtype=np.uint8)).save(image)
    (folder / "weights").mkdir()
    entry = read_registry(ROOT / "checkpoints.yaml")["rpc-symvit"]
    torch.save({"model": build(entry.architecture).state_dict()}, folder / "weights" / "rpc-symvit.pth")
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
    if options[0] in (*READERS, "check", "status", "store"):
        # They read what is measured by then.
        measure_demo(robench)
        if "photos" in options:
            asked = options[1 : options.index("--format")]
            assert robench("run", *asked, "--model", "my-cnn", "--limit", 2, "--executor", "serial").code == 0
    if options[0] == "rescore":
        kept = ("--results", "submitted", "--keep-adversarial", "float32", "--executor", "serial", "--no-audit")
        assert robench("run", "--suite", "digits-adv", "--model", "digits-vit", "--limit", 2, *kept).code == 0
    # ImageNet's 50 images through PGD-20 are not for a CPU.
    options += ["--dry-run"] if options[0] == "run" and "imagenet-adv" in options else []
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
