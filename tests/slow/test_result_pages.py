"""The pages on CIFAR-10, series and segmentation: their tables are those of the committed results."""

import re
from typing import Any

import numpy as np
import pytest
from results_pages import PAGES

from robench.papers.archive import unpacked
from robench.store import FolderStore

CIFAR10, SERIES, SEGMENTATION = (PAGES[name] for name in ("cifar10", "series", "segmentation"))
(ATTACKS,) = SEGMENTATION.compared


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_the_tables_are_those_of_the_committed_results(page: Any) -> None:
    text = page.path.read_text()
    assert page.text(text) == text, "run `make generated`"
    assert "not measured" not in text


def test_series_compare_six_mechanisms() -> None:
    assert SERIES.path.read_text().count("| | softmax | rpc | twicing | bilateral | rkde | primal |") == 4


def test_attacks_on_segmentation_differ_as_numpy_alone_says() -> None:
    counts: dict[tuple[str, str], Any] = {}
    compared = {(model, condition) for model in ATTACKS.models for condition in (ATTACKS.plain, *ATTACKS.others)}
    with unpacked(SEGMENTATION.archive) as results:
        for record in FolderStore(results).records(lambda shard: (shard.checkpoint, shard.condition) in compared):
            total = counts.setdefault((record.shard.checkpoint, record.shard.condition), np.zeros((3, 11)))
            for row in range(len(record.outcomes)):
                classes = record.outcomes.column("classes")[row]
                for place, name in enumerate(("num_true", "num_predicted", "num_both")):
                    total[place, classes] += record.outcomes.column(name)[row]

    def numbers(model: str, condition: str) -> tuple[float, float]:
        true, predicted, both = counts[model, condition]
        return 100 * both.sum() / true.sum(), 100 * (both / (true + predicted - both)).mean()

    pattern = (
        r"\| (scenes-\w+): (pixel accuracy|mean IoU) \|.*\| (\d+\.\d) \[.*\| ([+-]\d+\.\d) \[.*\| ([+-]\d+\.\d) \["
    )
    rows = re.findall(pattern, SEGMENTATION.path.read_text())
    assert len(rows) == 6
    for model, name, plain, *differences in rows:
        place = ("pixel accuracy", "mean IoU").index(name)
        base = numbers(model, "pgd-2")[place]
        assert float(plain) == pytest.approx(base, abs=0.051)
        for condition, difference in zip(("segpgd-2", "cospgd-2"), differences, strict=True):
            assert float(difference) == pytest.approx(numbers(model, condition)[place] - base, abs=0.051)
