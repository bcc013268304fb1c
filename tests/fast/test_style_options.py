"""Options of the appearance of tables: the same for four commands, refused where a format does not take them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from leaderboard_examples import ADV, SHIFT, adv_suite, fill, shift_suite

from robench import declare
from robench.cli import check_command, report_command, table_command
from robench.core.errors import UsageError
from robench.store import FolderStore

COMMANDS: dict[str, tuple[click.Command, tuple[str, ...]]] = {
    "report": (report_command.command, ()),
    "leaderboard": (report_command.leaderboard_command, ()),
    "compare": (check_command.compare_command, ("vit", "rpc")),
    "table": (table_command.command, ("rpc:1", "--twin")),
}
registries = cache(declare.read_registries)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of three models under two suites, and the suites."""
    folder: Path = tmp_path_factory.mktemp("styled")
    for name, suite in (("adv", ADV), ("shift", SHIFT)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(suite))
    store = FolderStore(folder / "results")
    for found in (adv_suite(), shift_suite()):
        fill(store, found, {"vit": 0.5, "rpc": 0.35, "symvit": 0.6})
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setattr(declare, "read_registries", registries)

    def run_command(name: str, *options: str, suites: tuple[str, ...] = ("adv",)) -> str:
        command, arguments = COMMANDS[name]
        named = () if name == "table" else tuple(f"--suite={folder / suite}.yaml" for suite in suites)
        given = (*arguments, *named, "--results", str(folder / "results"), *options)
        done = CliRunner().invoke(command, given, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.stdout

    return run_command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_same_options(run: Callable[..., str], name: str) -> None:
    old = "digits-symvit" if name == "table" else "rpc"
    columns = "*" if name == "table" else "pgd*"
    text = run(
        name, "--format", "latex", "--columns", columns, "--rename", f"{old}=Ours & co", "--intervals", "none",
        "--digits", "3", "--transpose", "--caption", "At $8/255$", "--label", "tab:a",
    )  # fmt: skip
    assert "\\begin{table}\n\\centering\n\\caption{At $8/255$}\n\\label{tab:a}\n" in text
    assert "Ours \\& co" in text
    assert "\\scriptsize [" not in text
    if name != "table":
        body = text.split("\\toprule\n")[1].split("\\bottomrule")[0]
        assert "clean" not in body
        assert ".000" in body or ".333" in body


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("report", ("--caption", "x"), "--caption is of --format latex, but the format is text; choose another, or"),
        (
            "report",
            ("--digits", "2", "--json"),
            "--digits is of --format text, md, markdown, latex, but the format is ",
        ),
        ("leaderboard", ("--intervals", "none"), "--intervals is of --format text, .* but the format is html"),
        ("table", ("--transpose",), "--transpose is of --format latex, but the format is text"),
        ("compare", ("--label", "x", "--format", "latex"), "--label is of a caption, but there is no --caption"),
        ("report", ("--rename", "vit"), "--rename must be OLD=NEW, got 'vit'"),
        ("report", ("--rename", "vti=x"), r"no model or column is named 'vti', to be renamed\. Did you mean 'vit'\?"),
        ("compare", ("--columns", "pdg"), "no column is named 'pdg'. Did you mean 'pgd"),
        ("leaderboard", ("--columns", "adv/pdg", "--format", "md"), "no column is named 'adv/pdg'"),
        ("table", ("--columns", "IN-X"), r"--columns 'IN-X' matches nothing\."),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: Callable[..., str], name: str, options: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(name, *options)


@pytest.mark.parametrize("name", ["report", "leaderboard"])
def test_rows_come_as_asked(run: Callable[..., str], name: str) -> None:
    text = run(name, "--format", "md", *(f"--model={each}" for each in ("vit", "symvit", "rpc")))
    assert [line.split()[1] for line in text.splitlines()[2:5]] == ["vit", "symvit", "rpc"]


def test_numbers_of_two_suites_on_the_same_examples_are_one_column(run: Callable[..., str]) -> None:
    both = ("adv", "shift")
    header = run("leaderboard", "--format", "md", suites=both).splitlines()[0]
    labels = [each.strip() for each in header.split("|")[1:-1]]
    assert labels[:3] == ["model", "clean top-1 accuracy", "adv: fgsm top-1 accuracy"]
    assert sum("clean" in each for each in labels) == 1
    assert any(each.startswith("shift: ") for each in labels)
    # Programs find both.
    lines = run("leaderboard", "--format", "csv", suites=both).splitlines()
    assert sum("clean/top1_accuracy" in line for line in lines) == 2 * 3


def test_headings_of_latex_are_by_suite_and_attack(run: Callable[..., str]) -> None:
    columns = ("clean", "pgd*", "*sweep@[248]*", "robust_accuracy", "digits-c/contrast/*")
    text = run(
        "leaderboard", "--format", "latex", *(f"--columns={each}" for each in columns), "--rename", "adv=Attacks",
        "--rename", "pgd/top1_accuracy=Eight", suites=("adv", "shift"),
    )  # fmt: skip
    head = text.split("\\toprule\n")[1].split("\\midrule")[0]
    lines = [line for line in head.splitlines() if "&" in line]
    assert lines[0].startswith(r" &  & \multicolumn{4}{c}{Attacks} & \multicolumn{")
    assert lines[1].startswith(r" &  &  &  & \multicolumn{2}{c}{linf robust accuracy} & \multicolumn{3}{c}{sweep} &")
    assert lines[2].startswith("model & clean & Eight & pgd-half & 4/255 & 8/255 & 2/255 & 4/255 & 8/255 &")
    assert r"\cmidrule(lr){5-6}\cmidrule(lr){7-9}" in head
    assert "Headings without a metric: top-1 accuracy." in text
