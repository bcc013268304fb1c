"""A new user's first hour: the wheel in an empty environment, own texts and models, a table of each and a page.

The environment has nothing of the one that tests run in; installing takes minutes and gigabytes.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import hub_models
import pytest
from conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

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
    folder: Path = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, str(folder), str(ROOT)], check=True, capture_output=True)
    (found,) = folder.glob("robench-*.whl")
    return found


def test_in_under_ten_commands_own_models_have_tables_and_a_page(wheel: Path, tmp_path: Path) -> None:
    assert len(COMMANDS) < 10
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    home = tmp_path / "home"
    hub_models.save(home / "bert", hub_models.bert(num_labels=2))
    hub_models.save(home / "gpt2", hub_models.gpt2())
    (home / "reviews.csv").write_text(REVIEWS)
    (home / "mine.yaml").write_text(REGISTRY)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PATH": f"{tmp_path / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    printed = {}
    for command in COMMANDS:
        words = shlex.split(command.replace("WHEEL", str(wheel)))
        ended = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{command}\n{ended.stdout[-1000:]}\n{ended.stderr[-2000:]}"
        printed[command] = ended.stdout
    _, ready, images, data, texts, language, *_ = printed.values()
    assert ready.startswith("Ready")
    assert "digits-vit" in images
    assert "4 examples" in data
    assert "greedy top-1 accuracy" in texts
    assert "word perplexity" in language
    assert "digits-vit" in (home / "leaderboard.html").read_text()
    assert "<mark>AAA </mark>" in (home / "view.html").read_text()
    shown = subprocess.run(
        ["robench", "report", "--suite", "smoke", "--dataset", "digits", "--json"],
        cwd=home, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    cells = json.loads(shown.stdout)["rows"][0]["cells"]
    assert all(cell["missing"] == 0 for cell in cells.values())
