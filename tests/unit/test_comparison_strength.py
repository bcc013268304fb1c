"""Optimality of attacks beside a loop over a fine grid, and distances of attacks read off records."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from examples import CHECKPOINT, MEASUREMENT, outcome_of, record_of
from robench.comparison.optimality import optimality
from robench.comparison.strength import Strengths, strengths_of
from robench.comparison.strength_documents import STRENGTH_RENDERERS
from robench.core.errors import IncomparableError, IncompleteError, UsageError
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Suite, views_of
from robench.declare import parse_suite
from robench.figures.optimality import optimality_plot
from robench.figures.plots import LinePanel
from robench.reports.results import Given
from robench.tasks.classification import ClassificationOutcome

Array = NDArray[np.float64]
IDS = np.array([f"i{place}" for place in range(40)])


def distances_of_attacks(seed: int) -> tuple[Array, NDArray[np.bool_]]:
    """Return distances of three attacks on 40 images, of which 8 are wrong when clean and some are never fooled."""
    random = np.random.default_rng(seed)
    distances = random.uniform(0.1, 2, (3, 40)) * np.array([[1], [1.3], [2]])
    distances[random.random((3, 40)) < 0.3] = inf
    is_right = np.arange(40) >= 8
    return np.where(is_right, distances, 0), is_right


def values(distances: Array, is_right: NDArray[np.bool_]) -> list[float]:
    return [each.value for each in optimality(distances, is_right, IDS[: len(is_right)])]


def integrated(distances: Array, is_right: NDArray[np.bool_]) -> list[float]:
    """Return the same from the curves: their values at the middles of many cells, image by image."""
    best = [min(column) for column in distances.T]
    radius = max(each for each in best if each < inf)
    grid = (np.arange(20_000) + 0.5) * radius / 20_000

    def area(line: Sequence[float]) -> float:
        return sum(float((grid < each).mean()) for each in line) / len(line) * radius

    clean, of_best = float(np.mean(is_right)) * radius, area(best)
    return [(clean - area(list(line))) / (clean - of_best) for line in distances]


def test_optimality_is_that_of_the_curves_integrated_on_a_fine_grid() -> None:
    for seed in range(3):
        distances, is_right = distances_of_attacks(seed)
        wanted = integrated(distances, is_right)
        assert values(distances, is_right) == pytest.approx(wanted, abs=2e-4)
        assert max(wanted) < 0.99
        # The trapezoidal rule on the knots of each curve, and areas up to each attack's own largest distance, differ.
        radius = np.max(distances.min(0)[np.isfinite(distances.min(0))])
        for line, value in zip(distances, wanted, strict=True):
            knots = np.unique(np.append(line[line <= radius], [0, radius]))
            area = np.trapezoid([(line > each).mean() for each in knots], knots)
            best = np.minimum(distances.min(0), radius).mean()
            assert abs((is_right.mean() * radius - area) / (is_right.mean() * radius - best) - value) > 0.01
            own = line[np.isfinite(line)].max()
            mean = is_right.mean() * own
            shifted = (mean - np.minimum(line, own).mean()) / (mean - np.minimum(distances.min(0), own).mean())
            assert own == radius or abs(shifted - value) > 1e-3


def test_optimality_has_no_unit_and_ranges_from_nothing_found_to_all_of_the_best() -> None:
    distances, is_right = distances_of_attacks(5)
    found = values(distances, is_right)
    assert values(distances * 255, is_right) == pytest.approx(found)
    assert values(distances[::-1], is_right) == pytest.approx(found[::-1])
    nothing = np.where(is_right, inf, 0)
    *same, best, none = values(np.stack([*distances, distances.min(0), nothing]), is_right)
    assert same == pytest.approx(found)
    assert (best, none) == (1, 0)
    # Images that are wrong when clean change no number.
    assert values(distances[:, 8:], is_right[8:]) == pytest.approx(found)


def test_the_interval_contains_the_value_and_has_no_width_if_images_are_alike() -> None:
    distances, is_right = distances_of_attacks(7)
    for each in optimality(distances, is_right, IDS):
        assert each.low is not None
        assert each.high is not None
        assert each.low < each.value < each.high
        assert 0.05 < each.high - each.low < 0.6
    again = optimality(distances, is_right, IDS)
    assert again == optimality(distances, is_right, IDS)
    alike = np.array([[1.0] * 9 + [3], [2.0] * 9 + [3]])
    (_, half) = optimality(alike, np.ones(10, bool), IDS[:10])
    assert (half.low, half.value, half.high) == pytest.approx((0.5, 0.5, 0.5))


@pytest.mark.parametrize("length", [inf, 0, 0.5])
def test_without_an_image_fooled_below_the_largest_distance_there_is_no_optimality(length: float) -> None:
    with pytest.raises(IncompleteError, match="is undefined"):
        optimality(np.full((2, 4), length), np.full(4, length > 0), IDS[:4])


FAB = {"kind": "fab", "num_steps": 1}
SWEEP = {"kind": "pgd", "epsilons": ["1/8", "1/4"], "relative_step": "1/4", "num_steps": 1}
LIBRARY = {"backend": "torchattacks"}
Made = dict[str, list[list[float]]]


def suite_of(*attacks: tuple[str, dict[str, object]], **changes: object) -> Suite:
    conditions = [{"name": "clean"}, *({"name": name, "perturbation": attack} for name, attack in attacks)]
    given = {"name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 4, "audit": False}
    return parse_suite({**given, "conditions": conditions, "metrics": ["top1_accuracy"], **changes})


def strengths(suite: Suite, made: Made, *, first: int = 0, model: str = "m") -> Strengths:
    """Read the strengths off records; ``made`` has, by condition, the length of each image's change at each budget.

    Infinite means not fooled; the first budget of ``clean`` has 0 for images that are wrong.
    """
    records = [_record(suite, name, lengths, first if name == "fab" else 0, model) for name, lengths in made.items()]
    return strengths_of(suite, Given(suite, records, None, suite.seed), [model])


def _record(suite: Suite, name: str, lengths: list[list[float]], first: int, model: str) -> Record:
    condition = next(each for each in suite.conditions if each.name == name)
    count = len(lengths[0])
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name=model),
        condition=condition,
        dataset=DatasetIdentity(name="digits", fingerprint="d", num_examples=count),
        seed=0,
        batch_size=4,
    )

    def outcome(place: int, budget: int, epsilon: str | None) -> ClassificationOutcome:
        length, own = lengths[budget][place], condition.perturbation.search_norm is not None
        found = (length < inf) if own else None
        short = 0.0 if length == inf else length
        changes = {"linf": short, "l2": 9.0, "num_queries": 3 + budget, "num_gradients": 2, "epsilon": epsilon}
        return outcome_of(f"digits/{first + place}", length == inf, found=found, **changes)

    views = list(enumerate(views_of(condition)))
    rows = [outcome(place, budget, view.epsilon) for place in range(count) for budget, view in views]
    return record_of(Shard(measurement=measurement, start=0, stop=count).header, rows)


# Images: wrong when clean; fooled by both; by the sweep at its second budget alone; by nothing.
MADE: Made = {
    "clean": [[0, inf, inf, inf]],
    # A search of a library may move an image that is wrong when clean.
    "fab": [[0.5, 0.1, inf, inf]],
    "sweep": [[0.125, 0.125, inf, inf], [0.25, 0.2, 0.25, inf]],
}


def test_distances_are_the_smallest_over_budgets_and_zero_where_the_clean_image_is_wrong() -> None:
    (group,) = strengths(suite_of(("fab", {**FAB, **LIBRARY}), ("sweep", SWEEP)), MADE).groups
    assert group.distances.tolist() == [[0, 0.1, inf, inf], [0, 0.125, 0.25, inf]]
    fab, sweep = group.attacks
    assert (fab.name, fab.num_alone, fab.num_nearest) == ("fab", 0, 1)
    assert (sweep.name, sweep.num_alone, sweep.num_nearest) == ("sweep", 1, 1)
    assert (fab.median, sweep.median) == (inf, 0.25)
    assert (fab.num_queries, sweep.num_queries, sweep.num_gradients) == (3, 7, 4)
    # R is 0.25: of 0.15 + 0 the first has all, the second 0.125.
    assert fab.optimality is not None
    assert sweep.optimality is not None
    assert (fab.optimality.value, sweep.optimality.value) == pytest.approx((1, 0.125 / 0.15))
    assert fab.seconds == sweep.seconds > 0
    (panel,) = optimality_plot(strengths(suite_of(("fab", FAB), ("sweep", SWEEP)), MADE)).panels
    assert isinstance(panel, LinePanel)
    line = {each.model: [(point.x, point.value) for point in each.points] for each in panel.series}
    assert line["fab"][0] == (0, 75)
    assert line["fab"] == [(0, 75), (0, 75), (0, 75), (0.1, 75), (0.1, 50), (0.25, 50)]
    assert line["best of all"][-1] == (0.25, 25)


def test_attacks_at_one_budget_alone_have_counts_and_no_optimality() -> None:
    bounded = {"kind": "pgd", "epsilon": "1/4", "step_size": "1/8", "num_steps": 1}
    suite = suite_of(("pgd", bounded), ("fgsm", {"kind": "fgsm", "epsilon": "1/4"}))
    found = strengths(suite, {"clean": MADE["clean"], "pgd": [[0, 0.25, 0.25, inf]], "fgsm": [[0, 0.24, inf, inf]]})
    (group,) = found.groups
    assert [(each.optimality, each.num_alone, each.num_nearest) for each in group.attacks] == [
        (None, 1, 1),
        (None, 0, 1),
    ]
    assert "several budgets" in found.notes[-1]


def test_attacks_under_other_threat_models_are_left_out_with_the_reason() -> None:
    pgd = {**SWEEP, "num_steps": 2}
    others = {
        "normalised": {**FAB, "space": "normalised"},
        "predicted": {**pgd, "labels": "predicted"},
        "files": {**pgd, "pixels": "8bit"},
        "early": {**FAB, "epsilon": "1/4", "stop": "at_success"},
        "patch": {**pgd, "patches": {"count": 1, "size": 4}},
        "noise": {"kind": "uniform-noise", "epsilon": "1/4"},
        "alone": {**FAB, "norm": "l2"},
        "few": {**pgd, "epsilons": ["1/2", "1"], "l0": {"count": 24}},
    }
    suite = suite_of(("fab", FAB), ("sweep", SWEEP), *others.items())
    found = strengths(suite, MADE)
    assert len(found.groups) == 1
    for name, reason in zip(
        others,
        (
            *("space is normalised", "labels is predicted", "pixels is 8bit", "before the minimum", "1-patch-4x4"),
            *("look at the model", "alone in l2 on digits", "alone in l0 (pixels) on digits"),
        ),
        strict=True,
    ):
        (note,) = (each for each in found.notes if each.startswith(f"{name} is left out"))
        assert reason in note
    with pytest.raises(UsageError, match="no two attacks"):
        strengths(suite_of(("fab", FAB)), {})


def test_other_examples_are_refused_and_missing_ones_are_named() -> None:
    suite = suite_of(("fab", FAB), ("sweep", SWEEP))
    with pytest.raises(IncomparableError, match="'clean' and 'fab' have different examples"):
        strengths(suite, MADE, first=1)
    found = strengths(suite, {name: MADE[name] for name in ("clean", "fab")})
    assert (found.groups, found.missing) == ((), ("m: sweep lacks examples",))
    with pytest.raises(IncompleteError, match="sweep lacks examples"):
        optimality_plot(found)
    with pytest.raises(UsageError, match="no clean condition"):
        strengths(replace(suite, conditions=suite.conditions[1:]), {})


def test_the_global_optimality_is_the_mean_over_models_that_all_have_one() -> None:
    suite = suite_of(("fab", FAB), ("sweep", SWEEP))
    first = strengths(suite, MADE, model="a")
    swapped: Made = {**MADE, "fab": [[0, 0.2, inf, inf]], "sweep": [[0, 0.1, inf, inf], [0, 0.2, 0.25, inf]]}
    second = strengths(suite, swapped, model="b")
    both = replace(first, groups=(*first.groups, *second.groups))
    ((norm, means),) = both.overall.items()
    assert str(norm) == "linf on digits"
    (group,) = second.groups
    without = replace(group, attacks=tuple(replace(each, optimality=None) for each in group.attacks[:1]))
    assert replace(both, groups=(*first.groups, without)).overall == {norm: {}}
    text = STRENGTH_RENDERERS["text"](both)
    assert "a, linf on digits: 4 images, R = 0.25" in text
    assert text.index("b, linf on digits") < text.index("All models, linf on digits")
    assert means == pytest.approx({"fab": (1 + 0.05 / 0.15) / 2, "sweep": (0.125 / 0.15 + 1) / 2})
