"""The committed tables are what ``make tables`` writes from the archive, without torch."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

COMMITTED = ROOT / "reports" / "tables"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make tables`` writes, by a process of its own that says whether it imported torch."""
    folder: Path = tmp_path_factory.mktemp("tables")
    recipe = (ROOT / "Makefile").read_text().split("\ntables:")[1].split("\n")[1]
    words = recipe.split()[1:]
    assert words == ["table", "--all", "--results", "reports/archive.tar.xz", "--output", "reports/tables"]
    arguments = [*words[:-1], str(folder)]
    code = (
        f"import sys; sys.argv = ['robench', *{arguments!r}]\n"
        "from robench.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not {'torch', 'timm', 'torchvision'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "of 1,314 printed numbers are measured; 46 tables in" in done.stdout
    return folder


def test_the_committed_tables_are_what_make_tables_writes(made: Path) -> None:
    wanted = {path.name: path.read_bytes() for path in made.iterdir()}
    found = {path.name: path.read_bytes() for path in COMMITTED.iterdir()}
    assert found == wanted, "run `make tables`"
