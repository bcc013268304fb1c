"""Results that another command moves away during a run are measured again by the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from every_reader import COUNT, Masks, write_sets

import robench
from robench.runs.prepare import PreparedRun

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_run_looks_again_for_results_that_were_moved_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, results = write_sets(tmp_path), tmp_path / "results"
    fill, fills = PreparedRun.fill, []

    def filled_and_moved(*arguments: object) -> object:
        progress = fill(*arguments)  # type: ignore[arg-type]  # as it was called
        if not fills:
            # As 'robench store gc --apply' does.
            first = next((results / "records").iterdir())
            first.rename(tmp_path / first.name)
        fills.append(progress.num_done)
        return progress

    monkeypatch.setattr(PreparedRun, "fill", filled_and_moved)
    suite = robench.load_suite("masks-adv", dataset="masked", registry=registry).only(["clean"])
    report = robench.run(suite, {"mine": Masks()}, key="mine", registry=registry, results=results)
    assert [cell.num_examples for row in report.rows for cell in row.cells.values()] == [COUNT] * 3
    assert len(fills) == 2
