"""Simulated results of four models, and the check that every command calls the same of them different."""

import json
from itertools import combinations

import numpy as np
import pytest
from paired_records import SUITE, store_of

from robench.comparison import compare_models
from robench.comparison.pairing import LEVEL, corrected
from robench.leaderboard import RENDERERS, leaderboard_of, ranked
from robench.reports import RENDERERS as REPORT_RENDERERS
from robench.reports import report_of_store
from robench.store import MemoryStore

MODELS = ("one", "two", "three", "four")
NUM_EXAMPLES = 60


def simulated(seed: int, num_seeds: int) -> MemoryStore:
    """Return results of four models of rising accuracy, right about the same easy examples."""
    draws = np.random.default_rng(seed)
    easy = draws.uniform(size=NUM_EXAMPLES)
    rows = []
    for place, model in enumerate(MODELS):
        for training in range(num_seeds):
            shown = [easy + 0.2 * draws.normal(size=NUM_EXAMPLES) < base + 0.09 * place for base in (0.6, 0.3)]
            name = model if training == 0 else f"{model}@{training}"
            rows.append((name, *("".join("01"[right] for right in each.tolist()) for each in shown)))
    return store_of(*rows)


def seeds_of(model: str, num_seeds: int) -> list[str]:
    return [model, *(f"{model}@{training}" for training in range(1, num_seeds))]


def check_same_marks(seed: int, num_seeds: int) -> None:
    """Check compare, report and leaderboard, as a table and as JSON, on one simulated store."""
    store = simulated(seed, num_seeds)
    options = {"average_seeds": num_seeds > 1, "models": None if num_seeds > 1 else list(MODELS)}
    report = ranked(report_of_store(SUITE, store, **options), SUITE, store)  # type: ignore[arg-type]
    board = leaderboard_of([SUITE], store, **options)  # type: ignore[arg-type]
    (document,) = [json.loads(RENDERERS["json"](board))]
    cells = {row["model"]: row["cells"] for row in document["rows"]}
    for column in SUITE.columns:
        close = {row.model for row in report.rows if row.ranks[column.key].is_close}
        assert {row.model for row in board.rows if row.ranks[f"small/{column.key}"].is_close} == close
        assert {model for model, each in cells.items() if each[f"small/{column.key}"]["is_close"]} == close
        (best,) = [row.model for row in report.rows if row.ranks[column.key].is_best]
        for row in report.rows:
            if row.model == best:
                continue
            seeds = None if num_seeds == 1 else [seeds_of(best, num_seeds), seeds_of(row.model, num_seeds)]
            compared = compare_models([SUITE], store, best, row.model, seeds=seeds)
            (found,) = [each for each in compared.rows if each.column.key == column.key]
            assert found.p_value is not None
            assert found.p_value == row.ranks[column.key].p
            assert found.test == row.ranks[column.key].test == cells[row.model][f"small/{column.key}"]["test"]
            is_close = corrected(found.p_value, len(SUITE.columns) * (len(MODELS) - 1)) > LEVEL
            assert is_close == (row.model in close)
    note = "p times 3 columns of the suite and 3 other models"
    assert note in REPORT_RENDERERS["text"](report)
    assert any(note in each for each in document["notes"])
    places = {row.model: place for place, row in enumerate(board.rows)}
    for first, second in combinations(MODELS, 2):
        pair = tuple(sorted((places[first], places[second])))
        test = board.pairs["small/clean/top1_accuracy"][pair]  # type: ignore[index]  # a pair of two
        seeds = None if num_seeds == 1 else [seeds_of(each, num_seeds) for each in (first, second)]
        row = compare_models([SUITE], store, first, second, seeds=seeds).rows[0]
        assert (row.p_value, row.test) == (pytest.approx(test.p_value, abs=1e-12), test.test)
