"""``robench card``: metadata that the Hub's own library reads, complete numbers alone, and inert texts."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results
from leaderboard_examples import ADV, FINE, MASKED, SHIFT, adv_suite, fill, shift_suite

from robench.declare import find_suite
from robench.reports import report_of_store
from robench.store import FolderStore

Robench = Any
HOSTILE = "x\n---\n# <script>alert(1)</script> [a](javascript:alert(1)) | `b` {{c}}"
ENTRY = {
    "task": "classification",
    "architecture": {"backbone": "timm", "name": "resnet18"},
    "weights": {"uri": "hf-hub:owner/repository/model.safetensors", "sha256": "0" * 64},
    "preprocessing": {"kind": "image", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
    "trained_on": "digits",
    "training_data": HOSTILE,
    "source": HOSTILE,
    "licence": f"My licence {HOSTILE}",
    "paper": "https://arxiv.org/abs/2402.04617",
    "code": f"https://example.org/{HOSTILE}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of two suites, of one of which every second condition is half done."""
    path: Path = tmp_path_factory.mktemp("card")
    for name, suite in (("adv", ADV), ("shift", SHIFT)):
        (path / f"{name}.yaml").write_text(yaml.safe_dump(suite))
    (path / "models.yaml").write_text(yaml.safe_dump({"checkpoints": {"mine": ENTRY}}))
    store = FolderStore(path / "results")
    fill(store, adv_suite(), {"mine": 0.5, "other": 0.5}, half=["mine"], flags={"mine": (MASKED, FINE)})
    fill(store, shift_suite(), {"mine": 0.5})
    return path


def options(folder: Path) -> list[object]:
    suites = ("--suite", folder / "adv.yaml", "--suite", folder / "shift.yaml")
    return [*suites, "--registry", folder / "models.yaml", "--results", folder / "results"]


@pytest.fixture(scope="module")
def card(folder: Path) -> str:
    from robench.cli.main import main

    path = folder / "README.md"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["robench", "card", "mine", *map(str, options(folder)), "--output", str(path)])
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code
    return path.read_text()


def expected(folder: Path) -> tuple[dict[str, tuple[float, int]], list[str]]:
    """Value and number of examples by the beginning of a metric's name, and those of missing numbers."""
    complete, missing = {}, []
    for suite in (adv_suite(), shift_suite()):
        (row,) = report_of_store(suite, FolderStore(folder / "results"), models=["mine"]).rows
        for column in suite.columns:
            name, estimate = f"{suite.name}: {column.label}", row.cells[column.key].estimate
            if estimate is None:
                missing.append(name)
            else:
                complete[name] = (estimate.value, estimate.num_examples)
    return complete, missing


def test_the_hubs_library_reads_every_complete_number_and_no_other(card: str, folder: Path) -> None:
    read = ModelCard(card)
    assert read.data.model_name == "mine"
    front = yaml.safe_load(card.split("---\n")[1])
    name, results = model_index_to_eval_results(front["model-index"])
    assert name == "mine"
    complete, missing = expected(folder)
    assert len(missing) == 4
    found = {each.metric_name.split(", ")[0]: each for each in results}
    assert {name: each.metric_value for name, each in found.items()} == {name: of[0] for name, of in complete.items()}
    for name, each in found.items():
        assert (each.task_type, each.dataset_type, each.dataset_split) == ("image-classification", "digits", "test")
        assert f"seed 0, one checkpoint, {complete[name][1]} examples)" in each.metric_name
        assert re.search(r", \d+\.\d \[\d+\.\d, \d+\.\d\] per cent \(95 % interval; ", each.metric_name)
        assert each.metric_type in ("top1_accuracy", "robust_accuracy", "mean_error", "corruption_error")
    assert len(read.data.eval_results) == len(complete)
    section = read.text.split("## Missing")[1].split("\n## ")[0]
    listed = [line.removeprefix("- ").rsplit(": ", 1)[0] for line in section.splitlines() if line.startswith("- ")]
    assert listed == missing


def test_metadata_of_the_entry_are_in_the_form_of_the_hub(robench: Robench, card: str, folder: Path) -> None:
    data = ModelCard(card).data
    assert (data.license, data.datasets) == ("other", ["digits"])
    assert re.fullmatch(r"my-licence-[a-z0-9.-]+", data.license_name)
    assert data.tags == ["robustness", "robench", "timm", "of-the-backbone"]
    known = robench("card", "other", "--suite", folder / "adv.yaml", "--results", folder / "results").stdout
    assert "No registry that was read describes this model." in known
    assert {"license", "datasets"}.isdisjoint(ModelCard(known).data.to_dict())


def test_it_has_tables_flags_and_the_commands(card: str, folder: Path) -> None:
    assert "### adv, version 1" in card
    assert "| fgsm top-1 accuracy" in card
    assert "- **zero gradients** is raised: 40 % of the gradients are zero; attack with square" in card
    assert "Checked and not raised:" in card
    commands = card.split("```sh\n")[1].split("\n```")[0].splitlines()
    assert [command.split()[:2] for command in commands] == [["robench", "run"]] * 2
    assert f"--suite {folder / 'adv.yaml'} --model mine --registry {folder / 'models.yaml'}" in commands[0]
    assert "Measured 2026-11-21: seed 0, one checkpoint." in card


def test_texts_of_strangers_stay_texts(card: str) -> None:
    assert card.count("\n---\n") == 1
    assert "<script" not in card
    assert "[a](javascript" not in card
    assert not re.search(r"^# <|^# &lt;", card, re.MULTILINE)
    assert "- paper: [https://arxiv.org/abs/2402.04617](<https://arxiv.org/abs/2402.04617>)" in card
    assert "- weights: [https://huggingface.co/owner/repository](<https://huggingface.co/owner/repository>)" in card
    assert "- code: https://example.org/x\\\\n---" in card


def test_a_model_without_results_names_those_with_some(robench: Robench, folder: Path) -> None:
    ended = robench("card", "mien", *options(folder))
    assert ended.code == 2
    assert f"no results for 'mien' in {folder / 'results'}; models with results: mine, other." in ended.stderr
    assert "Did you mean 'mine'?" in ended.stderr


@pytest.mark.slow
def test_without_suites_it_has_the_shipped_ones_that_were_run(robench: Robench, tmp_path: Path) -> None:
    fill(FolderStore(tmp_path / "kept"), find_suite("smoke", dataset="digits"), {"digits-vit": 0.5})
    ended = robench("card", "digits-vit", "--results", tmp_path / "kept")
    assert ended.code == 0
    assert re.findall(r"^### (.*), version", ended.stdout, re.MULTILINE) == ["smoke"]
    assert "robench run --suite smoke --model digits-vit --dataset digits" in ended.stdout
    assert ModelCard(ended.stdout).data.license == "apache-2.0"
