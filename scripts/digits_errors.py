"""Writes DIGITS_VIT in robench/metrics/reference_errors.py: errors of digits-vit on digits-c, the units of others.

To be run after digits-vit, the digits or a corruption changed (``make errors``, a minute); a test holds some of
the numbers to a fresh measurement.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import robench
from robench.datasets.base import corrupted_of
from robench.metrics.corruptions import errors_of
from robench.reports.selection import cover
from robench.store import FolderStore

TARGET = Path(__file__).parents[1] / "robench" / "metrics" / "reference_errors.py"
MODEL = "digits-vit"
ERRORS = re.compile(r"^DIGITS_VIT = ReferenceErrors\(\n.*?^\)\n", re.DOTALL | re.MULTILINE)


def main() -> None:
    """Measure and write."""
    suite = replace(robench.load_suite("digits-c"), metrics=(), columns=())
    with tempfile.TemporaryDirectory() as results:
        robench.run(suite, [MODEL], results=results, device="cpu", workers=None)
        records = list(FolderStore(Path(results)).records(lambda shard: True))
    covered = cover(suite.conditions, records, dataset_sizes={}, limit=None)
    corrupted: dict[str, dict[int, object]] = {}
    for condition in suite.conditions:
        if found := corrupted_of(condition):
            corrupted.setdefault(found.type, {})[found.severity] = covered[condition.name].outcomes
    errors = errors_of(MODEL, covered["clean"].outcomes, corrupted)  # type: ignore[arg-type]  # by type and severity
    lines = "".join(f'        "{name}": {error:.6f},\n' for name, error in errors.corrupted.items())
    written = (
        f'DIGITS_VIT = ReferenceErrors(\n    model="{MODEL}",\n    clean={errors.clean:.6f},\n'
        f"    corrupted={{\n{lines}    }},\n)\n"
    )
    TARGET.write_text(ERRORS.sub(lambda _: written, TARGET.read_text()))


if __name__ == "__main__":
    main()
