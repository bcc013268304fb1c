"""Several models beside a control: from records to differences, intervals, verdicts, notes and documents."""

import csv
import io
import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from cifar10_second import stability, verdicts
from many_to_one import controlled_gains
from numpy.typing import NDArray
from paired_records import CLEAN, FGSM, SUITE, record
from presence import present
from scipy import stats

from robench.comparison import CONTROL_RENDERERS, ManyToOne, compare_with_control
from robench.comparison.compare import known_results
from robench.comparison.dunnett import pooled
from robench.comparison.evidence import difference_over_seeds, holm
from robench.comparison.many_to_one import error_over_examples
from robench.core.errors import IncomparableError, IncompleteError, UnknownNameError, UsageError
from robench.core.report import Cell
from robench.figures.gains import gains_plot
from robench.figures.plots import SeedPanel
from robench.reports.results import Stored
from robench.store import MemoryStore

NUM_EXAMPLES, NUM_SEEDS, NUM_COLUMNS = 400, 4, 3
# Rates of right examples, clean and under FGSM.
RATES = {"base": (0.6, 0.3), "good": (0.9, 0.6), "bad": (0.6, 0.05), "close": (0.62, 0.3)}
SEEDS: dict[str, dict[str, int | None]] = {
    name: {f"{name}@{seed}" if seed else name: seed for seed in range(NUM_SEEDS)} for name in RATES
}


def outcomes_of_seeds() -> dict[tuple[str, str], NDArray[np.bool_]]:
    """Outcomes (seeds, examples) by model and condition: seeds share half of what is random in an example."""
    rng, found = np.random.default_rng(0), {}
    shared = {name: rng.random(NUM_EXAMPLES) for name in ("clean", "fgsm")}
    for name, rates in RATES.items():
        for condition, rate in zip(shared, rates, strict=True):
            own = rng.random((NUM_SEEDS, NUM_EXAMPLES))
            mixed = np.where(rng.random((NUM_SEEDS, NUM_EXAMPLES)) < 0.5, shared[condition], own)
            found[name, condition] = mixed < rate
    return found


OUTCOMES = outcomes_of_seeds()


def store_of_seeds(*, without: tuple[str, ...] = (), **settings: str) -> MemoryStore:
    store = MemoryStore()
    for (name, of), condition in product(SEEDS.items(), (CLEAN, FGSM)):
        for seed, checkpoint in enumerate(of):
            if checkpoint not in without:
                text = "".join("01"[each] for each in OUTCOMES[name, condition.name][seed].astype(int))
                store.put(record(condition, text, checkpoint, **settings))  # type: ignore[arg-type]  # texts
    return store


@pytest.fixture(scope="module")
def compared() -> ManyToOne:
    return compare_with_control([SUITE], store_of_seeds(), "base", SEEDS)


def test_differences_intervals_and_p_values_are_those_of_numpy_and_scipy(compared: ManyToOne) -> None:
    welch = []
    for column, condition in zip(compared.columns[:2], ("clean", "fgsm"), strict=True):
        scores = {name: OUTCOMES[name, condition].mean(axis=1) for name in RATES}
        wanted = stats.dunnett(*list(scores.values())[1:], control=scores["base"], rng=np.random.default_rng(0))
        std = np.sqrt(np.mean([each.var(ddof=1) for each in scores.values()]))
        assert present(column.pooled).std == pytest.approx(std)
        critical = present(column.pooled).critical(0.05)
        for place, gain in enumerate(column.gains):
            by_example = OUTCOMES[gain.model, condition].mean(axis=0) - OUTCOMES["base", condition].mean(axis=0)
            assert gain.difference == pytest.approx(by_example.mean())
            assert gain.p_value == pytest.approx(wanted.pvalue[place], abs=1e-3)
            assert gain.p_corrected == pytest.approx(min(1, NUM_COLUMNS * gain.p_value))
            variance = 2 * std**2 / NUM_SEEDS + by_example.var(ddof=1) / NUM_EXAMPLES
            half = critical * np.sqrt(variance)
            assert (gain.low, gain.high) == pytest.approx((by_example.mean() - half, by_example.mean() + half))
            half = critical * std * np.sqrt(2 / NUM_SEEDS)
            assert gain.over_seeds == pytest.approx((by_example.mean() - half, by_example.mean() + half))
            welch.append(difference_over_seeds([*scores[gain.model]], [*scores["base"]])[1])
    # Robust accuracy is of right examples alone; here as of FGSM where clean ones are all right.
    of_robust = compared.columns[2].gains
    assert len(of_robust) == 3
    found = [gain.welch for column in compared.columns for gain in column.gains]
    cells = [(gain.cell, compared.columns[2].control) for gain in of_robust]
    welch += [difference_over_seeds(*(present(each.estimate).of_seeds for each in pair))[1] for pair in cells]
    assert found == pytest.approx(holm(welch))


def test_the_error_over_examples_is_that_of_paired_means_over_seeds() -> None:
    store = store_of_seeds()
    sides = [
        [known_results(SUITE, Stored(SUITE, store, None, 0), each, None) for each in SEEDS[name]] for name in RATES
    ]
    for column, condition in zip(SUITE.columns[:2], ("clean", "fgsm"), strict=True):
        by_example = OUTCOMES["good", condition].mean(axis=0) - OUTCOMES["base", condition].mean(axis=0)
        found = error_over_examples(sides[1], sides[0], column)
        assert found == pytest.approx(by_example.std(ddof=1) / np.sqrt(NUM_EXAMPLES))
    column, row = SUITE.columns[0], sides[1][0].row
    lacking = replace(row, cells={column.key: Cell(estimate=None, num_examples=0, missing=1)})
    assert error_over_examples([replace(sides[1][0], row=lacking), *sides[1][1:]], sides[0], column) is None


def test_intervals_hold_for_all_models_over_other_seeds_and_other_examples() -> None:
    rng, num_boards, rates = np.random.default_rng(7), 300, np.array([0.5, 0.5, 0.6, 0.45])
    of_both, of_seeds = 0, 0
    for _ in range(num_boards):
        # Drawn anew: how hard examples are, how lucky seeds are, and how examples differ between models.
        shared = rng.uniform(-0.1, 0.1, 100) + rng.uniform(-0.3, 0.3, (len(rates), 1, 100))
        chances = rates[:, None, None] + rng.normal(0, 0.02, (len(rates), 3, 1)) + shared
        outcomes = rng.random(chances.shape) < chances
        by_seed, by_example = outcomes.mean(axis=2), outcomes.mean(axis=1)
        spread, errors = pooled([*by_seed]), [0.0, 0.0]
        for place in range(1, len(rates)):
            difference = by_seed[place].mean() - by_seed[0].mean() - (rates[place] - rates[0])
            over_examples = (by_example[place] - by_example[0]).std(ddof=1) / 10
            error = np.hypot(spread.error(place), over_examples)
            errors = [max(errors[0], abs(difference) / error), max(errors[1], abs(difference) / spread.error(place))]
        of_both += errors[0] <= spread.critical(0.05)
        of_seeds += errors[1] <= spread.critical(0.05)
    least = 0.95 - 3 * (0.95 * 0.05 / num_boards) ** 0.5
    assert of_both / num_boards >= least
    # Those over seeds alone are of the same examples, and miss differences on others.
    assert of_seeds / num_boards < least


def test_verdicts_are_of_corrected_tests_and_intervals(compared: ManyToOne) -> None:
    found = {(gain.model, each.column.label): gain.verdict for each in compared.columns[:2] for gain in each.gains}
    assert found == {
        ("good", "clean top-1"): "supported",
        ("good", "fgsm top-1"): "supported",
        ("bad", "clean top-1"): "undecided",
        ("bad", "fgsm top-1"): "contradicted",
        ("close", "clean top-1"): "undecided",
        ("close", "fgsm top-1"): "undecided",
    }
    assert "bad contradicted in fgsm top-1" in compared.summary
    assert compared.summary.endswith("(p times 3 columns).")
    assert compared.is_complete
    (fgsm,) = compared.arranged(["fgsm"]).columns
    assert fgsm == compared.columns[1]


def test_the_second_editions_verdicts_are_those_of_the_command_and_hold_where_they_are_clear(
    compared: ManyToOne,
) -> None:
    found = set()
    for column, condition in zip(compared.columns[:2], ("clean", "fgsm"), strict=True):
        values = np.stack([OUTCOMES[name, condition] for name in RATES]).astype(float)
        wanted = tuple(gain.verdict for gain in column.gains)
        assert verdicts(values, NUM_COLUMNS) == wanted
        proportions, halves = stability(values, NUM_COLUMNS, num_draws=30)
        clear = [place for place, verdict in enumerate(wanted) if verdict != "undecided"]
        assert all(proportions[place] > 0.9 for place in clear)
        assert halves == [verdicts(values[:, :, ::2], NUM_COLUMNS), verdicts(values[:, :, 1::2], NUM_COLUMNS)]
        found.update(wanted)
    assert found == {"supported", "contradicted", "undecided"}


def test_the_figure_has_the_differences_of_means_and_of_seeds(compared: ManyToOne) -> None:
    plot = gains_plot(compared)
    assert plot.models == ("good", "bad", "close")
    assert "from base" in plot.notes[0]
    assert plot.notes[1] == "n = 400 examples, 4 seeds."
    panel, gain = plot.panels[1], compared.columns[1].gains[1]
    assert isinstance(panel, SeedPanel)
    assert (panel.title, panel.x_label, panel.origin) == ("fgsm top-1", "difference (points)", 0)
    row, control = panel.rows[1], OUTCOMES["base", "fgsm"].mean()
    assert row.seeds == pytest.approx(100 * (OUTCOMES["bad", "fgsm"].mean(axis=1) - control))
    assert (row.mean, row.low, row.high) == pytest.approx((100 * gain.difference, 100 * gain.low, 100 * gain.high))
    untested = replace(
        compared, columns=tuple(replace(each, gains=(), why_untested="why") for each in compared.columns)
    )
    with pytest.raises(IncompleteError, match="no difference to draw: why"):
        gains_plot(untested)


def test_a_difference_on_few_examples_is_of_these_alone() -> None:
    store, seeds = MemoryStore(), {name: {name: 0, f"{name}@1": 1, f"{name}@2": 2} for name in ("base", "one", "two")}
    # On ten examples all seeds agree but one: three more right, with an interval over examples that has a zero.
    texts = {"base": "1111000000", "one": "1110111100", "two": "1111000000"}
    for (name, of), condition in product(seeds.items(), (CLEAN, FGSM)):
        for seed, each in enumerate(of):
            store.put(record(condition, texts[name] if seed else texts[name][:-1] + "1", each))
    one = compare_with_control([SUITE], store, "base", seeds).columns[0].gains[0]
    assert one.p_corrected < 0.05
    assert one.over_seeds[0] > 0 > one.low
    assert one.verdict == "undecided"


def test_equal_seeds_are_paired_by_their_recipes() -> None:
    store = store_of_seeds()
    paired = compare_with_control([SUITE], store, "base", SEEDS, are_paired=True)
    scores = np.array([OUTCOMES[name, "clean"].mean(axis=1) for name in RATES])
    residuals = scores - scores.mean(axis=1, keepdims=True) - scores.mean(axis=0) + scores.mean()
    spread = present(paired.columns[0].pooled)
    assert (spread.std, spread.freedom) == (pytest.approx(np.sqrt((residuals**2).sum() / 9)), 9)
    assert "of paired seeds" in CONTROL_RENDERERS["text"](paired)
    # The order in which seeds are named does not matter, their numbers do.
    turned = SEEDS | {"good": dict(reversed(SEEDS["good"].items()))}
    assert compare_with_control([SUITE], store, "base", turned, are_paired=True).columns == paired.columns
    with pytest.raises(UsageError, match="base has 0, 1, 2, 3, good 0, 1, 2, 7; leave out --pair-seeds"):
        compare_with_control([SUITE], store, "base", SEEDS | {"good": SEEDS["good"] | {"good@3": 7}}, are_paired=True)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"seeds": {"base": SEEDS["base"], "good": SEEDS["good"]}},
            UsageError,
            "two models or more beside the control",
        ),
        ({"seeds": SEEDS | {"bad": {"bad": 0}}}, UsageError, "bad has one training"),
        ({"without": ("good@2",)}, UnknownNameError, "good@2"),
        ({"more": {"data": "other"}}, IncomparableError, "measure both on the same data"),
        ({"more": {"weights": "b", "tensors": "equal"}}, UsageError, "has the weights of"),
    ],
)
def test_what_cannot_be_compared_is_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    store = store_of_seeds(without=settings.get("without", ()))
    for condition, checkpoint in product((CLEAN, FGSM), SEEDS["bad"]):
        more = {"time": "2026-11-22T10:00:00+00:00", **settings.get("more", {})}
        if "more" in settings:
            store.put(record(condition, "1" * NUM_EXAMPLES, checkpoint, **more))
    with pytest.raises(error, match=message):
        compare_with_control([SUITE], store, "base", settings.get("seeds", SEEDS))


def test_a_column_that_a_seed_lacks_is_not_tested() -> None:
    store = store_of_seeds(without=("bad@1",))
    store.put(record(CLEAN, "1" * NUM_EXAMPLES, "bad@1"))
    found = compare_with_control([SUITE], store, "base", SEEDS)
    assert [len(each.gains) for each in found.columns] == [3, 0, 0]
    assert not found.is_complete
    assert found.columns[1].why_untested == "bad: not measured, or not on all examples"
    assert "not tested" in CONTROL_RENDERERS["text"](found)


def test_documents_have_sizes_tests_power_and_warnings(compared: ManyToOne) -> None:
    text = CONTROL_RENDERERS["text"](compared)
    assert "fgsm top-1: the test finds a true difference of" in text
    assert "cover training seeds and examples" in text
    document = json.loads(CONTROL_RENDERERS["json"](compared))
    clean = document["columns"][0]
    assert (clean["num_examples"], clean["covers"], clean["freedom"]) == (400, "training seeds and examples", 12)
    assert [each["verdict"] for each in clean["models"]] == ["supported", "undecided", "undecided"]
    assert len(clean["control"]["of_seeds"]) == 4
    lines = [*csv.DictReader(io.StringIO(CONTROL_RENDERERS["csv"](compared)))]
    assert [(each["model"], each["num_seeds"], each["num_examples"]) for each in lines[:2]] == [
        ("good", "4", "400"),
        ("bad", "4", "400"),
    ]
    assert float(lines[0]["difference"]) == pytest.approx(clean["models"][0]["difference"]["value"])
    # One seed far from the others.
    store = store_of_seeds()
    store.put(record(CLEAN, "0" * NUM_EXAMPLES, "close@3", time="2026-11-22T10:00:00+00:00", weights="b"))
    store.put(record(FGSM, "0" * NUM_EXAMPLES, "close@3", time="2026-11-22T10:00:00+00:00", weights="b"))
    warned = compare_with_control([SUITE], store, "base", SEEDS)
    assert "more than 4 times the smallest in clean top-1 (" in present(warned.warning)
    assert present(warned.warning) in json.loads(CONTROL_RENDERERS["json"](warned))["notes"]


def test_a_verdict_needs_both_seeds_and_examples() -> None:
    # Seeds that agree on ten examples, five of which the model alone has right, and one the control.
    control = np.tile([True, False, False, False, False, False] + [True] * 4, (5, 1))
    model = np.tile([False, True, True, True, True, True] + [True] * 4, (5, 1))
    model[0, 9] = control[1, 9] = False
    (found,) = controlled_gains({"control": control, "model": model}, "control").values()
    assert found.p_value < 1e-6
    assert found.verdict == "undecided"
    wide = {"control": np.tile(control, 40), "model": np.tile(model, 40)}
    (supported,) = controlled_gains(wide, "control").values()
    (contradicted,) = controlled_gains(wide, "model").values()
    assert (supported.verdict, contradicted.verdict) == ("supported", "contradicted")
