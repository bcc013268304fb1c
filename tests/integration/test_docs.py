"""What the README says is what there is: its leaderboard is measured; tests/slow runs its commands and its Python."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Robench
from snippets import README, README_COMMANDS

DEMO_REPORT = ROOT / "reports" / "demo.json"
DEMO_RESULTS = ROOT / "reports" / "demo.tar.xz"
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
)


def test_the_readme_shows_commands_of_every_kind() -> None:
    assert len(README_COMMANDS) >= 9
    assert {"list", "show", "run", "report", "status", "validate", "doctor"} <= {
        command[1] for command in README_COMMANDS
    }


def leaderboard(page: str) -> list[list[str]]:
    """Return the cells of the leaderboard on a page of docs, a list a row, without rules."""
    (shown,) = re.findall(r"<!-- leaderboard -->\n```text\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    lines: list[str] = shown.splitlines()
    return [re.split(r" {2,}", line.strip()) for line in (lines[0], *lines[2:])]


def test_the_leaderboard_over_seeds_is_that_of_the_report() -> None:
    """The report is kept from the demo's next command, as ``robench report --all-seeds --json`` writes it."""
    rows = json.loads(DEMO_REPORT.read_text())["rows"]
    header, *lines = leaderboard("training.md")
    assert header == ["model", *(f"{row['model']} ({len(row['seeds'])} seeds)" for row in rows)]
    columns = [list(row["cells"].values()) for row in rows]
    assert lines.pop() == ["flags", *(["none"] * 3)]
    assert all(not flag["is_raised"] for row in rows for flag in row["flags"])
    assert [line[1:] for line in lines] == [[shown(cell) for cell in of_row] for of_row in zip(*columns, strict=True)]
    accuracies = [cell["value"] for key, cell in rows[0]["cells"].items() if key.endswith("top1_accuracy")]
    assert min(accuracies) < 0.25
    assert max(accuracies) > 0.8
    assert any(0.3 < value < 0.6 for value in accuracies)


def test_the_leaderboard_of_the_start_page_is_that_of_the_demo_with_its_marks(tmp_path: Path, robench: Robench) -> None:
    """``reports/demo.tar.xz`` has the results of ``make demo`` after ``robench store compact``."""
    with tarfile.open(DEMO_RESULTS) as archive:
        archive.extractall(tmp_path, filter="data")
    models = [f"digits-{name}" for name in ("vit", "symvit", "rpc-symvit")]
    chosen = [option for model in models for option in ("--model", model)]
    printed = robench("report", "--suite", "digits-adv", *chosen, "--results", tmp_path).stdout
    table, notes, _ = printed.split("\n\n")
    page = (ROOT / "docs" / "index.md").read_text()
    assert f"```text\n{table}\n```" in page
    assert "two-sided exact McNemar; p times 9 columns of the suite and 2 other models" in notes
    assert "McNemar's exact test, whose p is\nmultiplied by the 9 columns of the suite and the 2 other models" in page
    rows = json.loads(DEMO_REPORT.read_text())["rows"]
    for column, row in enumerate(rows, start=1):
        values = [f"{100 * cell['of_seeds'][0]:.1f}" for cell in row["cells"].values()]
        assert [re.sub(r"^([\d.]+).*", r"\1", line[column]) for line in leaderboard("index.md")[1:-1]] == values


def shown(cell: dict[str, Any]) -> str:
    value, low, high = (f"{100 * cell[name]:.1f}" for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def test_the_clean_numbers_of_the_demos_report_are_what_is_measured(robench: Robench, tmp_path: Path) -> None:
    """Those under attack are measured anew in tests/slow."""
    rows = json.loads(DEMO_REPORT.read_text())["rows"]
    suite = yaml.safe_load((ROOT / "suites" / "digits-adv.yaml").read_text())
    suite["conditions"] = [each for each in suite["conditions"] if each["name"] in ("clean", "fgsm")]
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    chosen = ("--model", "digits-rpc-symvit", "--executor", "serial", "--no-audit", "--results", tmp_path / "r")
    ended = robench("run", "--suite", tmp_path / "suite.yaml", *chosen, "--json")
    (row,) = json.loads(ended.stdout)["rows"]
    assert rows[-1]["seeds"][0] == "digits-rpc-symvit"
    for key in ("clean/top1_accuracy", "fgsm/top1_accuracy"):
        assert row["cells"][key]["value"] == pytest.approx(rows[-1]["cells"][key]["of_seeds"][0], abs=0.01), key


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", document.read_text()):
            # The reference is made when the site is built, whose links Sphinx follows.
            is_made = document.parent == ROOT / "docs" and target.startswith("reference/")
            assert is_made or (document.parent / target).exists(), f"{document.name} links to {target}"


def test_architectures_name_their_backbone_in_one_way() -> None:
    pages = [*DOCUMENTS, *ROOT.glob("examples/**/*.yaml"), ROOT / "checkpoints.yaml"]
    first = {key for page in pages for key in re.findall(r"architecture:\s*\{?\s*(\w+):", page.read_text())}
    assert "backbone" in first
    assert "kind" not in first


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z-]+)`?", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
