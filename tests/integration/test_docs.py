"""What the README says is what happens: its commands and its Python run, its leaderboard is measured."""

from __future__ import annotations

import json
import os
import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import yaml
from conftest import ROOT
from PIL import Image
from safetensors.torch import save_file
from snippets import READERS, quickened

from robench.declare import lookup, read_registry
from robench.models.build import build

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Robench

README = (ROOT / "README.md").read_text()
DEMO_REPORT = ROOT / "reports" / "demo.json"
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


COMMANDS = [
    shlex.split(line, comments=True)
    for block in blocks("sh")
    for line in block.splitlines()
    if line.startswith("robench ")
]
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
    source = blocks("python")[-1]
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
    for name, text in zip(("my.yaml", "photos.yaml"), blocks("yaml"), strict=True):
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


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_of_the_readme_ends_well(
    robench: Robench, as_a_user: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(as_a_user)
    monkeypatch.setattr(lookup, "shipped_folder", lambda: as_a_user)
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


def test_the_readme_shows_commands_of_every_kind() -> None:
    assert len(COMMANDS) >= 9
    assert {"list", "show", "run", "report", "status", "validate", "doctor"} <= {command[1] for command in COMMANDS}


@pytest.mark.parametrize("source", blocks("python"))
def test_the_python_of_the_readme_runs(as_a_user: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(as_a_user)
    # With one core a run needs no worker processes.
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    exec(source, {})


def leaderboard() -> list[list[str]]:
    (shown,) = re.findall(r"<!-- leaderboard -->\n```text\n(.*?)```", README, re.DOTALL)
    lines: list[str] = shown.splitlines()
    return [re.split(r" {2,}", line.strip()) for line in (lines[0], *lines[2:])]


def test_the_leaderboard_of_the_readme_is_that_of_the_report() -> None:
    """The report is kept from ``make demo``, as ``robench report --all-seeds --json`` writes it."""
    rows = json.loads(DEMO_REPORT.read_text())["rows"]
    header, *lines = leaderboard()
    assert header == ["model", *(f"{row['model']} ({len(row['seeds'])} seeds)" for row in rows)]
    columns = [list(row["cells"].values()) for row in rows]
    assert lines.pop() == ["flags", *(["none"] * 3)]
    assert all(not flag["is_raised"] for row in rows for flag in row["flags"])
    assert [line[1:] for line in lines] == [[shown(cell) for cell in of_row] for of_row in zip(*columns, strict=True)]
    accuracies = [cell["value"] for key, cell in rows[0]["cells"].items() if key.endswith("top1_accuracy")]
    assert min(accuracies) < 0.25
    assert max(accuracies) > 0.8
    assert any(0.3 < value < 0.6 for value in accuracies)


def shown(cell: dict[str, Any]) -> str:
    value, low, high = (f"{100 * cell[name]:.1f}" for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def test_the_clean_numbers_of_the_demos_report_are_what_is_measured(robench: Robench, tmp_path: Path) -> None:
    """Those under attack are measured anew in tests/slow."""
    rows = json.loads(DEMO_REPORT.read_text())["rows"]
    suite = yaml.safe_load((ROOT / "suites" / "digits-adv.yaml").read_text())
    suite["conditions"] = [each for each in suite["conditions"] if each["name"] in ("clean", "fgsm")]
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    chosen = ("--model", "digits-rpc-symvit", "--executor", "serial", "--no-audit", "--results", tmp_path / "r")
    ended = robench("run", "--suite", tmp_path / "suite.yaml", *chosen, "--json")
    (row,) = json.loads(ended.stdout)["rows"]
    assert rows[-1]["seeds"][0] == "digits-rpc-symvit"
    for key in ("clean/top1_accuracy", "clean/top5_accuracy", "fgsm/top1_accuracy"):
        assert row["cells"][key]["value"] == pytest.approx(rows[-1]["cells"][key]["of_seeds"][0], abs=0.01), key


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", document.read_text()):
            # The reference is made when the site is built, whose links Sphinx follows.
            is_made = document.parent == ROOT / "docs" and target.startswith("reference/")
            assert is_made or (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_page_on_attention_is_what_the_docstrings_say() -> None:
    specification = spec_from_file_location("attention_page", ROOT / "scripts" / "attention_page.py")
    assert specification is not None
    assert specification.loader is not None
    script = module_from_spec(specification)
    specification.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "run `make docs`"


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z-]+)`?", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
