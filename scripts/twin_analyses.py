"""Writes reports/analyses: the analyses of small models and of formulas that the papers' figures are drawn from.

Those over the epochs of a training need its weights after each epoch, and are made by ``robench train --keep-epochs``
and ``robench analyse --epochs`` (docs/analysis.md).
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from robench.analyses import ANALYSES
from robench.core.errors import RobenchError
from robench.core.suite import View
from robench.datasets import DATASETS
from robench.declare import find_checkpoints, find_suite
from robench.declare.figures import Part, printed_figures
from robench.declare.schema import assigned
from robench.runs.analyses import AnalysisRequest, analyse
from robench.runs.pictured import views_named

RESULTS = Path(__file__).parents[1] / "reports"


def parts() -> Iterator[Part]:
    """Yield the parts of figures that draw an analysis, each analysis of the same data once."""
    seen = []
    for figure in printed_figures().values():
        for part in figure.parts:
            if part.draws == "analysis" and not part.epochs and (key := (part.analysis, part.twin)) not in seen:
                seen.append(key)
                yield part


def request_of(part: Part) -> AnalysisRequest:
    """Return the request of a part's twin, or of its formula."""
    assert part.analysis is not None  # checked by the reader
    settings = [f"{name}={value}" for name, value in part.settings.items()]
    analysis, twin = assigned(ANALYSES[part.analysis], settings, "settings", "analysis"), part.twin
    if twin is None:
        return AnalysisRequest(analysis=analysis, results=RESULTS)
    suite = None if twin.suite is None else find_suite(twin.suite)
    views: tuple[View, ...] = (
        () if suite is None or twin.condition is None else tuple(views_named(suite, [twin.condition]))
    )
    dataset = DATASETS[twin.data] if suite is None else suite.conditions[0].dataset
    return AnalysisRequest(
        analysis=analysis, dataset=dataset, suite=suite, views=views, count=part.count, device="cpu", results=RESULTS
    )


def main() -> None:
    """Run all, and print the files."""
    for part in parts():
        request = request_of(part)
        checkpoints = [] if part.twin is None else find_checkpoints(part.twin.models, ())
        for checkpoint in checkpoints or [None]:
            try:
                found = analyse(request, checkpoint)
            except RobenchError as error:
                raise SystemExit(f"{part.analysis}: {error}") from error
            for _, path in found:
                sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
