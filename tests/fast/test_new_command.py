"""``robench new``: the files that it writes, in a distribution and in the repository, and the names that it refuses."""

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, Robench

from robench.attention.rpc import Rpc
from robench.cli.new_command import FAMILIES
from robench.core.plugins import FAMILIES as KNOWN
from robench.declare import find_checkpoints, read_registry

# The shortest and the longest, for which lines of the templates may wrap.
NAMES = ("q", "walk-of-twenty-chars", "walkoftwentyletterss")
# Files of tests to which lines are added.
TABLES = (
    *("test_perturbations_contract.py", "test_domains_contract.py", "test_tasks_contract.py"),
    *("corruption_references.py", "test_corruptions_contract.py"),
)
BUDGETS = "tests/architecture/budgets.toml"
STYLE = [sys.executable, "-m", "ruff"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As much of robench's repository as the command reads."""
    monkeypatch.chdir(tmp_path)
    folders = [ROOT / "robench", *ROOT.glob("robench/*/")]
    paths = [*(each / "__init__.py" for each in folders if (each / "__init__.py").exists()), ROOT / "pyproject.toml"]
    for path in [*paths, *(ROOT / "tests/contract" / name for name in TABLES), ROOT / BUDGETS]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (tmp_path / "robench/cli/templates").mkdir()
    return tmp_path


def is_in_style(folder: Path, *options: str) -> str:
    """Return the complaints of ruff."""
    done = [
        subprocess.run([*STYLE, *command, *options, "."], cwd=folder, capture_output=True, text=True)
        for command in (("check", "--no-cache", "--output-format=concise"), ("format", "--no-cache", "--check"))
    ]
    return "".join(each.stdout + each.stderr for each in done if each.returncode)


def test_families_are_those_of_plug_ins() -> None:
    packaged = {"attack", "attention", "corruption", "dataset", "domain", "metric", "task"}
    assert set(FAMILIES) == {*packaged, "format"}
    assert packaged <= set(KNOWN)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "format"])
def test_a_distribution_has_an_entry_point_and_style(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        ended = robench("new", family, name, "--json")
        assert ended.code == 0, ended.stderr
        found = json.loads(ended.stdout)
        folder, module = tmp_path / f"robench-{name}", name.replace("-", "_")
        package = f"robench_{module}"
        # Metrics and domains are one file.
        implementation = [] if family in ("metric", "domain") else [f"{module}_impl.py"]
        parts = ("__init__.py", f"{module}.py", *implementation, "py.typed")
        wanted = ["pyproject.toml", f"tests/test_{module}.py", *(f"{package}/{part}" for part in parts)]
        assert sorted(found["written"]) == sorted(str(folder / path) for path in wanted)
        entries = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]["robench.plugins"]
        ((entry, value),) = entries.items()
        assert entry == f"{family}:{found['kind']}"
        assert value.partition(":")[0] == f"{package}.{module}"
        assert any(f"pip install --editable {folder}" in step for step in found["next"])
    assert is_in_style(tmp_path, "--line-length=120") == ""


@pytest.mark.parametrize("family", FAMILIES)
def test_in_the_repository_lines_are_added_where_they_belong(robench: Robench, checkout: Path, family: str) -> None:
    for name in NAMES:
        ended = robench("new", family, name, "--json")
        assert ended.code == 0, ended.stderr
        found = json.loads(ended.stdout)
        assert found["by_hand"] == []
        assert str(checkout) in found["changed"][0]
        assert any("make generated" in step for step in found["next"])
        for path in found["changed"]:
            text = (checkout / path).read_text()
            assert path.endswith(BUDGETS) or name.replace("-", "_").upper() in text.upper().replace("-", "_")
    assert is_in_style(checkout, "--config", 'lint.isort.known-first-party=["robench"]') == ""


def test_an_entry_like_another_has_the_new_attention(robench: Robench, tmp_path: Path) -> None:
    ended = robench("new", "attention", "my-bias", "--like", "cifar10-vit", "--output", tmp_path / "new", "--json")
    found, file = json.loads(ended.stdout), tmp_path / "new" / "my-bias.yaml"
    assert str(file) in found["written"]
    assert found["next"][-1] == f"train it: robench train my-bias-cifar10-vit --registry {file}"
    # A kind that there is, in the place of the one that would have to be installed.
    file.write_text(file.read_text().replace("kind: my-bias", "kind: rpc"))
    (entry,) = read_registry(file).values()
    (theirs,) = find_checkpoints(["cifar10-vit"])
    assert entry.architecture == replace(theirs.architecture, attention=Rpc())  # type: ignore[type-var]  # a dataclass
    assert (entry.training, entry.weights.sha256) == (theirs.training, None)


@pytest.mark.parametrize(
    ("family", "like", "found"),
    [
        ("attack", "digits-vit", "--like is of attentions, got a plug-in of the family attack"),
        ("attention", "digits-vitt", "unknown model 'digits-vitt'. Did you mean 'digits-vit'?"),
    ],
)
def test_an_entry_like_no_other_is_refused_before_anything_is_written(
    robench: Robench, tmp_path: Path, family: str, like: str, found: str
) -> None:
    ended = robench("new", family, "my-bias", "--like", like, "--output", tmp_path / "new")
    assert (ended.code, found in ended.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_corruption_without_draws_is_listed_as_one(robench: Robench, checkout: Path) -> None:
    for name, option in {"my-noise": "--draws", "my-light": "--no-draws"}.items():
        assert robench("new", "corruption", name, option).code == 0
    listed = (checkout / "tests/contract/test_corruptions_contract.py").read_text()
    assert '    "my_light",\n}\nSEVERITIES' in listed
    assert "my_noise" not in listed
    assert "draws.uniform" in (checkout / "robench/corruptions/my_noise_impl.py").read_text()
    assert "draws.uniform" not in (checkout / "robench/corruptions/my_light_impl.py").read_text()


def test_budgets_grow_by_what_is_written(robench: Robench, checkout: Path) -> None:
    before = tomllib.loads((checkout / BUDGETS).read_text())
    found = json.loads(robench("new", "attack", "my-walk", "--json").stdout)
    after = tomllib.loads((checkout / BUDGETS).read_text())
    lines = sum(len((checkout / path).read_text().splitlines()) for path in found["written"])
    assert after["lines"]["robench/attacks"] == before["lines"]["robench/attacks"] + lines + 1
    assert after["lines"]["tests/contract"] == before["lines"]["tests/contract"] + 1
    assert after["files"] == before["files"] | {"robench/attacks": before["files"]["robench/attacks"] + 2}
    assert after["words"] == before["words"]


def test_a_line_whose_place_is_not_found_is_left_to_the_author(robench: Robench, checkout: Path) -> None:
    registry = checkout / "robench/attacks/__init__.py"
    registry.write_text(registry.read_text().replace("}\nATTACKS:", "}\n\nATTACKS:"))
    ended = robench("new", "attack", "my-walk")
    assert f'add by hand to {registry}: "my-walk": "robench.attacks.my_walk:MyWalk",' in ended.stdout
    assert "my_walk" not in registry.read_text()


@pytest.mark.parametrize(
    ("family", "name", "found"),
    [
        ("attack", "pgd", "there is already a plug-in called 'pgd'"),
        ("corruption", "pgd", "there is already a plug-in called 'pgd'"),
        ("metric", "top1-accuracy", "there is already a plug-in called 'top1_accuracy'"),
        ("attack", "My_Attack", "lower-case letters and digits with hyphens between words, such as my-attack"),
        ("attack", "a--b", "lower-case letters and digits"),
        ("attack", "9lives", "lower-case letters and digits"),
        ("attack", "a" * 21, "at most 20"),
        ("attack", "lambda", "'lambda' is a word of Python's or robench's own"),
        ("attack", "python", "'python' is a word"),
        ("attack", "search", "the template already uses the name 'search'"),
        ("format", "npz", "there is already a plug-in called 'npz'"),
        ("format", "my-records", "a format goes into robench's repository: give --in-repository"),
    ],
)
def test_a_name_is_refused_before_anything_is_written(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, name: str, found: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = robench("new", family, name)
    assert ended.code == 2
    assert found in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(robench: Robench, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("mine")
    ended = robench("new", "metric", "my-metric", "--output", tmp_path)
    assert ended.code == 2
    assert f"{tmp_path / 'pyproject.toml'} exists, and nothing is overwritten" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]
    assert (tmp_path / "pyproject.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--in-repository", "--output", "x"), "--in-repository and --output exclude each other"),
        (("--no-draws",), "--draws and --no-draws are of corruptions, got a plug-in of the family metric"),
    ],
)
def test_options_that_do_not_fit_are_refused(robench: Robench, options: tuple[str, ...], found: str) -> None:
    ended = robench("new", "metric", "my-metric", *options)
    assert ended.code == 2
    assert found in ended.stderr
