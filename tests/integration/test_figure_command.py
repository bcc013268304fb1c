"""``robench figure``: files of each format, the same bytes twice, and what it refuses."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from conftest import ROOT
from figure_examples import write_history
from leaderboard_examples import ADV, SHIFT, adv_suite, fill, shift_suite
from PIL import Image

from robench.cli.figure_command import command
from robench.store import FolderStore

Robench = Any
KINDS = ("budget", "corruptions", "seeds")
MAGIC = {".svg": b"<?xml", ".pdf": b"%PDF-", ".png": b"\x89PNG\r\n\x1a\n"}
# What no file may hold: times, and the release of what wrote it.
DATED = (b"Creat", b"Date", b"Producer", b"matplotlib v", b"Matplotlib v", b"Software", b"tEXt", b"tIME")
REGISTRY = """checkpoints:
  mine:
    architecture: {backbone: python, target: 'a.b:c'}
    weights: {uri: w/mine.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
    training:
      {dataset: digits, seed: 0, num_epochs: 3, batch_size: 64, learning_rate: 0.001, max_shift: 1, noise_scale: 0.2}
    seeds:
      - {seed: 1, uri: w/mine-seed1.safetensors, sha256: null}
"""


# Runs several commands in one process.
DRAWING = """
import ast, sys
from robench.cli.main import main

for arguments in ast.literal_eval(sys.argv[1]):
    sys.argv = ["robench", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
"""


@pytest.fixture
def asked(tmp_path: Path) -> list[object]:
    """Options for a suite with a sweep and corruptions, of which a store has results."""
    for name, suite in (("adv", ADV), ("shift", SHIFT)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(suite))
    store = FolderStore(tmp_path / "results")
    fill(store, adv_suite(), {"digits-vit": 0.5})
    fill(store, shift_suite(), {"digits-vit": 0.5, "digits-vit@1": 0.45, "digits-symvit": 0.6})
    return ["--suite", tmp_path / "shift.yaml", "--results", tmp_path / "results"]


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """Return a registry with an entry of two training seeds, both with a history."""
    (tmp_path / "w").mkdir()
    (tmp_path / "my.yaml").write_text(REGISTRY)
    write_history(tmp_path / "w" / "mine.history.json", "mine")
    write_history(tmp_path / "w" / "mine-seed1.history.json", "mine@1", (3.0, 2.0, 1.0))
    return tmp_path / "my.yaml"


class TestFiles:
    @pytest.mark.parametrize(("kind", "suffix"), [("seeds", ".png")])
    def test_a_kind_in_a_format_twice_the_same(
        self, robench: Robench, asked: list[object], tmp_path: Path, kind: str, suffix: str
    ) -> None:
        """``tests/slow`` has every kind in every format."""
        path = tmp_path / "new" / f"figure{suffix}"
        ended = robench("figure", kind, *asked, "--output", path)
        assert (ended.code, ended.stdout, ended.stderr) == (0, "", f"wrote {path}\n")
        first = path.read_bytes()
        assert first.startswith(MAGIC[suffix])
        assert not [mark for mark in DATED if mark in first]
        assert robench("figure", kind, *asked, "--output", path).code == 0
        assert path.read_bytes() == first

    def test_an_svg_is_a_drawing_of_its_own(self, robench: Robench, asked: list[object], tmp_path: Path) -> None:
        """No font, image or style sheet is fetched: letters are outlines."""
        assert robench("figure", "budget", *asked, "--output", tmp_path / "a.svg").code == 0
        root = ElementTree.fromstring((tmp_path / "a.svg").read_bytes())
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert {"svg", "path", "use"} <= tags
        assert not tags & {"text", "image", "script", "style-sheet", "a"}

    def test_a_png_has_200_dots_per_inch(self, robench: Robench, asked: list[object], tmp_path: Path) -> None:
        assert robench("figure", "budget", *asked, "--output", tmp_path / "a.PNG").code == 0
        with Image.open(io.BytesIO((tmp_path / "a.PNG").read_bytes())) as image:
            assert image.size[0] == 650
            assert image.info["dpi"][0] == pytest.approx(200, abs=0.1)

    @pytest.mark.slow
    def test_a_pdf_embeds_its_font(self, robench: Robench, asked: list[object], tmp_path: Path) -> None:
        assert robench("figure", "seeds", *asked, "--output", tmp_path / "a.pdf").code == 0
        content = (tmp_path / "a.pdf").read_bytes()
        assert b"/FontFile2" in content
        assert b"/Type3" not in content


class TestTraining:
    def test_histories_lie_beside_the_weights(self, robench: Robench, registry: Path, tmp_path: Path) -> None:
        options = ("--model", "mine", "--all-seeds", "--registry", registry)
        ended = robench("figure", "training", *options, "--output", tmp_path / "a.svg")
        assert (ended.code, ended.stderr) == (0, f"wrote {tmp_path / 'a.svg'}\n")
        content = (tmp_path / "a.svg").read_text()
        assert "<!-- mine (2 seeds) -->" in content
        assert "<!-- Thin lines: training seeds; thick" in content
        assert robench("figure", "training", *options, "--output", tmp_path / "b.svg").code == 0
        assert (tmp_path / "b.svg").read_text() == content

    def test_files_are_named_by_themselves_each_once(self, robench: Robench, registry: Path, tmp_path: Path) -> None:
        histories = [("--history", tmp_path / "w" / f"{name}.history.json") for name in ("mine", "mine", "mine-seed1")]
        options = [each for pair in histories for each in pair]
        ended = robench("figure", "training", *options, "--panel", "accuracy", "--output", tmp_path / "a.svg")
        assert ended.code == 0
        content = (tmp_path / "a.svg").read_text()
        assert "<!-- validation accuracy -->" in content
        assert "<!-- training loss -->" not in content

    def test_a_missing_history_says_what_keeps_one(self, robench: Robench, registry: Path, tmp_path: Path) -> None:
        path = tmp_path / "w" / "mine.history.json"
        path.unlink()
        options = ("--model", "mine", "--registry", registry, "--output", tmp_path / "a.svg")
        ended = robench("figure", "training", *options)
        assert ended.code == 2
        command = f"robench train mine --registry {registry}"
        assert f"there is no training history of 'mine' at {path}; '{command}' keeps one" in ended.stderr
        assert not (tmp_path / "a.svg").exists()


REFUSALS = {
    "another suffix": ("budget SUITE --output FOLDER/a.jpg", "end the file's name in .svg, .pdf, .png, .pgf"),
    "no suffix": ("budget SUITE --output FOLDER/svg", "end the file's name in .svg, .pdf, .png, .pgf"),
    "a file as folder": ("budget SUITE --output FOLDER/null.json/a.svg", "cannot be written: "),
    "a long name": (f"budget SUITE --output FOLDER/{'x' * 300}.svg", "cannot be written: "),
    "an unknown panel": (
        "corruptions SUITE --panel snow --output FOLDER/a.svg",
        "no panel's title contains 'snow'; there are: gaussian_noise, contrast",
    ),
    "nothing named": (
        "training --output FOLDER/a.svg",
        "name models with --model, or files that 'robench train' kept with --history",
    ),
    "no history": (
        "training --history FOLDER/null.json --output FOLDER/a.svg",
        "null.json is not a training history; name a .history.json that 'robench train' kept",
    ),
    "a damaged history": ("training --history FOLDER/damaged.json --output FOLDER/a.svg", "is not a training history"),
    "no file": ("training --history FOLDER/none --output FOLDER/a.svg", "none cannot be read ("),
    "a folder": ("training --history FOLDER --output FOLDER/a.svg", " cannot be read ("),
    "a pipe": ("training --history FOLDER/pipe --output FOLDER/a.svg", "pipe cannot be read ("),
    "two histories of one checkpoint": (
        "training --history FOLDER/a.history.json --history FOLDER/b.history.json --output FOLDER/a.svg",
        "b.history.json are both histories of 'same'; leave one of them out",
    ),
}


class TestRefusals:
    @pytest.mark.parametrize("name", REFUSALS)
    def test_what_cannot_be_drawn_is_refused(
        self, robench: Robench, asked: list[object], tmp_path: Path, name: str
    ) -> None:
        os.mkfifo(tmp_path / "pipe")
        for content, file in (("null", "null.json"), ('{"epochs": [{"epoch": 1}]}', "damaged.json")):
            (tmp_path / file).write_text(content)
        for file in ("a", "b"):
            write_history(tmp_path / f"{file}.history.json", "same")
        command, message = REFUSALS[name]
        written = command.replace("SUITE", " ".join(map(str, asked))).replace("FOLDER", str(tmp_path))
        ended = robench("figure", *written.split())
        assert ended.code == 2
        assert message in ended.stderr
        assert not (tmp_path / "a.svg").exists()

    @pytest.mark.parametrize("kind", KINDS)
    def test_no_results_write_no_file(self, robench: Robench, asked: list[object], tmp_path: Path, kind: str) -> None:
        ended = robench("figure", kind, *asked[:3], tmp_path / "empty", "--output", tmp_path / "a.svg")
        assert ended.code == 1
        assert "there is nothing to draw: no " in ended.stderr
        assert "shift, version 2 has a number for these models." in ended.stderr
        assert " 'robench status' shows what is missing" in ended.stderr
        assert not (tmp_path / "a.svg").exists()

    def test_what_is_in_no_curve_is_named(self, robench: Robench, asked: list[object], tmp_path: Path) -> None:
        options = ("--suite", tmp_path / "adv.yaml", *asked[2:], "--output", tmp_path / "a.svg")
        ended = robench("figure", "budget", *options)
        assert ended.code == 0
        assert "Not drawn: fgsm (no other budget), robust accuracy (over several conditions). A" in ended.stderr

    def test_without_matplotlib_one_sentence_says_how_to_get_it(
        self, robench: Robench, asked: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        for options in (("budget", *asked), ("training", "--model", "digits-vit")):
            ended = robench("figure", *options, "--output", tmp_path / "a.svg")
            assert ended.code == 2
            (line,) = ended.stderr.splitlines()
            assert line.startswith("Error: figures need matplotlib (")
            assert line.endswith(f"; install it with: pip install --editable '{ROOT}[figures]'")

    @pytest.mark.slow
    def test_a_matplotlib_that_cannot_start_is_said(self, asked: list[object], tmp_path: Path) -> None:
        environment = {**os.environ, "MPLBACKEND": "nonsense"}
        arguments = ["figure", "budget", *map(str, asked), "--output", str(tmp_path / "a.svg")]
        ended = subprocess.run(
            [sys.executable, "-m", "robench", *arguments], capture_output=True, text=True, env=environment
        )
        assert ended.returncode == 2
        assert "figures need matplotlib, whose import fails (ValueError: Key backend: 'nonsense'" in ended.stderr


def test_each_kind_has_its_help(robench: Robench) -> None:
    assert set(command.commands) == {
        *KINDS, "analysis", "cost", "episode", "optimality", "paper", "queries", "reliability", "training",
    }  # fmt: skip
    for kind in command.commands:
        ended = robench("figure", kind, "--help")
        assert ended.code == 0
        assert f"--output {'FOLDER' if kind == 'paper' else 'FILE'}" in ended.stdout
        assert ("--suite" in ended.stdout) is (kind not in ("analysis", "paper", "training"))


@pytest.mark.slow
def test_cost_is_drawn_against_counts_and_kept_seconds(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    given = ("figure", "cost", *asked, "--column", "clean/top1_accuracy", "--output", tmp_path / "cost.svg")
    ended = robench(*given)
    assert ended.code == 0
    assert (tmp_path / "cost.svg").read_bytes().startswith(MAGIC[".svg"])
    ended = robench(*given, "--against", "seconds")
    assert ended.code == 1
    assert "has seconds in the folder costs of --results, which 'robench cost MODEL...' measures" in ended.stderr
