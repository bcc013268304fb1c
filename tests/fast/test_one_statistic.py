"""One statistic: every command calls the same models different, and seldom those that do not differ."""

import numpy as np
import pytest
from paired_records import SUITE
from simulated_tables import check_same_marks, seeds_of, simulated

from robench.comparison import RENDERERS, compare_models
from robench.comparison.headline import headline_of
from robench.comparison.pairing import LEVEL, corrected, pair_test, ranks
from robench.metrics.contributions import Contributions, Sample
from robench.reports import report_of_store

# Of pairs and tables without a difference.
NUM_TABLES, NUM_MODELS, NUM_COLUMNS = 60, 20, 4


@pytest.mark.parametrize(("seed", "num_seeds"), [(0, 1), (1, 1), (2, 5)])
def test_compare_report_and_leaderboard_call_the_same_models_different(seed: int, num_seeds: int) -> None:
    check_same_marks(seed, num_seeds)


def equal_models(seed: int) -> list[list[Contributions]]:
    """Return verdicts of models that differ by chance alone, by column and model."""
    draws = np.random.default_rng(seed)
    ids = np.array([f"e{place:03d}" for place in range(100)])
    easy = draws.uniform(0.2, 1.0, size=100)
    return [
        [Contributions((Sample(ids, draws.uniform(size=100) < easy),)) for _ in range(NUM_MODELS)]
        for _ in range(NUM_COLUMNS)
    ]


def test_of_equal_models_few_pairs_and_few_tables_have_a_difference() -> None:
    wrong_pairs = wrong_tables = 0
    for seed in range(NUM_TABLES):
        columns = equal_models(seed)
        tests = [pair_test(first, second) for first, second, *_ in columns]
        wrong_pairs += any(test is not None and corrected(test.p_value, NUM_COLUMNS) < LEVEL for test in tests)
        found = [
            ranks(
                {str(place): each.number for place, each in enumerate(models)},
                {str(place): each for place, each in enumerate(models)},
                lower_is_better=False,
                num_columns=NUM_COLUMNS,
                num_models=NUM_MODELS,
            )
            for models in columns
        ]
        wrong_tables += any(not rank.is_close for column in found for rank in column.values())
    # 5 % and three Monte Carlo errors.
    most = NUM_TABLES * 0.05 + 3 * (NUM_TABLES * 0.05 * 0.95) ** 0.5
    assert wrong_pairs <= most
    assert wrong_tables <= most


def test_a_comparison_ends_with_what_would_be_found() -> None:
    conclusion = compare_models([SUITE], simulated(0, 1), "one", "two").conclusion
    assert conclusion.startswith("No column differs (p times 3 columns of the suite). At 60 examples a difference of ")
    assert conclusion.endswith(" points in fgsm top-1 would be found with 80 % power.")
    assert conclusion in RENDERERS["text"](compare_models([SUITE], simulated(0, 1), "one", "two"))
    differing = compare_models([SUITE], simulated(0, 1), "one", "four").conclusion
    assert "of 3 columns differ at 5 %: four is better in clean top-1" in differing
    seeds = [seeds_of("one", 5), seeds_of("two", 5)]
    assert (
        "At 5 seeds a difference of" in compare_models([SUITE], simulated(1, 5), "one", "two", seeds=seeds).conclusion
    )


def test_a_headline_says_what_was_measured_and_what_differs_as_compare_does() -> None:
    store = simulated(0, 1)
    report = report_of_store(SUITE, store, models=["one", "four", "two"])
    headline = headline_of(report, SUITE, store, limit=None, seed=None)
    assert headline.startswith(f"3 models on 60 examples of {SUITE.conditions[0].dataset.name}: clean, fgsm")
    better = compare_models([SUITE], store, "one", "four").better_in
    assert f"Beside one: {better}; two does not differ from one (at 5 %, p times 3 columns" in headline
    alone = headline_of(report_of_store(SUITE, store, models=["one"]), SUITE, store, limit=None, seed=None)
    assert alone.startswith("1 model on 60 examples")
    assert "Beside" not in alone
