"""The code of the README and of docs has names that there are; tests/slow/test_docs_run.py runs it."""

import re
from pathlib import Path

import click
import pytest
from conftest import ROOT, Robench
from snippets import PAGES, README, README_FILES, check_page, quickened, run_snippet, snippets

import robench

WITH_CODE = [name for name, page in PAGES.items() if snippets(page)]


@pytest.mark.parametrize("name", WITH_CODE)
def test_a_snippet_that_does_not_run_says_why(name: str) -> None:
    for snippet in snippets(PAGES[name]):
        if snippet.mark == "run by":
            test = (ROOT / snippet.why).read_text()
            assert f'"{name}.md"' in test, f"{snippet.why} does not read docs/{name}.md"
        if snippet.mark == "not run":
            assert len(snippet.why) > 20, f"docs/{name}.md: not run for no reason: {snippet.text}"
            for path in re.findall(r"tests/[\w/]+\.py", snippet.why):
                assert (ROOT / path).exists(), f"docs/{name}.md: {path} is gone"


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_code_of_a_page_has_names_that_there_are(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(PAGES[name])


def test_the_code_of_the_readme_has_names_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(README, README_FILES)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("```sh\nrobench measure\n```\n", "measure"),
        ("```sh\nrobench run --suite digits-adv\n```\n", "model"),
        ("```sh\nrobench run --suite digits-adv --model digits-vit --epochs 3\n```\n", "--epochs"),
        ("```sh\nrobench run --suite digits-adv --model digits-vit --limit few\n```\n", "few"),
        ("```sh\nrobench run --suite digit-adv --model digits-vit\n```\n", "digit-adv"),
        ("```sh\nrobench run --suite digits-adv --model digits-vlt\n```\n", "digits-vlt"),
        ("```sh\nrobench run --suite smoke --dataset digitz --model digits-vit\n```\n", "digitz"),
        ("```sh\nrobench compare digits-vit digits-wit --suite digits-adv\n```\n", "digits-wit"),
        (
            "```sh\nrobench export images --suite digits-adv --model digits-vit --condition pgdd --output o\n```\n",
            "pgdd",
        ),
        ("```sh\nrobench show no-such-thing\n```\n", "no-such-thing"),
        ("```sh\nrobench table rpc:99\n```\n", "rpc:99"),
        ("```sh\nrobench data verify digitz\n```\n", "digitz"),
        ("<!-- not run: it has an option that is gone -->\n```sh\nrobench list --gone\n```\n", "--gone"),
        ("```sh\npython gone.py\n```\n", "gone.py is no file of the page"),
        ("```sh\nmake gone\n```\n", "the Makefile has no gone"),
        ("```sh\nrm -rf results\n```\n", "mark the block as not run"),
        ("```python\nx = (\n```\n", "never closed"),
        ("```python\nimport robench_gone\n```\n", "robench_gone"),
        ("```python\nfrom robench.declare import gone\n```\n", "gone"),
        ("```python\n# a.py\nx = 1\n```\n```python\nfrom a import gone\n```\n", "gone"),
        ("```python\nrobench.measure('digits-adv')\n```\n", "measure"),
        ("```python\nrobench.run('digits-adv', 'digits-vit', epochs=3)\n```\n", "epochs"),
        ("```yaml\nconditions:\n  - {name: x, perturbation: {kind: pdg}}\n```\n", "pdg"),
        ("```toml\nx =\n```\n", "value"),
    ],
)
def test_code_with_a_name_that_is_gone_fails(
    wrong: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((Exception, click.ClickException)) as found:
        check_page(wrong)
    assert message in str(found.value) or message in getattr(found.value, "message", "")


def test_the_tutorial_leads_from_nothing_to_a_table_of_ones_own() -> None:
    files = [each.file for each in snippets(PAGES["tutorial"]) if each.file]
    assert files == [
        *("make_shapes.py", "shapes_net.py", "train_shapes_net.py", "shapes.yaml", "in_memory.py"),
        *("corners.py", "corners_impl.py", "check_corners.py", "my-suite.yaml"),
    ]
    shown = [each for each in snippets(PAGES["tutorial"]) if each.language == "sh"]
    commands = [command for each in shown for command, _ in each.commands]
    run = [command for command in commands if command[:2] == ["robench", "run"]]
    assert ["--registry", "shapes.yaml", "--model", "shapes-net"] in [each[-4:] for each in run]
    assert run[-1][2:] == ["--suite", "my-suite.yaml", "--model", "cifar10-vit", "--data-root", "DATA"]


def test_commands_are_quickened_and_otherwise_as_they_are_shown() -> None:
    assert quickened(["list", "models"]) == ["list", "models"]
    assert quickened(["run", "--suite", "a", "--limit", "100"])[:5] == ["run", "--suite", "a", "--limit", "2"]
    assert quickened(["run", "--smoke"]) == ["run", "--smoke", "--executor", "serial", "--no-audit"]
    assert quickened(["audit", "--model", "a"]) == ["audit", "--model", "a"]


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("```sh\nls\n```\n", [("sh", "", "", "")]),
        ("<!-- not run: it takes a day -->\n```sh\nls\n```\n", [("sh", "not run", "it takes a day", "")]),
        ("<!-- run by tests/x.py -->\n```python\nx\n```\n", [("python", "run by", "tests/x.py", "")]),
        ("<!-- not run: far above -->\n\n```sh\nls\n```\n", [("sh", "", "", "")]),
        ("```python\n# a_file.py\nx = 1\n```\n", [("python", "", "", "a_file.py")]),
        ("```text\nx\n```\n\n```yaml\n# s.yaml\na: 1\n```\n", [("yaml", "", "", "s.yaml")]),
        ("```{toctree}\nx\n```\n", []),
    ],
)
def test_snippets_are_found_with_their_marks(page: str, wanted: list[tuple[str, ...]]) -> None:
    assert [(each.language, each.mark, each.why, each.file) for each in snippets(page)] == wanted


def test_a_command_with_another_end_than_the_page_says_fails(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (wrong,) = snippets("```sh\nrobench show no-such-thing\n```\n")
    with pytest.raises(AssertionError, match="ended with 2"):
        run_snippet(wrong, robench, monkeypatch)
    (other,) = snippets("```sh\nrm -rf results\n```\n")
    with pytest.raises(AssertionError, match="mark the block as not run"):
        run_snippet(other, robench, monkeypatch)
    (yaml,) = snippets("```yaml\nanything: 1\n```\n")
    with pytest.raises(AssertionError, match="mark this block as not run"):
        run_snippet(yaml, robench, monkeypatch)


# The suites of a page's tables, each with the dataset that it is given there.
SHOWN = {
    "tutorial": {"smoke": "digits", "pgd-standard": "digits", "cifar10-adv": None, "my-suite.yaml": None},
    "reading-tables": {"digits-adv": None},
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_tables_of_a_page_have_the_rows_of_their_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for snippet in snippets(PAGES[name]):
        if snippet.file:
            (tmp_path / snippet.file).write_text(snippet.text)
    shown = re.findall(r"```text\n(model +\S.*?)```", PAGES[name], re.DOTALL)
    for table, (suite, dataset) in zip(shown, SHOWN[name].items(), strict=True):
        loaded = robench.load_suite(suite, dataset=dataset, registry=["shapes.yaml"] if "shapes" in PAGES[name] else [])
        columns = [column.label for column in loaded.columns]
        rows = [re.split(r" {2,}", line)[0] for line in table.split("\n\n")[0].splitlines()[2:]]
        assert rows.pop() == "flags"
        assert [row for row in rows if row not in columns] == []
        # A page may leave rows out, but says so.
        assert set(rows) == set(columns) or "rows are left out" in PAGES[name]
