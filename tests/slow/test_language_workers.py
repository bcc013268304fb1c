"""Language models in worker processes, and after an earlier part."""

import json
from math import exp
from pathlib import Path

import pytest
from conftest import Robench
from test_language_run import MODELS, measured


def test_workers_and_an_earlier_part_change_no_outcome(robench: Robench, tmp_path: Path) -> None:
    serial = measured(robench, tmp_path / "serial", "--limit", 2, "--executor", "serial")
    two = measured(robench, tmp_path / "two", "--limit", 2, "--workers", 2)
    measured(robench, tmp_path / "resumed", "--limit", 1, "--executor", "serial")
    resumed = measured(robench, tmp_path / "resumed", "--limit", 2, "--executor", "serial")
    assert serial == two == resumed
    assert len(serial) == 2 * 2
    ended = robench(
        *("report", "--suite", tmp_path / "suite.yaml", *MODELS, "--limit", 2, "--format", "json"),
        *("--results", tmp_path / "serial"),
    )
    rows = json.loads(ended.stdout)["rows"]
    assert [row["model"] for row in rows] == ["sotu-rpc-lm"]
    for cells in (row["cells"] for row in rows):
        loss, bits = cells["swap/token_loss"]["value"], cells["swap/bits_per_token"]["value"]
        assert cells["swap/perplexity"]["value"] == pytest.approx(exp(loss))
        assert 2**bits == pytest.approx(exp(loss))
        assert cells["swap/kept_damage"]["value"] > 0
        # Two texts have no interval.
        assert cells["swap/perplexity"]["low"] is None
        # What no word was swapped for has no column.
        assert not {"clean/kept_damage", "clean/kept_perplexity", "clean/swapped_perplexity"} & cells.keys()
