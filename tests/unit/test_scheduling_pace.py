"""Paces: measured ones first, then those of the model's other measurements by passes, then those of a pass."""

from __future__ import annotations

import pytest

from robench.scheduling.pace import FORWARD_FRACTION, Pace, Paces, Source, weighted


@pytest.mark.parametrize(
    ("forward", "backward", "pairs"),
    [(0, 0, 0.0), (1, 1, 1.0), (1, 0, FORWARD_FRACTION), (21, 20, 20 + FORWARD_FRACTION)],
)
def test_a_forward_pass_is_a_third_of_a_pair(forward: int, backward: int, pairs: float) -> None:
    assert weighted(forward, backward) == pytest.approx(pairs)


def test_what_was_measured_is_its_own_pace_whatever_the_passes() -> None:
    paces = Paces({"m": Pace(9.0, Source.TIMED)})
    paces.add("pgd", "m", 0.4, 20.0)
    paces.add("autoattack", "m", 7.0, None)
    for passes in (None, 1.0, 20.0):
        assert paces.of("pgd", "m", passes) == Pace(0.4, Source.MEASURED)
        assert paces.of("autoattack", "m", passes) == Pace(7.0, Source.MEASURED)


def test_other_conditions_scale_by_the_median_of_the_model_s_ratios() -> None:
    paces = Paces({"m": Pace(9.0, Source.TIMED), "other": Pace(3.0, Source.COUNTED)})
    for key, seconds, passes in (("a", 2.0, 1.0), ("b", 1.0, 10.0), ("c", 4.0, 20.0), ("unknown", 50.0, None)):
        paces.add(key, "m", seconds, passes)
    assert paces.of("d", "m", 5.0) == Pace(pytest.approx(5 * 0.2), Source.SCALED)
    assert paces.of("d", "other", 5.0) == Pace(15.0, Source.COUNTED)


def test_without_passes_or_any_time_the_pace_is_unknown() -> None:
    paces = Paces({"m": Pace(9.0, Source.TIMED)})
    assert paces.of("d", "m", 2.0) == Pace(18.0, Source.TIMED)
    assert paces.of("d", "m", None) is None
    assert paces.of("d", "other", 2.0) is None


def test_the_usual_pass_is_the_mean_over_models() -> None:
    assert Paces().usual_per_pass == 1.0
    paces = Paces({"a": Pace(1.0, Source.TIMED), "b": Pace(3.0, Source.TIMED)})
    assert paces.usual_per_pass == 2.0
    paces.add("x", "b", 10.0, 2.0)
    assert paces.usual_per_pass == 3.0
