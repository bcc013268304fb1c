"""Writes reports/texts from reports/texts.tar.xz (``make texts``): leaderboard of SST-2, and accuracy by queries."""

from __future__ import annotations

from pathlib import Path

from cifar10_findings import options, run
from results_pages import PAGES

from robench.papers.archive import unpacked

FOLDER = Path(__file__).parents[1] / "reports" / "texts"
SUITES = ("sst2-swap", "sst2-search")
# In the figure, means over seeds.
MODELS = "sst2-*"


def write(folder: Path = FOLDER) -> None:
    """Write everything; equal results and releases give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    with unpacked(PAGES["texts"].archive) as results:
        where = ["--results", str(results)]
        suites = [argument for name in SUITES for argument in ("--suite", name)]
        formats = [argument for suffix in ("html", "md", "csv") for argument in ("--format", suffix)]
        settings = ["--settings", str(FOLDER / "board.yaml")]
        run("leaderboard", *suites, "--all-seeds", "--costs", *settings, *where, *formats, "--output", str(folder))
        # The page has the provenance of each number; all manifests together take as much room again.
        (folder / "manifest.json").unlink()
        drawn = ["--suite", "sst2-search", *options([MODELS]), "--all-seeds", *where]
        run("figure", "queries", *drawn, "--width", "6.75", "--output", str(folder / "queries.svg"))


if __name__ == "__main__":
    write()
