"""Tables of four commands as pdflatex sets them: without errors, within the line, and legible at nine columns."""

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import ROOT

from robench.cli.main import cli

pytestmark = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed; Debian has it in texlive-latex-recommended"
)
PAGE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\begin{document}
%s
\end{document}
"""
NINE = ("clean/top1*", "noise/top1*", "fgsm/top1*", "pgd*top1*", "robust_accuracy")
RENAMED = ("--rename", "digits-rpc-symvit=RPC & friends_100%", "--rename", "pgd=PGD~20", "--rename", "linf=[linf]")
STYLES = (
    (),
    ("--intervals", "none", "--digits", "2"),
    ("--intervals", "row", "--caption", r"Accuracy in \% at $\epsilon = 8/255$.", "--label", "tab:a"),
    ("--transpose", "--intervals", "row"),
    ("--transpose", "--caption", "Turned."),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("demo")
    with tarfile.open(ROOT / "reports" / "demo.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def latex_of(*arguments: object) -> str:
    done = CliRunner().invoke(cli, [*map(str, arguments), "--format", "latex"], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 0)
    return done.stdout


def log_of(folder: Path, *tables: str) -> str:
    """What pdflatex says of a page of tables, which it must set without errors and within the line."""
    (folder / "page.tex").write_text(PAGE % "\n\\par\\bigskip\n".join(tables))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=False)
    log = (folder / "page.log").read_text(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert [line for line in log.splitlines() if line.startswith(("Overfull", "!", "LaTeX Warning: Command"))] == []
    assert (folder / "page.pdf").stat().st_size > 1000
    return log


@pytest.mark.parametrize("style", STYLES)
def test_tables_of_every_command_are_set_within_the_line(results: Path, tmp_path: Path, style: tuple[str, ...]) -> None:
    of_suites = ("--suite", "digits-adv", "--results", results)
    tables = [
        latex_of("report", *of_suites, *style, *RENAMED),
        latex_of("leaderboard", *of_suites, "--suite", "digits-sweep", *style, "--costs"),
        latex_of("compare", "digits-vit", "digits-symvit", *of_suites, *style),
        latex_of("table", "rpc:1", "--results", results, *style),
        latex_of("table", "rpc:1", "--twin", "--results", results, *style),
    ]
    log_of(tmp_path, *tables)


def test_nine_columns_fit_the_text_without_being_made_smaller(results: Path, tmp_path: Path) -> None:
    columns = [each for name in NINE for each in ("--columns", name)]
    text = latex_of("report", "--suite", "digits-adv", "--results", results, *columns, "--intervals", "none")
    tabular = text[text.index(r"\begin{tabular}") : text.index(r"\end{tabular}")] + r"\end{tabular}"
    assert tabular.split("\\midrule")[1].splitlines()[1].count("&") == 9
    sizes = r"\typeout{WIDTH \the\wd0 OF \the\textwidth.}"
    measured = rf"{{\small\setlength{{\tabcolsep}}{{3pt}}\sbox0{{{tabular}}}{sizes}}}"
    found = re.search(r"WIDTH ([\d.]+)pt ?OF ([\d.]+)pt", log_of(tmp_path, text, measured))
    assert found is not None
    assert float(found[1]) <= float(found[2])
