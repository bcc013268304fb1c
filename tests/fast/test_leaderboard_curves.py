"""Curves over budgets: which conditions are one, where the clean number is, and what is left out."""

from itertools import combinations

import pytest

from robench.core.report import Cell, Estimate
from robench.declare import find_suites, parse_suite
from robench.leaderboard.board import BoardRow, Chart
from robench.leaderboard.build import board_columns
from robench.leaderboard.chart import NUM_COLOURS, colour_of
from robench.leaderboard.curves import curves_of, left_out_of

CLEAN = {"name": "clean", "num_examples": 40}


def curves(suite, *, measured: str = "") -> tuple[list[Chart], list[str]]:
    """Return the curves and what is left out; every number of a condition with the text in its name is there."""
    columns = board_columns([suite])
    # The number says which column it is of.
    cells = {
        column.key: Cell(
            estimate=Estimate(value=float(place), low=None, high=None, num_examples=40), num_examples=40, missing=0
        )
        if measured in column.key
        else Cell(estimate=None, num_examples=0, missing=40)
        for place, column in enumerate(columns)
    }
    rows = [BoardRow(model="m", cells=cells)]
    charts = list(curves_of(suite, columns, rows))
    for chart in charts:
        keys = [column.key for column in columns]
        values = [point.value for point in chart.lines["m"]]
        assert values == [float(keys.index(key)) if measured in key else None for key in chart.columns]
    return charts, list(left_out_of(suite, columns, charts))


def suite_of(*conditions: dict[str, object], metrics: tuple[str, ...] = ("top1_accuracy",)):
    fields = {"version": 1, "seed": 0, "dataset": "digits", "batch_size": 20, "description": "Made up"}
    return parse_suite({"name": "s", **fields, "conditions": [CLEAN, *conditions], "metrics": list(metrics)})


def pgd(name: str, epsilon: str | float, **fields: object) -> dict[str, object]:
    steps = {} if "relative_step" in fields else {"step_size": "1/255"}
    attack = {"kind": "pgd", "epsilon": epsilon, "num_steps": 5, **steps, **fields}
    return {"name": name, "num_examples": attack.pop("of", 40), "perturbation": attack}


def ensemble(name: str, epsilon: str) -> dict[str, object]:
    members = [{"kind": "apgd", "epsilon": epsilon, "num_steps": 5, "stop": "at_success"}]
    attack = {"kind": "autoattack", "variant": "custom", "epsilon": epsilon, "members": members}
    return {"name": name, "num_examples": 40, "perturbation": attack}


def test_cifar10_under_pgd_is_a_curve_from_the_clean_number_on() -> None:
    charts, left_out = curves(*find_suites(["cifar10-adv"]))
    assert [chart.title for chart in charts] == ["fgsm: top-1 accuracy", "pgd: top-1 accuracy"]
    budgets = (0, 1, 2, 4, 8)
    for chart, attack in zip(charts, ("fgsm", "pgd"), strict=True):
        assert chart.ticks == tuple((budget / 255, f"{budget}/255" if budget else "0") for budget in budgets)
        names = ["clean", *(f"{attack}-{budget}" for budget in budgets[1:])]
        assert chart.columns == tuple(f"cifar10-adv/{name}/top1_accuracy" for name in names)
    assert left_out == ["noise (no other budget)", "robust accuracy (over several conditions)"]


@pytest.mark.parametrize(
    ("dataset", "suite", "attack", "num_ticks"),
    [
        (None, "digits-adv", "pgd", 4),
        (None, "scenes-adv", "pgd", 4),
        (None, "ade20k-adv", "segpgd", 3),
        ("digit-scenes", "masks-adv", "pgd", 3),
        ("digits", "pgd-standard", "pgd", 3),
        ("japanese-vowels", "series-adv", "pgd", 5),
    ],
)
def test_other_shipped_suites_write_their_steps_out_too(
    dataset: str | None, suite: str, attack: str, num_ticks: int
) -> None:
    charts, _ = curves(*find_suites([suite], dataset=dataset))
    found = [chart for chart in charts if chart.title.startswith(f"{attack}: ")]
    assert found
    assert {len(chart.ticks) for chart in found} == {num_ticks}
    assert {chart.columns[0].split("/")[1] for chart in found} == {"clean"}


@pytest.mark.parametrize(
    ("conditions", "title", "places"),
    [
        # Steps of half the budget, however they are written.
        ([pgd("a-2", "2/255"), pgd("a-8", "8/255", step_size="4/255")], "a", [0, 2, 8]),
        ([pgd("a-2", "2/255"), pgd("a-8", "8/255", relative_step="1/2")], "a", [0, 2, 8]),
        ([pgd("a-2", 0.02, step_size=0.01), pgd("a-8", 0.08, step_size=0.04)], "a", [0, 5.1, 20.4]),
        # Ensembles, whose members have a budget each.
        ([ensemble("e-1", "1/255"), ensemble("e-2", "2/255")], "e", [0, 1, 2]),
        # Other examples than the clean ones: no point at 0.
        ([pgd("a-2", "2/255", of=20), pgd("a-4", "4/255", step_size="2/255", of=20)], "a", [2, 4]),
        # Names end in numbers with the same beginning.
        ([pgd("pgd-10", "2/255"), pgd("pgd-16", "4/255", step_size="2/255")], "pgd", [0, 2, 4]),
        ([pgd("pgd-100-1", "2/255"), pgd("pgd-100-2", "4/255", step_size="2/255")], "pgd-100", [0, 2, 4]),
        ([pgd("small", "2/255"), pgd("large", "4/255", step_size="2/255")], "small to large", [0, 2, 4]),
    ],
)
def test_attacks_that_differ_in_budget_alone_are_one_curve(conditions, title, places) -> None:
    (chart,), _ = curves(suite_of(*conditions))
    assert chart.title == f"{title}: top-1 accuracy"
    assert [round(255 * x, 6) for x, _ in chart.ticks] == places


@pytest.mark.parametrize(
    ("conditions", "left_out"),
    [
        (
            [pgd("a-2", "2/255"), pgd("a-8", "8/255")],
            [f"a-{each} (steps not in proportion to those at other budgets)" for each in (2, 8)],
        ),
        (
            [pgd("a-2", "2/255"), pgd("a-8", "8/255", step_size="4/255", num_steps=6)],
            ["a-2 (no other budget)", "a-8 (no other budget)"],
        ),
    ],
)
def test_other_attacks_are_none_and_the_reason_is_given(conditions, left_out) -> None:
    assert curves(suite_of(*conditions)) == ([], left_out)


def test_two_curves_of_names_with_one_beginning_stay_two() -> None:
    """Under the key of a common name the numbers of both would be one line."""
    fields = {"step_size": "2/255"}
    short = [pgd("pgd-1", "2/255"), pgd("pgd-4", "4/255", **fields)]
    long = [pgd("pgd-2", "2/255", num_steps=9), pgd("pgd-3", "4/255", num_steps=9, **fields)]
    charts, left_out = curves(suite_of(*short, *long))
    assert [chart.title for chart in charts] == ["pgd-1 to pgd-4: top-1 accuracy", "pgd-2 to pgd-3: top-1 accuracy"]
    assert [len(chart.ticks) for chart in charts] == [3, 3]
    assert left_out == []


def test_inputs_that_an_attack_clips_have_no_clean_point() -> None:
    """At budget 0 they are the images cut to [0, 1] after normalisation, and not the clean ones."""
    fields = {"space": "normalised", "clip": "unit", "relative_step": "1/4"}
    (chart,), left_out = curves(suite_of(pgd("a-1", "1/255", **fields), pgd("a-2", "2/255", **fields)))
    assert [tick for _, tick in chart.ticks] == ["1/255", "2/255"]
    assert left_out == ["clean beside a (not the same inputs)"]


def test_accuracy_at_distances_begins_with_the_clean_accuracy() -> None:
    attack = {"kind": "cw", "num_steps": 2, "num_search_steps": 1, "initial_c": 1, "learning_rate": 0.01}
    search = {"name": "cw", "num_examples": 40, "perturbation": attack, "distances": [0.5, 1]}
    (chart,), left_out = curves(suite_of(search, metrics=("top1_accuracy", "accuracy_at_distance")))
    assert [tick for _, tick in chart.ticks] == ["0", "0.5", "1"]
    assert chart.columns[0] == "s/clean/top1_accuracy"
    assert left_out == []


def test_a_curve_without_a_number_is_named() -> None:
    conditions = [pgd("a-2", "2/255"), pgd("a-4", "4/255", step_size="2/255")]
    assert curves(suite_of(*conditions), measured="clean") == ([], ["a-2 (no number)", "a-4 (no number)"])


def test_a_colour_follows_from_the_entry_and_those_of_shipped_figures_differ() -> None:
    mechanisms = ("vit", "symvit", "rpc-symvit", "twicing-vit", "rkde-vit", "primal-vit", "bilateral-vit")
    colours = [colour_of(f"cifar10-{each}") for each in mechanisms]
    assert sorted(colours) == list(range(NUM_COLOURS))
    assert {colour_of(f"cifar10-vit@{seed}") for seed in range(5)} == {colour_of("cifar10-vit")}
    pairs = combinations(["digits-vit", "digits-symvit", "digits-rpc-symvit"], 2)
    assert all(colour_of(first) != colour_of(second) for first, second in pairs)
