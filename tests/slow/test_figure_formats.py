"""Each kind of figure in each format: the same bytes twice; and PGF in a document, whatever names say."""

import subprocess
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest
import yaml
from conftest import Robench
from leaderboard_examples import SHIFT, fill, shift_suite
from test_figures_contract import NAMES, line_plot

from robench.core.errors import UsageError
from robench.figures import SUFFIXES, rendered
from robench.figures.plots import MapPanel
from robench.store import FolderStore

needs_latex = pytest.mark.skipif(which("pdflatex") is None, reason="PGF is measured by pdflatex")
DOCUMENT = r"""\documentclass{article}
\usepackage{pgf}
\begin{document}
\input{figure.pgf}
\end{document}
"""


@pytest.mark.parametrize(
    "suffix", [pytest.param(each, marks=needs_latex if each == ".pgf" else ()) for each in SUFFIXES]
)
@pytest.mark.parametrize("kind", ["budget", "corruptions", "seeds"])
def test_twice_the_same(robench: Robench, tmp_path: Path, kind: str, suffix: str) -> None:
    (tmp_path / "shift.yaml").write_text(yaml.safe_dump(SHIFT))
    store = FolderStore(tmp_path / "results")
    fill(store, shift_suite(), {"digits-vit": 0.5, "digits-vit@1": 0.45, "digits-symvit": 0.6})
    files = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for path in files:
        asked = ("--suite", tmp_path / "shift.yaml", "--results", tmp_path / "results", "--output", path)
        ended = robench("figure", kind, *asked)
        assert (ended.code, ended.stderr) == (0, f"wrote {path}\n")
    assert files[0].read_bytes() == files[1].read_bytes()


@needs_latex
def test_pgf_compiles_with_any_names_and_has_the_width_of_a_column(tmp_path: Path) -> None:
    names = [name for name in NAMES.values() if name.strip()]
    plot = line_plot(*names, title=NAMES["tex"], ticks=((0.0, "0"), (1.0, NAMES["mathtext"])), notes=tuple(names))
    (tmp_path / "figure.pgf").write_bytes(rendered(plot, "pgf"))
    (tmp_path / "paper.tex").write_text(DOCUMENT)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert r"Overfull \hbox" not in done.stdout
    content = (tmp_path / "figure.pgf").read_text()
    assert r"\pgfpathrectangle{\pgfpointorigin}{\pgfqpoint{3.250000in}" in content
    assert r"\fontsize{8.000000}" in content
    assert content.isascii()


@needs_latex
def test_maps_are_refused_as_pgf() -> None:
    panel = MapPanel(title="t", x_label="x", y_label="y", x=(0.0,), y=(0.0,), values=((1.0,),), label="l")
    with pytest.raises(UsageError, match="maps are images, which PGF cannot hold"):
        rendered(replace(line_plot("m"), panels=(panel,)), "pgf")
