"""The committed tables are what ``make tables`` writes from the archive, without torch."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

REPORTS = ROOT / "reports"
SAID = {
    "tables": "of 1,314 printed numbers are measured; 46 tables in",
    "twins": "numbers of twins are measured; 33 tables",
}


@pytest.fixture(scope="module", params=SAID)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a line of ``make tables`` writes, by a process of its own that says whether it imported torch."""
    name: str = request.param
    folder: Path = tmp_path_factory.mktemp(name)
    recipe = (ROOT / "Makefile").read_text().split("\ntables:")[1].split("\n\n")[0].splitlines()[1:]
    (words,) = (line.split()[1:] for line in recipe if line.endswith(f"reports/{name}"))
    of_twins = name == "twins"
    options = [*["--twin"] * of_twins, "--results", "reports/archive.tar.xz"]
    speed = [] if of_twins else ["--device-speed", "100"]
    assert words == ["table", "--all", *options, *speed, "--output", f"reports/{name}"]
    arguments = [*words[:-1], str(folder)]
    code = (
        f"import sys; sys.argv = ['robench', *{arguments!r}]\n"
        "from robench.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not {'torch', 'timm', 'torchvision'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout
    return name, folder


def test_the_committed_tables_are_what_make_tables_writes(made: tuple[str, Path]) -> None:
    name, folder = made
    wanted = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = {path.name: path.read_bytes() for path in (REPORTS / name).iterdir()}
    assert found == wanted, "run `make tables`"
