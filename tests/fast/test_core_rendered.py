"""Results that are rendered: formats by name and by the suffix of a file, and what is refused."""

from pathlib import Path

import pytest

from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.rendered import SUFFIXES, Rendered
from robench.core.report import Report
from robench.leaderboard import RENDERERS as BOARD_RENDERERS
from robench.leaderboard import Leaderboard
from robench.papers import FORMATS, TWIN_FORMATS, PaperTable, TwinTable
from robench.reports import RENDERERS

REPORT = Report(suite="s", version=1, seed=0, columns=(), rows=(), provenance={})
BOARD = Leaderboard(suites=(), columns=(), rows=())
TABLE = PaperTable(name="rpc:1", title="t", source="s", columns=(), rows=())
TWINS = TwinTable(name="rpc:1", title="t", source="s", columns=(), rows=())
PICTURES = {"png": b"\x89PNG\r", "svg": b"<?xml", "pdf": b"%PDF-"}
ALL = [(REPORT, RENDERERS), (BOARD, BOARD_RENDERERS), (TABLE, FORMATS), (TWINS, TWIN_FORMATS)]


@pytest.mark.parametrize(("result", "renderers"), ALL, ids=lambda each: type(each).__name__)
def test_every_format_is_there_by_its_name_and_by_a_suffix(
    result: Rendered, renderers: dict[str, object], tmp_path: Path
) -> None:
    assert set(renderers) <= set(SUFFIXES.values())
    for suffix, name in SUFFIXES.items():
        path = tmp_path / "new" / f"table{suffix}"
        if name in renderers:
            result.save(str(path))
            assert path.read_text() == result.render(name) == renderers[name](result)  # type: ignore[operator]
        else:
            if name in PICTURES and result is REPORT:
                result.save(path)
                assert path.read_bytes()[:5] == PICTURES[name]
            else:
                refusal = f"'table{suffix}' names the format, and must be one of .*.md"
                with pytest.raises(UsageError, match=refusal):
                    result.save(path)
            with pytest.raises(UsageError, match=f"format must be one of .*, got '{name}'"):
                result.render(name)


@pytest.mark.parametrize("name", ["table", "table.xlsx", ".html", "table.HTM"])
def test_a_file_without_a_known_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must be one of \.txt, \.md, \.csv, \.json, \.html, \.tex$"):
        REPORT.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritableError, match=r"file/table\.md cannot be written"):
        REPORT.save(tmp_path / "file" / "table.md")
