"""The pages on CIFAR-10, series and segmentation: their tables are those of the committed results."""

import re
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from results_pages import PAGES
from scipy.stats import wilcoxon

from robench.papers.archive import unpacked
from robench.store import FolderStore

CONTROL, SERIES, SEGMENTATION = (PAGES[name] for name in ("control", "series", "segmentation"))
(ATTACKS,) = SEGMENTATION.compared


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_the_tables_are_those_of_the_committed_results(page: Any) -> None:
    text = page.path.read_text()
    assert page.text(text) == text, "run `make generated`"
    assert "not measured" not in text


def test_series_compare_six_mechanisms() -> None:
    assert SERIES.path.read_text().count("| | softmax | rpc | twicing | bilateral | rkde | primal |") == 4


@pytest.fixture(scope="module")
def returns() -> dict[tuple[str, str], dict[str, float]]:
    """Returns of episodes by their ids, of each policy and condition of the archive."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    with unpacked(CONTROL.archive) as results:
        for record in FolderStore(results).records(lambda shard: True):
            of_condition = found.setdefault((record.shard.checkpoint, record.shard.condition), {})
            columns = (record.outcomes.column(name).tolist() for name in ("example_id", "total_return"))
            of_condition.update(zip(*columns, strict=True))
    return found


def test_attacks_on_observations_are_stronger_than_noise_of_their_size(returns: Any) -> None:
    """Wilcoxon's signed rank test over the 100 episodes of each model, attack and budget, by Holm."""
    p_values = []
    for (model, condition), attacked in returns.items():
        attack, _, epsilon = condition.partition("-")
        if attack in ("mad", "context"):
            noise = returns[model, f"random-{epsilon}"]
            differences = [noise[each] - attacked[each] for each in sorted(noise)]
            assert len(differences) == 100
            p_values.append(wilcoxon(differences, alternative="greater").pvalue)
    assert len(p_values) == 6 * 4
    assert max(p_value * (24 - place) for place, p_value in enumerate(sorted(p_values))) < 1e-10


def test_returns_of_the_page_on_control_are_means_of_the_archive(returns: Any) -> None:
    names = {"softmax": "softmax", "Primal, 16": "primal-s16", "RPC": "rpc", "twicing": "twicing", "cloning": "cloning"}
    conditions = ("clean", "random-0.2", "mad-0.2", "context-0.2", "observation-delay-1", "gravity-3")
    text = (ROOT / "docs" / "control.md").read_text()
    tables = [each.split("\n\n")[0] for each in text.split("|---|")[-2:]]

    def mean_of(model: str, condition: str = "clean") -> float:
        return float(np.mean([*returns[f"pendulum-{model}", condition].values()]))

    for label, name in (names | {"linear": "linear"}).items():
        (row,) = re.findall(rf"^\| {label} \| (.*) \|$", tables[1], re.MULTILINE)
        printed = [float(each.replace(",", "")) for each in row.split(" | ")]
        assert printed == [round(mean_of(name, condition)) for condition in conditions], label
    seeds = re.findall(r"^\| ([^|]+) \| (-\d+\.\d) \((\d+\.\d)\)", tables[0], re.MULTILINE)
    assert len(seeds) == 5
    for label, mean, deviation in seeds:
        name = (names | {"linear (all layers)": "linear"})[label]
        values = [mean_of(f"{name}{seed}") for seed in ("", "@1", "@2")]
        assert (float(mean), float(deviation)) == pytest.approx((np.mean(values), np.std(values, ddof=1)), abs=0.051)


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
