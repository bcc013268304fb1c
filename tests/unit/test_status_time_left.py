"""Time that is left of a suite, from the seconds of stored results alone."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Robench

from examples import PROVENANCE, record_of
from robench.cli.store_command import _seconds_left as seconds_left
from robench.declare import find_suite
from robench.reports.holdings import Holding
from robench.reports.selection import Coverage
from robench.scheduling.estimates import weighted_passes
from robench.store import FolderStore

SUITE = find_suite("digits-adv")
PASSES = {each.name: weighted_passes(each) or 0.0 for each in SUITE.conditions}
OTHER = replace(PROVENANCE, device="NVIDIA H200", seconds=0.01, finished_at="2026-11-20T11:00:00+00:00")


def holding(**records: list[float]) -> Holding:
    """Return a holding with records of 20 examples that took these seconds, of conditions of 600 examples."""
    coverages = {}
    for condition in SUITE.conditions:
        provenances = [replace(PROVENANCE, seconds=each) for each in records.get(condition.name, [])]
        coverages[condition.name] = Coverage(
            condition=condition.name,
            num_wanted=600,
            records=tuple(record_of(provenance=each) for each in provenances),
            failures=(),
            has_older=False,
        )
    facts = {"suite": SUITE.name, "dataset": None, "model": "m", "measurements": frozenset[str]()}
    return Holding(**facts, coverages=coverages, num_failed=0, seconds=0.0, is_named=True)  # type: ignore[arg-type]  # its fields


def test_a_condition_goes_on_as_it_began_and_others_follow_by_passes() -> None:
    left = seconds_left(SUITE, holding(pgd=[2.0, 6.0]))
    assert left["pgd"] == pytest.approx(560 * 8.0 / 40)
    assert left["clean"] == pytest.approx(600 * 0.2 * PASSES["clean"] / PASSES["pgd"])


def test_without_results_nothing_is_known() -> None:
    assert set(seconds_left(SUITE, holding()).values()) == {None}


def test_only_the_device_of_the_latest_result_counts() -> None:
    held = holding(pgd=[2.0])
    coverage = held.coverages["pgd"]
    both = replace(coverage, records=(*coverage.records, record_of(provenance=OTHER)))
    left = seconds_left(SUITE, replace(held, coverages={**held.coverages, "pgd": both}))
    assert left["pgd"] == pytest.approx(560 * 0.1)


def test_a_complete_condition_has_nothing_left() -> None:
    held = holding(clean=[0.1])
    whole = replace(held.coverages["clean"], num_wanted=20)
    assert seconds_left(SUITE, replace(held, coverages={**held.coverages, "clean": whole}))["clean"] == 0.0


def test_status_prints_the_time_left_of_each_model(robench: Robench, tmp_path: Path) -> None:
    run = ("run", "--suite", "digits-adv", "--model", "digits-vit", "--executor", "serial", "--no-audit")
    assert robench(*run, "--limit", 100, "--results", tmp_path).code == 0
    asked = ("status", "--suite", "digits-adv", "--results", tmp_path)
    rows = json.loads(robench(*asked, "--json").stdout)
    took = {each.shard.condition: each.provenance.seconds for each in FolderStore(tmp_path).manifests()}
    for row in rows:
        assert row["seconds_left"] == pytest.approx(5 * took[row["condition"]], abs=0.06)
    shown = robench(*asked)
    assert "digits-vit under digits-adv: about " in shown.stderr
    assert " left on one worker" in shown.stderr
    assert "seconds_left" in shown.stdout
