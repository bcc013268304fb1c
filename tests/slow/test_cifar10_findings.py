"""``make cifar10``: each gain on its page is the difference of two reports."""

import random
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from numpy.typing import NDArray
from scipy.stats import dunnett

import robench
from robench.papers.archive import unpacked
from robench.store import FolderStore

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "cifar10_findings.py"))


def test_every_gain_is_the_difference_of_two_reports(tmp_path: Path) -> None:
    SCRIPT["write"](tmp_path)
    names = {"README.md", "budget.svg", "corruptions.svg", "gains.svg", "strength.md", "optimality.svg"}
    names |= {f"leaderboard.{suffix}" for suffix in ("html", "md", "csv")}
    assert {path.name for path in tmp_path.iterdir()} == names
    rows = [
        line.split(" | ") for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("| cifar10-")
    ]
    assert len(rows) >= sum(map(len, SCRIPT["COLUMNS"].values()))
    with unpacked(SCRIPT["ARCHIVE"]) as results:
        for model, baseline, label, *printed, gain, verdict, _bounds, _needed in rows:
            first, second = (float(each.partition(" ")[0]) for each in printed)
            sign = -1 if "error" in label else 1
            assert abs(float(gain) - sign * (first - second)) < 0.151
            if verdict == "one seed":
                suite = re.search(r"\((cifar10-\S+)\)", label)[1]  # type: ignore[index]
                report = robench.build_report(suite, [model.removeprefix("| "), baseline], results=results)
                keys = [each.key for each in report.columns if label.startswith(f"{each.label} (")]
                (key,) = {*keys} & {*SCRIPT["COLUMNS"][suite]}
                values = [row.cells[key].estimate.value for row in report.rows]  # type: ignore[union-attr]
                assert [first, second] == [float(f"{100 * value:.1f}") for value in values]


def test_differences_from_softmax_are_those_of_scipy_and_of_the_page() -> None:
    """Dunnett's test by scipy; the page has the same points, and those below 5 % in bold."""
    with unpacked(SCRIPT["ARCHIVE"]) as results:
        numbers = SCRIPT["numbers_by_seed"](SCRIPT["Findings"](results))
    assert [len(of["cifar10-vit"]) for of in numbers.values()] == [5, 5, 5, 5, 3, 3]
    section = (SCRIPT["FOLDER"] / "README.md").read_text().partition("## Against softmax")[2].partition("\n## ")[0]
    page = (ROOT / "docs" / "cifar10.md").read_text()
    shown = {"primal-vit": "primal, last layer", "rkde-vit": "robust KDE", "rpc-symvit": "RPC", "symvit": "symmetric"}
    names = [name.removeprefix("cifar10-") for name in SCRIPT["MODELS"][1:]]
    for place, (title, of_model) in enumerate(numbers.items()):
        control, *others = (np.array(of_model[name]) for name in SCRIPT["MODELS"])
        found = dunnett(*others, control=control, random_state=0)
        row, *_ = re.findall(rf"^\| {title} \| ([\d.]+) \| (.*) \|$", section, re.MULTILINE)
        assert float(row[0]) == pytest.approx(control.mean(), abs=0.051)
        for name, cell, mean, p_value in zip(names, row[1].split(" | "), others, found.pvalue, strict=True):
            points, printed = re.findall(r"([+-][\d.]+) \(p = (.*)\)", cell)[0]
            corrected = min(1.0, (4 if place < 4 else 2) * p_value)
            assert float(points) == pytest.approx(mean.mean() - control.mean(), abs=0.051)
            assert float(printed) == pytest.approx(corrected, rel=0.51, abs=4e-4)
            label = shown.get(name, name.removesuffix("-vit"))
            cells, *_ = re.findall(rf"^\| {label} \| (.*) \|$", page.partition("### ")[0], re.MULTILINE)
            assert cells.split(" | ")[place] == (f"**{points}**" if place < 4 and corrected < 0.05 else points)


# What numpy makes of the right answers of a number's conditions, (conditions, images).
BY_NUMPY: dict[str, Callable[[NDArray[np.bool_]], float]] = {
    "top1_accuracy": np.mean,
    "robust_accuracy": lambda right: np.mean(np.all(right, axis=0)),
    "mean_error": lambda right: 1 - np.mean(right),
    "mean_top1_accuracy": np.mean,
    "corruption_top1_accuracy": np.mean,
}


def test_ten_numbers_chosen_by_a_seed_are_those_of_numpy_alone() -> None:
    with unpacked(SCRIPT["ARCHIVE"]) as results:
        findings = SCRIPT["Findings"](results)
        numbers = [
            (suite, row.model, column, row.cells[column.key].estimate.value)
            for suite, report in findings.reports.items()
            for row in report.rows
            for column in report.columns
        ]
        for suite, model, column, value in random.Random(38).sample(numbers, 10):
            loaded = robench.load_suite(suite)
            wanted = {condition.name: condition for condition in loaded.conditions}
            right = []
            for name in column.conditions:
                # Suites with other batch sizes measure clean images too, on their own number of images.
                identity = model, wanted[name].perturbation_key, loaded.batch_size
                records = FolderStore(results).records(
                    lambda shard, identity=identity: (
                        (shard.checkpoint, shard.perturbation_key, shard.batch_size) == identity
                    )
                )
                ids: dict[str, bool] = {}
                for record in sorted(records, key=lambda record: record.shard.start):
                    columns = (record.outcomes.column(each) for each in ("example_id", "correct_top1"))
                    ids.update(zip(*map(list, columns), strict=True))
                # Clean images of one batch size are of several suites, which read different numbers of them.
                first = [*ids][: wanted[name].num_examples]
                assert len(first) == wanted[name].num_examples
                right.append([ids[each] for each in sorted(first)])
            assert value == pytest.approx(BY_NUMPY[column.metric](np.array(right)), abs=1e-12), (
                suite,
                model,
                column.key,
            )


def test_the_gates_images_are_the_first_of_the_whole_measurement() -> None:
    """Clean images and FGSM draw nothing at random, so that both have the same outcomes up to rounding."""
    gate = pq.read_table(ROOT / "examples" / "cifar10-gate" / "baseline.parquet").to_pylist()
    with unpacked(SCRIPT["ARCHIVE"]) as results:
        for model in ("cifar10-vit", "cifar10-rpc-symvit"):
            whole = robench.outcomes("cifar10-adv", [model], results=results).to_pylist()
            for ours, theirs in (("clean", "clean"), ("fgsm", "fgsm-1")):
                first = [row["prediction"] for row in whole if row["condition"] == theirs][:64]
                rows = [row for row in gate if (row["model"], row["condition"]) == (model, ours)]
                found = [row["prediction"] for row in sorted(rows, key=lambda row: row["example_id"])]
                assert sum(one != other for one, other in zip(found, first, strict=True)) <= 1
