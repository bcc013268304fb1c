"""``robench compare``, ``baseline write`` and ``check`` as a user runs them, and robench's own checkpoints checked."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from conftest import ROOT, Robench

import robench as library
from robench.cli.check_command import STEP_SUMMARY
from robench.core.errors import IncomparableError, UsageError
from robench.core.outcomes import Outcome
from robench.core.shard import shard_key
from robench.pytest_plugin import Checker
from robench.store import FolderStore

PUBLISHED = ROOT / "tests" / "golden" / "baseline"
FAST = PUBLISHED / "digits-fast.yaml"
BASELINE = PUBLISHED / "digits-fast.parquet"
MODELS = ("digits-vit", "digits-rpc-symvit")


@pytest.fixture(autouse=True)
def _no_step_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STEP_SUMMARY, raising=False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with both models under the fast suite."""
    folder: Path = tmp_path_factory.mktemp("kept")
    library.run(FAST, list(MODELS), results=folder, executor="serial", audit=False, device="cpu")
    return folder


def copy_with(kept: Path, folder: Path, change: Callable[[Outcome], Outcome], condition: str = "fgsm") -> Path:
    """A results folder in which one condition of digits-vit came out otherwise, with other weights."""
    store = FolderStore(folder)
    for record in FolderStore(kept).records(lambda shard: True):
        shard = record.shard
        if shard.checkpoint != "digits-vit":
            store.put(record)
            continue
        rows = record.outcomes
        if shard.condition == condition:
            rows = type(rows).of([change(row) for row in rows])
        measured = "e" * 31 + shard.measurement_key[0]
        key = shard_key(measured, shard.start, shard.stop)
        other = replace(shard, weights_digest="f" * 64, measurement_key=measured, key=key)
        store.put(replace(record, shard=other, outcomes=rows))
    return folder


def wrong(row: Any) -> Any:
    return replace(row, correct_top1=False, prediction=(row.target + 1) % 10, loss_nats=None)


class TestCompare:
    def test_the_table_is_that_of_the_library(self, robench: Robench, kept: Path) -> None:
        ended = robench("compare", *MODELS, "--suite", FAST, "--results", kept, "--json", "--flipped")
        assert ended.code == 0
        document = json.loads(ended.stdout)
        comparison = library.compare(*MODELS, FAST, results=kept)
        assert [row["column"] for row in document["rows"]] == [row.column.key for row in comparison.rows]
        assert [row["p_corrected"] for row in document["rows"]] == [row.p_corrected for row in comparison.rows]
        assert [row["only_first_ids"] for row in document["rows"]] == [
            list(r.only_first or ()) for r in comparison.rows
        ]

    def test_several_models_are_compared_with_a_control_over_seeds(self, robench: Robench, tmp_path: Path) -> None:
        names = ("digits-vit", "digits-symvit", "digits-rpc-symvit")
        checkpoints = [f"{name}{seed}" for name in names for seed in ("", "@1")]
        results = tmp_path / "r"
        library.run(FAST, checkpoints, results=results, executor="serial", audit=False, device="cpu", limit=4)
        asked = ("compare", *names[1:], "--control", names[0], "--suite", FAST, "--results", results, "--limit", 4)
        ended = robench(*asked, "--seeds", "0-1", "--pair-seeds", "--json")
        assert ended.code == 0, ended.stderr
        document = json.loads(ended.stdout)
        found = library.compare_with_control(
            names[1:], names[0], FAST, results=results, limit=4, seeds=[0, 1], pair_seeds=True
        )
        assert document["seeds"] == {name: list(of) for name, of in found.seeds.items()}
        assert [[model["p"] for model in each["models"]] for each in document["columns"]] == [
            [gain.p_value for gain in each.gains] for each in found.columns
        ]
        figure = tmp_path / "gains.svg"
        chosen = [each for name in names for each in ("--model", name)]
        drawn = ("figure", "seeds", *chosen, *asked[3:], "--seeds", "0-1", "--output", figure)
        assert robench(*drawn).code == 0
        assert "digits-symvit" in figure.read_text()
        # Seeds 2 to 4 have no results.
        assert "'digits-vit@2'" in robench(*asked).stderr
        assert (
            "digits-vit has none of the wanted training seeds; it has 0, 1, 2" in robench(*asked, "--seeds", 7).stderr
        )
        partly = robench(*asked, "--seeds", "0,1,7,8").stderr
        assert "digits-vit lacks the wanted training seeds 7, 8" in partly
        assert "got 3; compare several with one by --control" in robench("compare", *names, "--suite", FAST).stderr

    def test_it_needs_no_torch(self, kept: Path) -> None:
        code = (
            "import sys; sys.argv = ['robench', 'compare', *sys.argv[1:]]\n"
            "from robench.cli.main import main\n"
            "try: main()\nfinally: assert 'torch' not in sys.modules"
        )
        command = [sys.executable, "-c", code, *MODELS, "--suite", str(FAST), "--results", str(kept)]
        subprocess.run(command, check=True, capture_output=True)

    def test_wrong_use_ends_with_2(self, robench: Robench, kept: Path) -> None:
        for arguments in (("digits-vit", "digits-vi"), ("digits-vit", "digits-vit"), ("digits-vit",)):
            assert robench("compare", *arguments, "--suite", FAST, "--results", kept).code == 2

    def test_another_suite_beside_it_changes_no_p_value(self, kept: Path, tmp_path: Path) -> None:
        again = tmp_path / "again.yaml"
        again.write_text(FAST.read_text().replace("name: digits-fast", "name: again"))
        comparison = library.compare(*MODELS, [FAST, again], results=kept)
        assert len(comparison.rows) == 6
        alone = library.compare(*MODELS, FAST, results=kept)
        assert [row.p_corrected for row in comparison.rows[:3]] == [row.p_corrected for row in alone.rows]


class TestCheck:
    def check(self, robench: Robench, results: Path, *options: object) -> Any:
        return robench("check", "--baseline", BASELINE, "--suite", FAST, "--results", results, *options)

    def test_robenchs_own_checkpoints_are_as_good_as_published(self, robench: Robench, tmp_path: Path) -> None:
        ended = self.check(robench, tmp_path / "r", "--run", "--workers", 1, "--device", "cpu", "--json")
        assert ended.code == 0, ended.stdout
        cells = json.loads(ended.stdout)["cells"]
        assert [(cell["model"], cell["verdict"]) for cell in cells] == [
            (name, "passed") for name in MODELS for _ in "123"
        ]
        # Kinds of CPU differ in the last bits, which turns few of 100 images.
        assert all(cell["newly_wrong"] + cell["newly_right"] <= 5 for cell in cells)

    def test_a_worse_model_fails_in_every_document(
        self, robench: Robench, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worse = copy_with(kept, tmp_path / "worse", wrong)
        monkeypatch.setenv(STEP_SUMMARY, str(tmp_path / "step.md"))
        (tmp_path / "step.md").write_text("before\n")
        written = ("--junit", tmp_path / "j.xml", "--summary", tmp_path / "s.md")
        ended = self.check(robench, worse, *written)
        assert ended.code == 1
        assert "failed: 2 worse, of 6 cells" in ended.stdout
        (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()
        assert [len(case) for case in suite] == [0, 1, 1, 0, 0, 0]
        summary = (tmp_path / "s.md").read_text()
        assert (tmp_path / "step.md").read_text() == f"before\n{summary}\n"
        assert summary.startswith("### robench check: failed")
        assert self.check(robench, worse, "--model", "digits-rpc-symvit").code == 0

    def test_what_is_gone_fails_and_says_what_to_do(self, robench: Robench, kept: Path, tmp_path: Path) -> None:
        ended = self.check(robench, tmp_path / "nothing")
        assert ended.code == 1
        assert "failed: 6 missing" in ended.stdout
        assert "--run" in ended.stderr

    def test_other_data_protocols_and_seeds_end_with_4(self, robench: Robench, kept: Path, tmp_path: Path) -> None:
        for old, new in (("8/255", "4/255"), ("version: 1", "version: 2"), ("seed: 0", "seed: 1")):
            path = tmp_path / "other.yaml"
            path.write_text(FAST.read_text().replace(old, new))
            ended = robench("check", "--baseline", BASELINE, "--suite", path, "--results", kept)
            assert ended.code == 4, (new, ended.stdout, ended.stderr)
            assert "baseline" in ended.stderr
        assert self.check(robench, kept, "--seed", 5).code == 4
        (tmp_path / "cut").write_bytes(BASELINE.read_bytes()[:-9])
        assert robench("check", "--baseline", tmp_path / "cut", "--suite", FAST).code == 4

    def test_wrong_use_ends_with_2(self, robench: Robench, kept: Path, tmp_path: Path) -> None:
        assert robench("check", "--baseline", tmp_path / "none").code == 2
        assert self.check(robench, kept, "--model", "digits-symvit").code == 2
        assert self.check(robench, kept, "--tolerance", -1).code == 2
        assert self.check(robench, kept, "--junit", tmp_path / "file" / "x.xml").code == 0
        assert self.check(robench, kept, "--junit", tmp_path).code == 2
        # A suite that is not shipped must be named.
        assert robench("check", "--baseline", BASELINE, "--results", kept).code == 2

    @pytest.mark.parametrize("tolerance", ["inf", "1e308", "nan"])
    def test_a_tolerance_without_bound_ends_with_2(self, robench: Robench, kept: Path, tolerance: str) -> None:
        assert self.check(robench, kept, "--tolerance", tolerance).code == 2

    def test_no_document_overwrites_an_input_or_another(self, robench: Robench, kept: Path, tmp_path: Path) -> None:
        own = tmp_path / "b.parquet"
        own.write_bytes(BASELINE.read_bytes())
        record = next(path for path in kept.rglob("*") if path.is_file())
        suite = tmp_path / "suite.yaml"
        suite.write_text(FAST.read_text())
        stated = ("check", "--baseline", own, "--suite", suite, "--results", kept)
        for path, what in ((own, "an input"), (suite, "an input"), (record, "among the stored results")):
            before = path.read_bytes()
            for option in ("--junit", "--summary"):
                ended = robench(*stated, option, path)
                assert ended.code == 2
                assert f"{option} would overwrite" in ended.stderr
                assert what in ended.stderr
            assert path.read_bytes() == before
        both = robench(*stated, "--junit", tmp_path / "same", "--summary", tmp_path / "same")
        assert both.code == 2
        assert "the file of --junit" in both.stderr

    def test_the_tolerance_prints_how_often_chance_exceeds_it(
        self, robench: Robench, kept: Path, tmp_path: Path
    ) -> None:
        one_wrong = copy_with(kept, tmp_path / "r", lambda row: wrong(row) if row.example_id.endswith("9") else row)
        ended = self.check(robench, one_wrong, "--tolerance", 0.5)
        assert "0.5-point tolerance" in ended.stdout
        assert re.search(r"in up to \d\S* % of checks", ended.stdout)
        assert ended.code == 1

    def test_written_and_read_back_it_is_the_committed_one(self, robench: Robench, kept: Path, tmp_path: Path) -> None:
        models = [option for name in MODELS for option in ("--model", name)]
        path = tmp_path / "b.parquet"
        assert robench("baseline", "write", path, "--suite", FAST, *models, "--results", kept).code == 0
        check = library.check(path, FAST, results=kept)
        assert check.has_passed
        assert {(cell.newly_wrong, cell.newly_right) for cell in check.cells} == {(0, 0)}
        assert (
            robench("baseline", "write", path, "--suite", FAST, "--model", "digits-symvit", "--results", kept).code == 2
        )

    def test_the_library_checks_likewise(self, kept: Path, tmp_path: Path) -> None:
        suite = library.load_suite(FAST)
        assert library.check(BASELINE, suite, "digits-vit", results=kept).has_passed
        library.write_baseline(tmp_path / "b", suite, "digits-vit", results=kept, limit=20)
        limited = library.check(tmp_path / "b", [suite], results=kept)
        assert {cell.after.num_examples for cell in limited.cells} == {20}
        with pytest.raises(IncomparableError):
            library.check(BASELINE, replace(suite, version=2), results=kept)
        with pytest.raises(UsageError, match="cannot be read"):
            library.check(tmp_path / "none")


class PytestProject:
    """A project whose tests use the fixture of the pytest plug-in."""

    def run(self, folder: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
        (folder / "test_it.py").write_text(test)
        plugins = [] if "robench" in installed_plugins() else ["-p", "robench.pytest_plugin"]
        command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "-c", "pytest.ini", *options]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)

    @pytest.fixture
    def project(self, tmp_path: Path, kept: Path) -> Path:
        (tmp_path / "pytest.ini").write_text("[pytest]\nrobench_baseline = digits.parquet\n")
        for source, name in ((BASELINE, "digits.parquet"), (FAST, "fast.yaml")):
            shutil.copy(source, tmp_path / name)
        (tmp_path / "results").symlink_to(kept)
        return tmp_path


class TestPytestPlugin(PytestProject):
    def test_without_a_baseline_it_says_so(self, project: Path) -> None:
        (project / "pytest.ini").write_text("[pytest]\n")
        ended = self.run(project, 'def test_it(robench):\n    robench.check("./fast.yaml")\n')
        assert ended.returncode == 1
        assert "no baseline: give baseline=" in ended.stdout

    def test_models_of_an_own_registry_are_checked_from_any_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "tests").mkdir()
        shutil.copy(FAST, tmp_path / "my-suite.yaml")
        shutil.copy(ROOT / "checkpoints" / "digits-vit.safetensors", tmp_path / "my.safetensors")
        entry = yaml.safe_load((ROOT / "checkpoints.yaml").read_text())["checkpoints"]["digits-vit"]
        entry = {name: entry[name] for name in ("architecture", "preprocessing")}
        own = {"checkpoints": {"mine": entry | {"weights": {"uri": "my.safetensors", "sha256": None}}}}
        (tmp_path / "my-models.yaml").write_text(yaml.safe_dump(own))
        monkeypatch.chdir(tmp_path)
        settings: dict[str, Any] = {"registry": "my-models.yaml", "results": "results"}
        library.run("my-suite.yaml", "mine", **settings, executor="serial", audit=False, device="cpu")
        library.write_baseline("mine.parquet", "my-suite.yaml", "mine", **settings)
        shutil.rmtree("results")
        monkeypatch.chdir(tmp_path / "tests")
        checker = Checker(tmp_path, "mine.parquet", "results")
        asked: dict[str, Any] = {"registry": "my-models.yaml", "device": "cpu"}
        assert checker.check("my-suite.yaml", model="mine", **asked).has_passed
        assert (tmp_path / "results").is_dir()
        with pytest.raises(pytest.fail.Exception, match="unknown model 'others'") as caught:
            checker.check("my-suite.yaml", model="others", **asked)
        assert caught.value.pytrace is False

    def test_it_is_declared_and_light(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert project["entry-points"]["pytest11"] == {"robench": "robench.pytest_plugin"}
        code = "import sys, robench.pytest_plugin; print({'torch', 'numpy', 'click', 'pyarrow'} & sys.modules.keys())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "set()"


def installed_plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {each.name for each in entry_points(group="pytest11")}


def test_the_example_workflow_runs_commands_that_there_are(robench: Robench, kept: Path, tmp_path: Path) -> None:
    workflow = yaml.safe_load((ROOT / "examples" / "check-workflow.yml").read_text())
    (command,) = [
        step["run"] for step in workflow["jobs"]["check"]["steps"] if str(step.get("run", "")).startswith("robench")
    ]
    options = command.split()[1:]
    options[options.index("digits.parquet")] = str(BASELINE)
    options[options.index("robench.xml")] = str(tmp_path / "robench.xml")
    ended = robench(*options, "--suite", FAST, "--results", kept, "--device", "cpu")
    assert ended.code == 0, ended.stderr
    assert (tmp_path / "robench.xml").is_file()
