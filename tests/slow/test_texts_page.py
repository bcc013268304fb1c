"""The page on film reviews: its models share one recipe, and its numbers are those of the committed results."""

import re
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from many_to_one import controlled_gains, outcomes_of
from results_pages import PAGES
from scipy import stats

from robench.core.checkpoint import entry_name
from robench.declare import read_registry, shipped_registry
from robench.papers.archive import unpacked
from robench.training.history import history_path, read_history

TEXTS = PAGES["texts"]
PAGE = (ROOT / "docs" / "texts-results.md").read_text()
ENTRIES = {
    name: each
    for name, each in read_registry(shipped_registry()).items()
    if each.weights.uri.startswith("checkpoints/sst")
}
MECHANISMS = ("softmax", "symmetric", "rpc", "bilateral", "twicing", "primal", "rkde", "linear", "mom", "pro")
# Columns of the table of findings: suite, and condition.
COLUMNS = (
    *(("sst2-swap", condition) for condition in ("clean", "swap-10", "swap-30")),
    *(("sst2-search", condition) for condition in ("typos-delete-200", "synonyms-delete-200")),
    *(("sst5-swap", condition) for condition in ("clean", "swap-10")),
)
LABELS = {"rpc": "RPC", "rkde": "robust KDE", "mom": "MoM", "pro": "ProAttention", "primal": "Primal"}


@pytest.fixture(scope="module")
def results() -> Any:
    with unpacked(TEXTS.archive) as found:
        yield found


def test_there_are_five_seeds_of_each_mechanism_on_sst2_and_three_on_sst5() -> None:
    counts = {name: sum(entry_name(each) == name for each in ENTRIES) for name in map(entry_name, ENTRIES)}
    assert counts == {f"{dataset}-{name}": n for dataset, n in (("sst2", 5), ("sst5", 3)) for name in MECHANISMS}
    assert all(each.weights.sha256 for each in ENTRIES.values())


@pytest.mark.parametrize("dataset", ["sst2", "sst5"])
def test_entries_differ_in_their_attention_alone(dataset: str) -> None:
    first = ENTRIES[f"{dataset}-softmax"]
    for name, each in ENTRIES.items():
        if name.startswith(dataset):
            for ours, theirs in ((each.architecture, first.architecture), (each.training, first.training)):
                differing = {
                    field for field in ours.__dataclass_fields__ if getattr(ours, field) != getattr(theirs, field)
                }
                assert differing <= {"attention", "seed"} | ({"auxiliary_weight"} if "primal" in name else set()), name


@pytest.mark.parametrize("name", ENTRIES)
def test_models_have_a_whole_history_and_their_score(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.training is not None
    history = read_history(history_path(ROOT / entry.weights.uri))
    assert (history.checkpoint, len(history.epochs)) == (name, entry.training.total_epochs)


@pytest.fixture(scope="module")
def right(results: Any) -> dict[tuple[str, str], dict[str, bool]]:
    """Which sentences are right by model and condition, from targets and predictions of the files alone."""
    names, found = ["model", "condition", "example_id", "target", "prediction"], {}
    for path in results.rglob("*.parquet"):
        for model, condition, example, target, prediction in zip(
            *(column.to_pylist() for column in pq.read_table(path, columns=names).columns), strict=True
        ):
            found.setdefault((model, condition), {})[example] = target == prediction
    return found


@pytest.mark.parametrize("model", ["sst2-softmax", "sst2-rkde@3", "sst5-linear@1"])
def test_accuracies_of_three_models_are_those_of_targets_and_predictions(
    model: str, results: Any, right: dict[tuple[str, str], dict[str, bool]]
) -> None:
    name, _, seed = model.partition("@")
    for suite, condition in COLUMNS:
        if suite.startswith(model[:4]):
            wanted = outcomes_of(results, suite, condition, model[:4])[name][int(seed or 0)]
            # Other sentences of a condition were measured as well; this one has those of the suite alone.
            used = right[model, "misspelt-30" if suite == "sst2-search" else "swap-30"]
            of_suite = [right[model, condition][each] for each in used]
            assert len(of_suite) == {"sst2-swap": 872, "sst2-search": 200, "sst5-swap": 2210}[suite]
            assert np.mean(of_suite) == pytest.approx(wanted.mean(), abs=1e-12), (suite, condition)
    assert np.mean([*right[model, "clean"].values()]) == pytest.approx(
        ENTRIES[model].expected["top1_accuracy"], abs=1e-4
    )


class TestFindings:
    """Each sentence is what the results say."""

    @cached_property
    def text(self) -> str:
        (found,) = re.findall(r"## Findings\n(.*?)\n## ", PAGE, re.DOTALL)
        return " ".join(found.split())

    def test_the_table_has_softmax_and_differences(self, results: Any) -> None:
        cells: dict[str, list[str]] = {name: [] for name in MECHANISMS}
        for suite, condition in COLUMNS:
            prefix = suite[:4] + "-"
            correct = outcomes_of(results, suite, condition, prefix)
            control = correct[f"{prefix}softmax"].mean()
            for name in MECHANISMS:
                number = 100 * (correct[prefix + name].mean() - (0 if name == "softmax" else control))
                cells[name].append(f"{number:.1f}" if name == "softmax" else f"{number:+.1f}")
        for name, row in cells.items():
            assert f"| {LABELS.get(name, name)} | {' | '.join(row)} |" in PAGE, name

    def test_verdicts(self, results: Any) -> None:
        report = TEXTS.path.read_text()
        for suite, condition in TEXTS.compared[0].columns:
            gains = controlled_gains(outcomes_of(results, suite, condition, "sst2-"), "sst2-softmax", num_columns=3)
            assert len(gains) == 9
            for name, gain in gains.items():
                assert re.search(rf"\| {name[5:]} \| {condition} \| .* \| {gain.verdict} \|", report)

    def test_the_second_question(self, right: dict[tuple[str, str], dict[str, bool]]) -> None:
        """Recompute it from targets and predictions, without what robench reads or tests with."""
        names = [f"sst2-{name}{seed}" for name in ("pro", "softmax") for seed in ("", "@1", "@2", "@3", "@4")]
        used = right["sst2-pro", "misspelt-30"].keys()
        found = [
            {each: is_right for each, is_right in right[name, "typos-delete-200"].items() if each not in used}
            for name in names
        ]
        ids = sorted(found[0])
        ours, theirs = (np.array([[each[key] for key in ids] for each in part]) for part in (found[:5], found[5:]))
        assert ours.shape == theirs.shape == (5, 672)
        tested = stats.ttest_ind(ours.mean(1), theirs.mean(1), equal_var=False)
        each = ours.mean(0) - theirs.mean(0)
        half = stats.t.ppf(0.975, 671) * each.std(ddof=1) / 672**0.5
        over_seeds, over_sentences = tested.confidence_interval(), (each.mean() - half, each.mean() + half)
        assert tested.pvalue < 0.05
        for text in (self.text, " ".join(TEXTS.path.read_text().split())):
            assert f"{100 * ours.mean():.1f} %" in text
            assert f"{100 * theirs.mean():.1f} %" in text
            assert f"[{100 * over_seeds.low:+.1f}, {100 * over_seeds.high:+.1f}]" in text
            assert "[{:+.1f}, {:+.1f}]".format(*(100 * bound for bound in over_sentences)) in text
