"""The page on CIFAR-10: its suites, models and findings are those that there are."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest
from conftest import ROOT

from robench.declare import read_registry, shipped_registry
from robench.training.history import history_path, read_history

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "results_pages.py"))
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
    # The same training makes them again on a CPU.
    is_left_out = name in ("cifar10-vit@1", "cifar10-symvit@1", "cifar10-rpc-symvit@1")
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


def test_the_findings_state_the_gains_of_the_report() -> None:
    (findings,) = re.findall(r"## Findings\n(.*?)\n## ", PAGE, re.DOTALL)
    report = (ROOT / "reports" / "cifar10" / "README.md").read_text()
    rows = [line.split(" | ") for line in report.splitlines() if line.startswith("| cifar10-")]
    gains = {(row[0].removeprefix("| "), row[1], row[2]): row[5] for row in rows}
    columns = ("clean top-1", "pgd-1 top-1", "pgd-2 top-1", "cifar-10-c-live mean")
    names = {"primal": "primal-vit", "bilateral": "bilateral-vit", "twicing": "twicing-vit", "symmetric": "symvit"}
    table = re.findall(r"^\| (\w+) \| (.*) \| \S+ % \|$", findings, re.MULTILINE)
    assert len(table) == 5
    for name, cells in table:
        model = f"cifar10-{names.get(name, 'rpc-symvit')}"
        found = [
            gain
            for column in columns
            for (of, baseline, label), gain in gains.items()
            if (of, baseline) == (model, "cifar10-vit") and label.startswith(column)
        ]
        assert cells.split(" | ") == found
    against_control = {gain for (of, baseline, _), gain in gains.items() if baseline == "cifar10-symvit"}
    assert {"-6.1", "-5.8", "-2.6"} <= against_control
    assert {"-8.3", "-6.5"} <= {gain for (of, *_), gain in gains.items() if of == "cifar10-rpc-symvit"}
    assert len(findings.split("| RPC |")[1].split()) < 300
