"""The wheel in empty environments: a new user's first hour, the oldest permitted packages, and newer Pythons.

The environments have nothing of the one that tests run in; installing takes minutes and gigabytes.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import hub_models
import pytest
from conftest import ROOT
from environments import built_wheel, python_with

REVIEWS = """\
text,label
"The film was wonderful, and the end moving.",good
"The film was dreadful, and the end boring.",bad
"A charming story, funny and brilliant.",good
"A clumsy story, endless and hollow.",bad
"""
REGISTRY = """\
datasets:
  reviews: {kind: csv, path: reviews.csv, text_column: text, label_column: label}
  prose: {kind: csv, path: reviews.csv, text_column: text, task: language-modeling}
checkpoints:
  my-bert:
    architecture: {kind: transformers, task: text-classification, truncates: true}
    weights: {uri: bert, sha256: null}
    preprocessing: {kind: none, inputs: texts}
  my-gpt2:
    task: language-modeling
    architecture: {kind: transformers, task: causal-lm}
    weights: {uri: gpt2, sha256: null}
    preprocessing: {kind: none, inputs: texts}
"""
# After the files above are written.
COMMANDS = """\
python -m pip install --quiet "WHEEL[transformers]"
robench doctor
robench run --suite smoke --dataset digits --model digits-vit
robench data verify reviews --registry mine.yaml
robench run --suite texts-adv --dataset reviews --registry mine.yaml --model my-bert
robench run --suite texts-swap --dataset prose --registry mine.yaml --model my-gpt2
robench leaderboard --suite smoke --dataset digits --output leaderboard.html
robench view --suite texts-adv --dataset reviews --registry mine.yaml --model my-bert --output view.html
""".splitlines()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def test_in_under_ten_commands_own_models_have_tables_and_a_page(wheel: Path, tmp_path: Path) -> None:
    assert len(COMMANDS) < 10
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    home = tmp_path / "home"
    hub_models.save(home / "bert", hub_models.bert(num_labels=2))
    hub_models.save(home / "gpt2", hub_models.gpt2())
    (home / "reviews.csv").write_text(REVIEWS)
    (home / "mine.yaml").write_text(REGISTRY)
    environment, printed = in_environment(tmp_path / "env"), {}
    for command in COMMANDS:
        words = shlex.split(command.replace("WHEEL", str(wheel)))
        ended = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{command}\n{ended.stdout[-1000:]}\n{ended.stderr[-2000:]}"
        printed[command] = ended.stdout
    _, ready, images, data, texts, language, *_ = printed.values()
    assert ready.startswith("Ready")
    assert "digits-vit" in images
    assert "4 texts" in data
    # Headers of wide tables take several lines.
    assert "greedy" in texts
    assert "perplexity" in language
    assert "digits-vit" in (home / "leaderboard.html").read_text()
    assert "<mark>AAA" in (home / "view.html").read_text()
    shown = subprocess.run(
        ["robench", "report", "--suite", "smoke", "--dataset", "digits", "--json"],
        cwd=home, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    cells = json.loads(shown.stdout)["rows"][0]["cells"]
    assert all(cell["missing"] == 0 for cell in cells.values())


def in_environment(folder: Path) -> dict[str, str]:
    """Return variables with which programs of an environment run, and none of this one's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return environment | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return uv, which alone resolves to the oldest permitted releases."""
    return python_with(tmp_path_factory.mktemp("uv"), "uv>=0.9", is_beside=False).with_name("uv")


def resolved(uv: Path, python: str, resolution: str) -> dict[str, str]:
    """Return the releases that robench and its extras resolve to."""
    extras = [word for name in ("figures", "hub", "transformers") for word in ("--extra", name)]
    options = ["--quiet", "--no-header", "--no-annotate", "--python-version", python, "--resolution", resolution]
    command = [uv, "pip", "compile", *options, *extras, ROOT / "pyproject.toml"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = [line.split(" ;")[0] for line in ended.stdout.splitlines() if "==" in line]
    return dict(line.split("==") for line in lines)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_newer_pythons_have_releases_of_all_requirements(uv: Path, python: str) -> None:
    found = resolved(uv, python, "highest")
    assert {"numpy", "torch", "timm", "transformers", "matplotlib"} <= found.keys()


def test_with_the_oldest_permitted_releases_suites_of_images_and_texts_run(
    uv: Path, wheel: Path, tmp_path: Path
) -> None:
    lower = resolved(uv, "3.11", "lowest-direct")
    assert (lower["numpy"], lower["torch"]) == ("2.0.0", "2.10.0")
    environment, home = tmp_path / "env", tmp_path / "home"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    listed = tmp_path / "requirements.txt"
    listed.write_text("".join(f"{name}=={release}\n" for name, release in lower.items()))
    into = [uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python"]
    subprocess.run([*into, "-r", listed], check=True, capture_output=True)
    subprocess.run([*into, "--no-deps", wheel], check=True, capture_output=True)
    hub_models.save(home / "bert", hub_models.bert(num_labels=2))
    (home / "reviews.csv").write_text(REVIEWS)
    (home / "mine.yaml").write_text(REGISTRY)
    for command in (
        "robench run --suite smoke --dataset digits --model digits-vit",
        "robench run --suite texts-adv --dataset reviews --registry mine.yaml --model my-bert",
        "robench figure seeds --suite smoke --dataset digits --output seeds.svg",
        "robench export --suite smoke --dataset digits --output tables",
    ):
        words, variables = shlex.split(command), in_environment(environment)
        ended = subprocess.run(words, cwd=home, env=variables, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{command}\n{ended.stdout[-1000:]}\n{ended.stderr[-2000:]}"
