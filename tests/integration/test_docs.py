"""What the README says is what happens: its commands and its Python run, its leaderboard is measured."""

from __future__ import annotations

import json
import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from conftest import ROOT
from PIL import Image
from safetensors.torch import save_file

from robench.declare import read_registry, shipped
from robench.models.build import build

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Robench

README = (ROOT / "README.md").read_text()
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
    monkeypatch.setattr(shipped, "shipped_folder", lambda: as_a_user)
    options = command[1:]
    if options[0] in ("compare", "baseline", "check", "figure"):
        # They read what is measured by then.
        measure_demo(robench)
        options += [] if options[0] == "check" else ["--limit", "1"]
    if options[0] == "run":
        # One batch is enough to see the command work; ImageNet's 50 images through PGD-20 are not for a CPU.
        options += ["--dry-run"] if "imagenet-adv" in options else ["--executor", "serial"]
        options += [] if {"--limit", "--smoke"} & set(options) else ["--limit", "1"]
    if "--limit" in options:
        options[options.index("--limit") + 1] = "2"
    assert robench(*options).code == 0


def test_the_readme_shows_commands_of_every_kind() -> None:
    assert len(COMMANDS) >= 9
    assert {"list", "show", "run", "report", "status", "validate", "doctor"} <= {command[1] for command in COMMANDS}


@pytest.mark.parametrize("source", blocks("python"))
def test_the_python_of_the_readme_runs(as_a_user: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(as_a_user)
    exec(source, {})


def test_the_leaderboard_of_the_readme_is_the_one_that_is_measured(robench: Robench, tmp_path: Path) -> None:
    """Its last model is measured; numbers may differ by a few images between kinds of CPU."""
    (shown,) = re.findall(r"<!-- leaderboard -->\n```text\n(.*?)```", README, re.DOTALL)
    *_, model = shown.split("\n")[0].split()
    ended = robench(
        "run", "--suite", "digits-adv", "--model", model, "--workers", 2, "--results", tmp_path / "r", "--json"
    )
    (measured,) = json.loads(ended.stdout)["rows"]
    rows = [re.split(r" {2,}", line.strip()) for line in shown.splitlines()[2:]]
    assert rows.pop() == ["flags", "none", "none", "none"]
    assert not any(flag["is_raised"] for flag in measured["flags"])
    assert len(rows) == len(measured["cells"]) == 15
    for row, cell in zip(rows, measured["cells"].values(), strict=True):
        assert float(row[-1].split(" [")[0]) == pytest.approx(100 * cell["value"], abs=1.0), row
    accuracies = {row[0]: [float(cell.split(" [")[0]) for cell in row[1:]] for row in rows}
    attacked = [value for name, values in accuracies.items() if name.endswith("top-1 accuracy") for value in values]
    assert min(attacked) < 20
    assert max(attacked) > 80
    assert any(40 < value < 60 for value in attacked)


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


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
