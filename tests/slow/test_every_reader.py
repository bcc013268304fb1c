"""Each shipped suite of any dataset, on a set of several sizes or lengths: what a run measures, every command reads."""

import json
from pathlib import Path

import pytest
from conftest import Robench
from every_reader import MODELS, check_readers, values_of, write_sets

# Without corruptions-live-224: it has the conditions of corruptions-live, and takes many minutes.
SETS = {
    "autoattack-standard": "photos",
    "corruptions-live": "photos",
    "masks-adv": "masked",
    "masks-c": "masked",
    "pgd-standard": "photos",
    "series-adv": "series",
    "series-c": "series",
    "smoke": "photos",
    "texts-adv": "texts",
    "texts-swap": "prose",
}


@pytest.mark.parametrize(("suite", "data"), SETS.items(), ids=SETS)
def test_every_reader_finds_what_a_run_measured(robench: Robench, tmp_path: Path, suite: str, data: str) -> None:
    registry, asked = write_sets(tmp_path), ("--suite", suite, "--dataset", data)
    models = [option for model in MODELS for option in ("--model", f"{data}-{model}")]
    kept = ("--registry", registry, "--results", tmp_path / "results")
    ran = robench("run", *asked, *models, *kept, "--device", "cpu", "--workers", 1, "--json")
    assert ran.code == 0, ran.stderr[-2000:]
    assert values_of(json.loads(ran.stdout)["rows"]) == values_of(check_readers(robench, tmp_path, suite, data, *asked))
