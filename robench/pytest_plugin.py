"""pytest plug-in: the fixture ``robench``, whose ``check`` fails a test where results are worse than a baseline's.

    def test_published(robench):
        robench.check("digits-adv", model="digits-rpc-symvit", baseline="digits.parquet")

``robench_baseline`` and ``robench_results`` in pytest's configuration give the baseline and the folder of results, by
default ``results``. Paths are relative to pytest's root folder.
"""

from __future__ import annotations

from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.comparison import Check


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings of pytest's configuration file."""
    parser.addini("robench_baseline", "Baseline of robench.check, as 'robench baseline write' wrote it.")
    parser.addini("robench_results", "Folder in which robench keeps results.", default="results")


@dataclass(frozen=True, slots=True)
class Checker:
    """Checks results within a test.

    Attributes:
        root: folder that paths are relative to.
        baseline: baseline of checks that name none; ``results``: folder of results likewise.
    """

    root: Path
    baseline: str
    results: str

    def check(
        self,
        suite: str | Path | Sequence[str | Path] = (),
        model: str | Sequence[str] = (),
        *,
        baseline: str | Path | None = None,
        results: str | Path | None = None,
        run: bool = True,
        **settings: Any,
    ) -> Check:
        """Fail the test where a number is significantly worse than the baseline's, or missing.

        ``suite`` names one suite or file or several, ``model`` one model or several, by default all of the baseline.
        ``run`` first measures what the folder ``results`` lacks, and keeps it there. ``settings`` are further arguments
        of ``robench.check``, such as ``registry`` and ``tolerance``. What robench refuses fails the test by its message
        alone.
        """
        # Imported here, since pytest loads every plug-in for every session.
        import robench
        from robench.comparison.documents import check_text
        from robench.core.errors import RobenchError

        given = baseline or self.baseline
        if not given:
            pytest.fail("no baseline: give baseline=, or set robench_baseline in pytest's configuration", pytrace=False)
        try:
            # Suites, registries and modules of models are looked for there too.
            with chdir(self.root):
                found: Check = robench.check(given, suite, model, run=run, results=results or self.results, **settings)
        except RobenchError as error:
            refused = "\n".join(error.lines)
        else:
            if found.has_passed:
                return found
            refused = check_text(found)
        pytest.fail(refused, pytrace=False)


@pytest.fixture
def robench(request: pytest.FixtureRequest) -> Checker:
    """Return a checker of results against a baseline: ``robench.check("suite", model="name", baseline="file")``."""
    config = request.config
    return Checker(config.rootpath, str(config.getini("robench_baseline")), str(config.getini("robench_results")))
