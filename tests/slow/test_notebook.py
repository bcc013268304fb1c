"""The notebook of examples runs in a real kernel, in an environment of its own, and is committed without outputs."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from environments import python_with

NOTEBOOK = ROOT / "examples" / "first-steps.ipynb"
PROGRAM = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(notebook, sys.argv[3])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of an environment with a kernel beside this one's packages."""
    return str(python_with(tmp_path_factory.mktemp("environment"), "nbclient>=0.10", "ipykernel>=6.29"))


def test_each_cell_runs_and_shows_what_it_measured(python: str, tmp_path: Path) -> None:
    made = tmp_path / "made.ipynb"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    run = [python, "-c", PROGRAM, NOTEBOOK, tmp_path, made]
    ended = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    cells = [each for each in json.loads(made.read_text())["cells"] if each["cell_type"] == "code"]
    report, estimate, comparison, attacked, own = (each["outputs"] for each in cells)
    for shown in (report, own):
        tables = [output["data"] for output in shown if "data" in output]
        assert "linf-8/255 robust accuracy" in "".join(tables[-1]["text/html"])
    # Other kinds of CPU round differently, which turns an image or two of 32.
    (value,) = re.findall(r"([\d.]+) % right under PGD", "".join(estimate[-1]["text"]))
    assert abs(float(value) - 53.1) < 7
    assert "digits-rpc-symvit" in "".join(comparison[-1]["data"]["text/plain"])
    assert "moved by at most 0.0156" in "".join("".join(output["text"]) for output in attacked)
    assert [each.name for each in (tmp_path / "results").iterdir()] == ["notebook"]


def test_it_is_committed_without_outputs() -> None:
    cells = [each for each in json.loads(NOTEBOOK.read_text())["cells"] if each["cell_type"] == "code"]
    assert len(cells) == 5
    assert all(each["outputs"] == [] and each["execution_count"] is None for each in cells)
