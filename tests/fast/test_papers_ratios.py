"""Claims of seconds and bytes: their ratio to the baseline's is compared, where both were measured alike."""

from dataclasses import replace

import pytest
from papers_examples import basis_with, load_published, printed, table_with

from robench.costs.stored import StoredCost
from robench.declare.printed import PrintedCost
from robench.papers.claims import JudgedClaim
from robench.papers.ratios import relative_gain, relative_rounding
from robench.papers.table import table_of


def stored(model: str, seconds: float, *, conditions: str = "here", at: str = "2026-01-01", **changes) -> StoredCost:
    spread = (seconds, seconds, seconds)
    return StoredCost(
        model=model,
        conditions=conditions,
        described=f"the device {conditions}",
        seconds={"inference": spread, "training": (1.0, 1.0, 1.0)},
        peak_bytes={"inference": seconds * 1e6, "training": 1.0},
        at=at,
        **changes,
    )


def claim_on(*costs: StoredCost, ours: str = "0.12", kind: str = "seconds", mode: str = "inference") -> JudgedClaim:
    """Return the claim of a row with ``ours`` over a baseline with 0.10, both printed for an A100."""
    cells = [
        printed(
            text,
            name,
            row=name,
            unit="s",
            suite=None,
            condition=None,
            metric=None,
            better="lower",
            cost=PrintedCost(kind=kind, mode=mode),  # type: ignore[arg-type]  # names of both
            protocol={"device": "A100"},
        )
        for text, name in ((ours, "mine"), ("0.10", "theirs"))
    ]
    table = replace(table_with(*cells), baselines={"mine": "theirs"})
    (claim,) = table_of(table, replace(basis_with(), costs=costs)).claims
    assert claim.unit == "% of the baseline"
    return claim


@pytest.mark.parametrize(
    ("ours", "seconds", "verdict", "gain", "size"),
    [
        ("0.13", 1.30, "supported", -30, "agrees"),
        ("0.13", 1.80, "supported", -80, "differs"),
        ("0.13", 0.80, "contradicted", 20, "differs"),
        ("0.13", 1.03, "smaller", -3, "differs"),
        # The print's 1.20 may be 0.115 / 0.105 or 0.125 / 0.095.
        ("0.12", 1.04, "undecided", -4, "agrees"),
        ("0.07", 0.70, "supported", 30, "agrees"),
    ],
)
def test_the_ratio_is_judged_by_direction_and_size(
    ours: str, seconds: float, verdict: str, gain: float, size: str
) -> None:
    claim = claim_on(stored("mine", seconds), stored("theirs", 1.0), ours=ours)
    assert claim.printed_gain == pytest.approx(100 - 1000 * float(ours))
    assert (claim.verdict.name, claim.verdict.gain) == (verdict, pytest.approx(gain))
    assert f"ratio of seconds in inference {seconds:.3f}, measured on the device here" in claim.verdict.reason
    assert f"printed {10 * float(ours):.3f} on A100; its size {size}" in claim.verdict.reason


def test_bytes_are_exact_and_modes_are_kept_apart() -> None:
    costs = (stored("mine", 1.004), stored("theirs", 1.0))
    assert claim_on(*costs).verdict.name == "smaller"
    assert claim_on(*costs, kind="bytes").verdict.name == "supported"
    assert claim_on(stored("mine", 1.0005), costs[1], kind="bytes").verdict.name == "smaller"
    assert claim_on(*costs, mode="training").verdict.gain == 0


def test_a_ratio_in_turns_comes_first_and_other_conditions_are_no_pair() -> None:
    paired = stored("mine", 9.0, ratio_to="theirs", ratios={"inference": (1.2, 1.1, 1.3)})
    claim = claim_on(stored("mine", 1.5), stored("theirs", 1.0), paired)
    assert claim.verdict.gain == pytest.approx(-20)
    assert "1.200 (quartiles 1.100 and 1.300), measured in turns on the device here" in claim.verdict.reason
    for costs in ((), (stored("mine", 1.2),), (stored("mine", 1.2), stored("theirs", 1.0, conditions="there"))):
        claim = claim_on(*costs)
        assert (claim.verdict.name, claim.verdict.gain) == ("other device", None)
        assert claim.verdict.reason == (
            "seconds of A100; 'robench cost mine theirs --ratio-to theirs' measures the ratio elsewhere"
        )


def test_a_gain_whose_quartiles_reach_the_tolerance_is_not_distinguished() -> None:
    paired = stored("mine", 9.0, ratio_to="theirs", ratios={"inference": (0.9, 0.8, 0.96)})
    assert claim_on(paired).verdict.name == "smaller"
    assert "0.900 (quartiles 0.800 and 0.960), measured in turns" in claim_on(paired).verdict.reason
    apart = stored("mine", 1.2), replace(stored("theirs", 1.0), seconds={"inference": (1.0, 0.9, 1.15)})
    # From 1.2 / 1.15 to 1.2 / 0.9.
    assert claim_on(*apart).verdict.name == "undecided"


def test_rounding_is_that_of_the_ratio() -> None:

    table = load_published("twicing", 5)
    claim = next(each for each in table.claims if each.model == "DeiT-Twicing" and each.place == "Compute speed")
    assert relative_gain(claim) == pytest.approx(-100 * (9.14 / 8.58 - 1))
    assert relative_rounding(claim) == pytest.approx(100 * (9.145 / 8.575 - 9.14 / 8.58))
