"""A paper's table of the archive from Python is that of the command."""

from pathlib import Path
from typing import Any

import pytest
from test_api_results import ARCHIVE, _package


@pytest.mark.parametrize("as_text", [False, True])
def test_a_table_is_that_of_the_command(robench: Any, tmp_path: Path, as_text: bool) -> None:
    for function, options in (("paper_table", ()), ("twin_table", ("--twin",))):
        table = getattr(_package(), function)("rpc:1", results=str(ARCHIVE) if as_text else ARCHIVE)
        assert table.name == "rpc:1"
        assert any(cell.ours.measured is not None for cell in table.cells) == bool(options)
        table.save(tmp_path / "table.json")
        done = robench("table", "rpc:1", *options, "--results", ARCHIVE, "--json")
        assert (tmp_path / "table.json").read_text() == done.stdout
