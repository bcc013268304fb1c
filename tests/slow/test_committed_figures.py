"""reports/figures is what ``make figures`` writes from the committed results."""

from pathlib import Path

from conftest import Robench

REPORTS = Path(__file__).parents[2] / "reports"


def test_the_committed_figures_are_what_the_committed_results_give(robench: Robench, tmp_path: Path) -> None:
    ended = robench("figure", "paper", "--all", "--results", REPORTS / "archive.tar.xz", "--output", tmp_path)
    assert ended.code == 0, ended.stderr
    committed = REPORTS / "figures"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in committed.iterdir()}
    # Pictures differ in bytes between releases of matplotlib.
    for path in (*tmp_path.glob("*.csv"), tmp_path / "README.md"):
        assert path.read_bytes() == (committed / path.name).read_bytes(), path.name
