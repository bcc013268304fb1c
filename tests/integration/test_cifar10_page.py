"""The page on CIFAR-10: its suites, models and findings are those that there are."""

from __future__ import annotations

import csv
import re
import runpy
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import pytest
from conftest import ROOT

from robench.declare import read_registry, shipped_registry
from robench.training.history import history_path, read_history

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "results_pages.py"))
REPORT = ROOT / "reports" / "cifar10"
CIFAR10 = SCRIPT["PAGES"]["cifar10"]
PAGE = (ROOT / "docs" / "cifar10.md").read_text()
ENTRIES = {name: each for name, each in read_registry(shipped_registry()).items() if name.startswith("cifar10-")}
PUBLISHED = [name for name, each in ENTRIES.items() if each.weights.sha256]


def test_every_suite_of_the_page_is_described_and_measured() -> None:
    assert {*re.findall(r"`(cifar10-[a-z]+)`", PAGE)} >= {table.suite for table in CIFAR10.tables}
    (tables,) = re.findall(r"<!-- tables -->\n(.*)<!-- /tables -->", PAGE, re.DOTALL)
    assert "| | vit | rpc-symvit |" in tables, "AutoAttack and Square, of one seed"
    assert "| | vit (2 seeds) | symvit (2 seeds) | rpc-symvit (2 seeds) | bilateral-vit (3 seeds) |" in tables
    assert "not measured" not in tables


def test_all_entries_have_one_backbone_and_one_recipe() -> None:
    assert len(ENTRIES) >= 10
    first = ENTRIES["cifar10-vit"]
    differing = {"attention", "auxiliary_weight", "seed"}
    for name, each in ENTRIES.items():
        adversarial = {field for field in FIELDS if field.startswith("adversarial")} if "adversarial" in name else set()
        for ours, theirs in ((each.architecture, first.architecture), (each.training, first.training)):
            assert fields_that_differ(ours, theirs) <= differing | adversarial, name


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_weights_have_a_whole_history_and_a_score(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.training is not None
    path = ROOT / entry.weights.uri
    is_left_out = name.endswith(("@3", "@4"))
    assert path.exists() is not is_left_out
    history = read_history(history_path(path))
    assert (history.checkpoint, len(history.epochs)) == (name, entry.training.total_epochs)
    last = history.epochs[-1].validation
    assert last is not None
    # The stored weights are rounded.
    assert last.top1_accuracy == pytest.approx(entry.expected["top1_accuracy"], abs=0.002)


def test_clean_accuracies_are_within_5_points_of_softmax() -> None:
    """Of models that are trained on clean images."""
    softmax = ENTRIES["cifar10-vit"].expected["top1_accuracy"]
    for name in PUBLISHED:
        if "adversarial" not in name:
            assert ENTRIES[name].expected["top1_accuracy"] == pytest.approx(softmax, abs=0.05), name


FIELDS = list(type(ENTRIES["cifar10-vit"].training).__dataclass_fields__)  # type: ignore[union-attr]


def fields_that_differ(ours: Any, theirs: Any) -> set[str]:
    return {name for name in ours.__dataclass_fields__ if getattr(ours, name) != getattr(theirs, name)}


def test_the_tables_without_resampled_intervals_are_those_of_the_committed_results() -> None:
    """tests/slow compares that of corruptions as well, whose intervals take half a minute."""
    some = replace(CIFAR10, tables=CIFAR10.tables[:3], shows_minutes=False)
    (written,), (committed,) = (SCRIPT["TABLES"].findall(text) for text in (some.text(PAGE), PAGE))
    assert written.count("| clean top-1 accuracy |") == 3
    assert committed.startswith(written), "run `make generated`"


class TestFindings:
    """Each sentence is what reports/cifar10 has."""

    SOFTMAX, COLUMNS = "cifar10-vit", ("clean", "pgd-1", "pgd-2", "cifar-10-c-live")
    SUITES = ("cifar10-adv", "cifar10-c", "")
    NAMES: ClassVar = {"primal": "primal-vit", "bilateral": "bilateral-vit", "twicing": "twicing-vit"} | {
        "symmetric": "symvit",
        "RPC": "rpc-symvit",
    }

    @cached_property
    def text(self) -> str:
        (found,) = re.findall(r"## Findings\n(.*?)\n## ", PAGE, re.DOTALL)
        return " ".join(found.split())

    @cached_property
    def gains(self) -> dict[tuple[str, str, str], list[str]]:
        """Cells of the table of gains after model, baseline and number, by these three."""
        lines = (REPORT / "README.md").read_text().splitlines()
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| cifar10-")]
        return {(model, baseline, label.split()[0]): cells for model, baseline, label, *cells in rows}

    def gain(self, model: str, baseline: str, column: str) -> str:
        return self.gains[f"cifar10-{model}", baseline, column][2]

    def of_seeds(self, entry: str, key: str) -> list[float]:
        """The number of each seed, of the leaderboard."""
        with (REPORT / "leaderboard.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["model"].partition("@")[0] == f"cifar10-{entry}"]
        # Clean images are in several suites, of which two models alone have all.
        return [float(row["value"]) for row in rows if row["column"] == key and row["suite"] in self.SUITES]

    def test_the_table_has_the_gains_over_softmax_and_the_cost(self) -> None:
        for name, model in self.NAMES.items():
            gains = [self.gain(model, self.SOFTMAX, column) for column in self.COLUMNS]
            own, softmax = (self.of_seeds(each, "costs/multiply_adds/products")[0] for each in (model, "vit"))
            assert f"| {name} | {' | '.join(gains)} | {100 * (own / softmax - 1):+.0f} % |" in self.text

    def test_rpc_is_below_its_control_seed_by_seed(self) -> None:
        first, second, third = (self.gain("rpc-symvit", "cifar10-symvit", each) for each in self.COLUMNS[1:])
        assert f"its control: {first} at 1/255, {second} at 2/255, {third} under corruptions" in self.text
        for key in ("pgd-1/top1_accuracy", "pgd-2/top1_accuracy"):
            assert max(self.of_seeds("rpc-symvit", key)) < min(self.of_seeds("symvit", key))
        rpc, control = (self.of_seeds(each, "cifar-10-c-live/mean_error") for each in ("rpc-symvit", "symvit"))
        assert min(rpc) > max(control)
        others = [self.gain("rpc-symvit", self.SOFTMAX, each) for each in ("apgd-1", "square-2")]
        assert f"({others[0]} and {others[1]})" in self.text

    def test_primal_is_above_softmax_seed_by_seed_but_not_under_attack(self) -> None:
        for key in ("clean/top1_accuracy", "noise/top1_accuracy"):
            assert min(self.of_seeds("primal-vit", key)) > max(self.of_seeds("vit", key))
        primal, softmax = (self.of_seeds(each, "cifar-10-c-live/mean_error") for each in ("primal-vit", "vit"))
        assert (len(primal), len(softmax)) == (3, 2)
        assert max(primal) < min(softmax)
        key = "pgd-1/top1_accuracy"
        assert min(self.of_seeds("primal-vit", key)) < max(self.of_seeds("vit", key))

    def test_bilateral_and_twicing_are_near_softmax_in_tested_numbers_alone(self) -> None:
        tested = [
            float(cells[2])
            for (model, *_), cells in self.gains.items()
            if model.split("-")[1] in ("bilateral", "twicing")
        ]
        assert max(map(abs, tested)) == 1.2
        corruptions = dict(re.findall(r"^\| cifar-10-c-live (\w+) top-1 accuracy \| (.*) \|$", PAGE, re.MULTILINE))
        far = {}
        for name, cells in corruptions.items():
            softmax, twicing = (float(cells.split(" | ")[place].split()[0]) for place in (0, 4))
            if name != "mean" and abs(gain := round(twicing - softmax, 1)) > 1.2:
                far[name] = gain
        assert (far.pop("fog"), far.pop("frost"), far.pop("impulse_noise")) == (-2.2, -2.0, 1.3)
        assert "and three other corruptions" in self.text
        assert [gain < 0 for gain in far.values()] == [True] * 3

    def test_budgets_and_certainty(self) -> None:
        every = [self.of_seeds(each, "pgd-4/top1_accuracy") for each in ("vit", *self.NAMES.values())]
        assert 0 < max(map(max, every)) < 0.03
        verdicts = [cells[3] for cells in self.gains.values()]
        assert f"none of the {sum('undecided' in each for each in verdicts)} gains" in self.text
        assert not any("supported" in each or "contradicted" in each for each in verdicts)
        clean, attacked = (
            self.gains["cifar10-primal-vit", self.SOFTMAX, "clean"],
            self.gains["cifar10-rpc-symvit", self.SOFTMAX, "pgd-2"],
        )
        assert f"{clean[5]} decide Primal's on clean images" in self.text
        assert f"{attacked[5].removesuffix(' seeds')} RPC's at 2/255" in self.text
        assert len(self.text.split("| RPC |")[1].split()) < 300
