"""Documents of committed results, byte by byte, in the formats of reports, leaderboards, comparisons and checks.

``python tests/integration/test_golden_documents.py`` writes them anew where other bytes are wanted.
"""

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from robench import comparison, leaderboard, reports
from robench.comparison.documents import check_json, check_junit, check_markdown, check_text
from robench.core.rendered import Style
from robench.declare import find_suite
from robench.exports import export
from robench.leaderboard.board import Settings
from robench.store import FolderStore

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "documents"
SUITE = "digits-adv"
FIRST, SECOND = "digits-vit", "digits-rpc-symvit"
SETTINGS = Settings(
    title="Models *of* <digits>",
    note="Seed 0 & no other.",
    headline=("digits-adv/pgd/top1_accuracy", "digits-adv/clean/top1_accuracy"),
    sort="digits-adv/pgd/top1_accuracy",
)


@contextmanager
def committed() -> Iterator[Path]:
    with TemporaryDirectory() as folder, tarfile.open(ROOT / "reports" / "demo.tar.xz") as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder)


def documents(results: Path) -> dict[str, str]:
    """Return the documents by name."""
    suite, store = find_suite(SUITE), FolderStore(results)
    report = reports.report_of_store(suite, store, models=[FIRST, SECOND, "absent"])
    marked = leaderboard.ranked(report, suite, store)
    limited = leaderboard.ranked(reports.report_of_store(suite, store, limit=100), suite, store, limit=100)
    arranged = reports.arranged(limited, sort="pgd/top1_accuracy", columns=["*/top1_accuracy"])
    arranged = replace(arranged, style=Style(is_transposed=True, renames={FIRST: "ViT", "top-1 accuracy": "top-1"}))
    found = {f"report.{name}": render(marked) for name, render in reports.RENDERERS.items() if name != "html"}
    found |= {f"arranged.{name}": reports.RENDERERS[name](arranged) for name in ("text", "latex", "html")}
    board = leaderboard.leaderboard_of([suite], store, settings=SETTINGS)
    found |= {f"board.{name}": leaderboard.RENDERERS[name](board) for name in ("html", "md", "csv", "latex")}
    compared = comparison.compare_models([suite], store, FIRST, SECOND)
    found |= {f"compared.{name}": render(compared, flipped=True) for name, render in comparison.RENDERERS.items()}
    pasted = Style(intervals="row", digits=2, caption=r"$\ell_\infty$", label="tab:a", renames={"pgd": "PGD"})
    found["pasted.latex"] = reports.RENDERERS["latex"](replace(marked, style=pasted))
    explanation = reports.explain(suite, store, FIRST, limit=100)
    found |= {f"explained.{name}": explanation.render(name) for name in ("text", "json")}
    baseline = comparison.baseline_of([suite], store, [FIRST], limit=100)
    check = comparison.check_results(baseline, [suite], store, tolerance=1.0)
    renderers = {"text": check_text, "md": check_markdown, "json": check_json, "xml": check_junit}
    found |= {f"checked.{name}": render(check) for name, render in renderers.items()}
    with TemporaryDirectory() as folder:
        export([suite], store, Path(folder), format_name="csv", models=[FIRST], limit=2)
        found |= {f"exported-{name}.csv": (Path(folder) / f"{name}.csv").read_text() for name in ("cells", "outcomes")}
    # Style and script are those of files.
    found["board.html"] = found["board.html"].partition("</style>")[2].partition("<script")[0]
    found["arranged.html"] = found["arranged.html"].partition("</style>")[2]
    return found


@pytest.fixture(scope="module")
def found() -> Mapping[str, str]:
    with committed() as results:
        return documents(results)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_a_document_has_its_bytes(name: str, found: Mapping[str, str]) -> None:
    assert found[name].splitlines() == (GOLDEN / name).read_text().splitlines()


def test_all_documents_are_kept(found: Mapping[str, str]) -> None:
    assert set(found) == {path.name for path in GOLDEN.iterdir()}


if __name__ == "__main__":
    with committed() as unpacked_results:
        for file, text in documents(unpacked_results).items():
            (GOLDEN / file).write_text(text)
