"""Counts on pages of the documentation, from the committed tables, figures and times (``make generated``).

Seconds come from docs/performance.md, which says what they were measured on.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robench.datasets import DATASETS
from robench.declare import find_suite

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]
# Texts of each page, with the names of ``counts`` for the numbers in them; each text is on its page exactly once.
PAGES: Mapping[str, tuple[str, ...]] = {
    "README.md": (
        "in a browser: {mechanisms:word} attention mechanisms with intervals",
        "# once, {setup_minutes} min {setup_seconds} s: .venv",
        "make demo   # {demo_models:word} attention variants",
        "leaderboard: {demo} s on 2 idle cores",
        "`make demo` measures {images} images of handwritten digits",
        "--smoke   # {smoke} examples",
        "`smoke=True` runs {smoke:word} examples",
        "verdicts on {printed} printed numbers of {papers} papers",
        "all {tables} tables",
        "{measured} are measured so far: {model_counts} counts of parameters",
        "operations, and {accuracies} accuracies",
        "{drawn} of the papers' {figures} [figures]",
    ),
    "docs/index.md": (
        "models with {mechanisms:word} attention mechanisms, and intervals",
        "`make demo` takes {demo} s on 2 idle cores (`make setup` {setup_minutes} min {setup_seconds} s, once)",
        "It measures {demo_models:word} attention\nvariants on {images} images of handwritten digits",
        "multiplied by the {columns} columns of the suite and the {demo_others} other models",
        "`smoke=True` runs {smoke:word} examples",
        "{requests} requests from the trackers",
    ),
    "docs/tables.md": (
        "Of the {printed} printed numbers {measured} are measured: {model_counts} [counts]",
        "no weights, {vowels} accuracies on [JapaneseVowels]",
        "and {gestures} on\n[UWaveGestureLibrary]",
        "has all {tables} tables, and [reports/twins](../reports/twins) the {twins} of twins",
    ),
    "docs/figures.md": ("states the {figures} figures of the", "{drawn} of the {figures} are drawn"),
}
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# A count in a text, in digits or as a word.
PLACE = re.compile(r"\{(?P<name>\w+)(?P<is_word>:word)?\}")


@cache
def counts() -> dict[str, int]:
    """Return the number behind each name."""
    tables, twins = (
        json.loads((ROOT / "reports" / name / "manifest.json").read_text()) for name in ("tables", "twins")
    )
    cells = [
        cell
        for name in tables["tables"]
        for row in json.loads((ROOT / "reports" / "tables" / f"{name.replace(':', '-')}.json").read_text())["rows"]
        for cell in row["cells"].values()
        if cell["measured"] is not None
    ]
    accuracies = Counter(cell["model"].partition("-")[0] for cell in cells if cell["unit"] == "%")
    times = (ROOT / "docs" / "performance.md").read_text()
    setup, demo = (int(re.findall(rf"^\| `make {name}`.* \| (\d+) \|$", times, re.M)[0]) for name in ("setup", "demo"))
    figures = (ROOT / "reports" / "figures" / "README.md").read_text()
    suite = find_suite("digits-adv")
    (demo_options,) = re.findall(r"^DEMO := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (smoke,) = re.findall(
        r"^SMOKE_EXAMPLES = (\d+)$", (ROOT / "robench" / "runs" / "request.py").read_text(), re.MULTILINE
    )
    with (ROOT / "reports" / "cifar10" / "leaderboard.csv").open(newline="") as file:
        mechanisms = {row["attention"] for row in csv.DictReader(file)}
    demo_models = demo_options.count("--model ")
    return {
        "printed": tables["printed"],
        "measured": tables["measured"],
        "tables": len(tables["tables"]),
        "papers": len({name.partition(":")[0] for name in tables["tables"]}),
        "twins": len(twins["tables"]),
        "accuracies": accuracies.total(),
        "model_counts": tables["measured"] - accuracies.total(),
        "vowels": accuracies["japanese"],
        "gestures": accuracies["uwave"],
        "figures": figures.count("\n## "),
        "drawn": figures.count("\n## ") - figures.count("\nNot drawn: "),
        "images": DATASETS[suite.conditions[0].dataset.name].num_examples or 0,
        "columns": len(suite.columns),
        "demo_models": demo_models,
        "demo_others": demo_models - 1,
        "mechanisms": len(mechanisms),
        "smoke": int(smoke),
        "requests": (ROOT / "docs" / "requests.md").read_text().count("](https://github.com/"),
        "setup_minutes": setup // 60,
        "setup_seconds": setup % 60,
        "demo": demo,
    }


# Any: as in the file.
def _report(path: str) -> Any:
    return json.loads((ROOT / "reports" / path).read_text())


def page(path: str, text: str) -> str:
    """Return a page with the numbers as they are today.

    Raises:
        ValueError: a text is not on the page, or more than once.
    """
    for pattern in PAGES[path]:
        before = re.findall(r"[\w,]+".join(re.escape(part) for part in PLACE.sub("\0", pattern).split("\0")), text)
        if len(before) != 1:
            raise ValueError(f"{path} has {pattern!r} {len(before)} times; write it in scripts/page_counts.py as there")
        text = text.replace(before[0], PLACE.sub(_shown, pattern))
    return text


def _shown(place: re.Match[str]) -> str:
    count = counts()[place["name"]]
    return WORDS[count] if place["is_word"] else f"{count:,}"
