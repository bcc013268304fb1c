"""Runs of experiment trackers: numbers are those of the JSON, keys are of measurements, and failures cost nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import ROOT
from leaderboard_examples import ADV, FINE, MASKED, adv_suite, fill

from robench.cli import main as cli_main
from robench.cli import run_command
from robench.core.errors import RobenchError
from robench.core.providers import install_command
from robench.core.records import Failure, Record
from robench.core.report import Cell, Estimate, Report
from robench.core.suite import Suite
from robench.exports.trackers import KEY, TRACKERS, check_trackers, log, runs_of, valid_name
from robench.reports import RENDERERS, build_report, over_seeds, report_of_store
from robench.store import FolderStore, MemoryStore

SKILLS = {"digits-vit": 0.5, "digits-symvit": 0.6}
MLFLOW, WANDB = TRACKERS["mlflow"], TRACKERS["wandb"]
# As their documentation has them; wandb lists others as a source of trouble.
NAMES = {"mlflow": r"[/\w.\- ]{1,250}", "wandb": r"[_a-zA-Z][_a-zA-Z0-9/]*"}


def report_of(*, suite: Suite | None = None, **changes: Any) -> Report:
    store = MemoryStore()
    fill(store, adv_suite(), SKILLS, half=("digits-symvit",), flags={"digits-vit": (MASKED, FINE)})
    return replace(report_of_store(suite or adv_suite(), store), **changes)


@pytest.mark.parametrize(("name", "separator"), [("mlflow", "."), ("wandb", "/")])
def test_numbers_are_those_of_the_json_by_names_that_the_tracker_takes(name: str, separator: str) -> None:
    report = report_of()
    rows = json.loads(RENDERERS["json"](report))["rows"]
    assert any(cell["value"] is None for row in rows for cell in row["cells"].values())
    runs = runs_of(adv_suite(), report, TRACKERS[name])
    assert [run.name for run in runs] == [f"adv/{row['model']}" for row in rows]
    for run, row in zip(runs, rows, strict=True):
        expected = {}
        for key, cell in row["cells"].items():
            for part in ("value", "low", "high", "num_examples"):
                if cell["value"] is not None and cell[part] is not None:
                    known = key.replace("-", "_") if name == "wandb" else key
                    expected[known if part == "value" else f"{known}{separator}{part}"] = cell[part]
        assert run.metrics == expected
        assert "clean/top1_accuracy" in run.metrics
        assert all(re.fullmatch(NAMES[name], metric) for metric in run.metrics)


def test_parameters_and_tags_say_what_was_measured() -> None:
    report = report_of(provenance={"robench": "0.1, 0.2", "devices": "cpu"})
    run = next(each for each in runs_of(adv_suite(), report, MLFLOW) if each.params["model"] == "digits-vit")
    (weights,) = (row.weights for row in report.rows if row.model == "digits-vit")
    assert weights
    of_suite = {"suite": "adv", "suite_version": 1, "datasets": "digits", "seed": 0, "batch_size": 20}
    assert run.params == {**of_suite, "model": "digits-vit", "weights": weights}
    flags = "zero gradients, smaller budget beats larger"
    of_run = {"robench_version": "0.1, 0.2", "devices": "cpu", "notes": "none", "flags": flags}
    assert run.tags == {KEY: run.key, **of_run}


def test_further_parameters_are_those_of_limits_and_precisions() -> None:
    report = report_of()
    row = replace(report.rows[0], limit=60, all_examples=True, precision="bfloat16", notes=("long " * 500,))
    (run,) = runs_of(adv_suite(), replace(report, rows=(row,)), MLFLOW)
    further = {"limit": 60, "all_examples": True, "precision": "bfloat16"}
    assert further.items() <= run.params.items()
    assert run.name == f"adv/{row.model} (bfloat16)"
    assert 400 < len(run.tags["notes"]) <= 500


class TestKeys:
    """A key belongs to what was measured, whenever and however often."""

    def test_measuring_again_changes_no_key(self) -> None:
        records = made()
        later = replace(records[0].provenance, finished_at="2099-01-01T00:00:00Z", device="cuda")
        assert key_of([replace(each, provenance=later) for each in records]) == key_of(records)

    def test_missing_and_failed_shards_change_no_key(self) -> None:
        records = made()
        pgd = [each for each in records if each.shard.condition == "pgd"]
        others = [each for each in records if each not in pgd]
        failed = Failure(shard=pgd[0].shard, error="out of memory", traceback="", provenance=pgd[0].provenance)
        assert key_of([*others, *pgd[1:]]) == key_of([*others, failed]) == key_of(records)

    def test_other_weights_data_seeds_limits_and_settings_have_other_keys(self) -> None:
        records = made()
        keys = {
            key_of(records),
            key_of([replace(each, shard=replace(each.shard, weights_digest="c" * 64)) for each in records]),
            # Data, code and number format are in the keys of measurements.
            key_of([replace(each, shard=replace(each.shard, measurement_key="f" * 32)) for each in records]),
            key_of([replace(each, shard=replace(each.shard, seed=1)) for each in records], seed=1),
            key_of(records, limit=60),
            key_of(records, adv_suite(version=2)),
            key_of(records, adv_suite(name="other")),
        }
        assert len(keys) == 7

    def test_audits_are_in_no_key(self) -> None:
        runs = []
        for flags in ({"digits-vit": (MASKED, FINE)}, {}):
            store = MemoryStore()
            fill(store, adv_suite(), {"digits-vit": 0.5}, flags=flags)
            runs += runs_of(adv_suite(), report_of_store(adv_suite(), store), MLFLOW)
        assert runs[0].key == runs[1].key

    def test_a_mean_has_a_key_of_its_own_that_changes_with_a_seed(self) -> None:
        keys = set()
        for names in (["digits-vit"], ["digits-vit", "digits-vit@1"], ["digits-vit", "digits-vit@2"]):
            store = MemoryStore()
            fill(store, adv_suite(), dict.fromkeys(names, 0.5))
            report = over_seeds(report_of_store(adv_suite(), store))
            (run,) = runs_of(adv_suite(), report, MLFLOW)
            assert run.name == "adv/digits-vit"
            assert run.params.get("training_seeds") == (", ".join(names) if len(names) > 1 else None)
            assert len(report.rows[0].measurements) == 4 * len(names)
            keys.add(run.key)
        assert len(keys) == 3


def made() -> list[Record]:
    store = MemoryStore()
    fill(store, adv_suite(), {"digits-vit": 0.5})
    return [record for manifest in store.manifests() for record in store.records_of([manifest.shard.measurement_key])]


def key_of(results: Sequence[Record | Failure], suite: Suite | None = None, **settings: Any) -> str:
    records = [each for each in results if not isinstance(each, Failure)]
    failures = [each for each in results if isinstance(each, Failure)]
    suite = suite or adv_suite()
    (run,) = runs_of(suite, build_report(suite, records, failures, **settings), MLFLOW)
    return run.key


def test_rehearsals_and_rows_without_numbers_are_left_out_and_so_are_infinite_numbers() -> None:
    report = report_of()
    (first, second), key = report.rows, report.columns[0].key
    none, infinite = (
        replace(second, cells={name: Cell(estimate=estimate, num_examples=9, missing=0) for name in second.cells})
        for estimate in (None, Estimate(value=inf, low=1.0, high=inf, num_examples=9))
    )
    rehearsed = replace(first, model="digits-vit+random-weights")
    rows = (rehearsed, none, infinite, replace(first, cells={**first.cells, key: infinite.cells[key]}))
    (run,) = runs_of(adv_suite(), replace(report, rows=rows), MLFLOW)
    assert run.params["model"] == first.model
    assert not any(name.startswith(key) for name in run.metrics)


def test_names_are_plain_paths_and_never_the_same() -> None:
    for key in ("../up", "/root", "a//b", "a/", ".", "x" * 300, "é\ud800"):
        name = valid_name(key, MLFLOW)
        assert re.fullmatch(r"[A-Za-z0-9_]{1,210}", name), name
    assert valid_name("a@b", MLFLOW, ["a_b"]) != valid_name("a b", MLFLOW, ["a_b"]) != "a_b"
    assert valid_name("fgsm-6/top1.5", MLFLOW) == "fgsm-6/top1.5"
    assert valid_name("fgsm-6/top1.5", WANDB) == "fgsm_6/top1_5"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("kept")
    fill(FolderStore(folder / "results"), adv_suite(), SKILLS)
    return folder


@pytest.fixture
def fake(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of planted trackers, whose file ``FAKE_FILE`` has what they were given."""
    folder = tmp_path / "planted"
    shutil.copytree(ROOT / "tests" / "planted_trackers", folder)
    monkeypatch.syspath_prepend(str(folder))
    for name in imported():
        monkeypatch.delitem(sys.modules, name)
    for name in [each for each in os.environ if each.startswith(("MLFLOW_", "WANDB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FAKE_FILE", str(tmp_path / "runs.json"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adv.yaml").write_text(yaml.safe_dump(ADV))
    shutil.copytree(kept / "results", tmp_path / "results")
    yield folder
    for name in imported():
        del sys.modules[name]


def imported() -> list[str]:
    """Modules of trackers."""
    return [name for name in sys.modules if name.partition(".")[0] in TRACKERS]


def logged_by(folder: Path) -> Any:
    """What a planted tracker was given."""
    return json.loads((folder / "runs.json").read_text())


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["robench", *arguments])
    with pytest.raises(SystemExit) as end:
        cli_main.main()
    code = end.value.code
    assert isinstance(code, int)
    return code


REPORT = ("report", "--suite", "adv.yaml", "--json")


def test_a_report_is_logged_once_to_each_tracker_and_printed_as_without(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, *REPORT) == 0
    plain = capfd.readouterr().out
    rows = json.loads(plain)["rows"]
    for name, where in (("mlflow", "experiment robench"), ("wandb", "project robench, mode offline, folder ")):
        monkeypatch.setenv("FAKE_FILE", str(tmp_path / name))
        texts = []
        for _ in range(2):
            # Neither columns that are shown nor their order change what is logged.
            assert ended(monkeypatch, *REPORT, "--log-to", name, "--log-to", name) == 0
            printed = capfd.readouterr()
            assert printed.out == plain
            assert f"logged 2 rows to {name}: {where}" in printed.err
            assert printed.err.count("logged 2 rows") == 1
            texts.append((tmp_path / name).read_text())
        assert texts[0] == texts[1]
        assert "MLFLOW_DISABLE_TELEMETRY" not in os.environ
        assert "WANDB_MODE" not in os.environ
    logged = json.loads((tmp_path / "mlflow").read_text())
    assert [(run["name"], run["status"]) for run in logged] == [(f"adv/{row['model']}", "FINISHED") for row in rows]
    for run, row in zip(logged, rows, strict=True):
        assert run["metrics"]["pgd/top1_accuracy"] == row["cells"]["pgd/top1_accuracy"]["value"]
        assert run["points"] == len(run["metrics"])
        assert (run["params"]["suite"], run["params"]["seed"]) == ("adv", "0")
    kept = json.loads((tmp_path / "wandb").read_text())
    assert kept.keys() == {run["tags"][KEY] for run in logged}
    for key, run in kept.items():
        assert (run["project"], run["config"][KEY], run["config"]["seed"]) == ("robench", key, 0)
        assert run["summary"]["pgd/top1_accuracy/low"] < run["summary"]["pgd/top1_accuracy"]


def test_columns_that_are_not_shown_are_logged_too_and_numbers_are_updated(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    log(runs_of(adv_suite(), report_of(), MLFLOW), "mlflow")
    text = (tmp_path / "runs.json").read_text()
    (tmp_path / "runs.json").write_text(text.replace('"devices": "', '"devices": "another '))
    assert ended(monkeypatch, *REPORT, "--columns", "clean*", "--log-to", "mlflow") == 0
    logged = logged_by(tmp_path)
    assert {run["place"] for run in logged} == {"mine"}
    # The half-measured row has become a whole one.
    assert [run["name"] for run in logged] == ["adv/digits-symvit", "adv/digits-vit"]
    assert all("pgd-half/top1_accuracy.high" in run["metrics"] for run in logged)
    assert all(run["points"] == len(run["metrics"]) for run in logged)
    assert not any("another" in run["tags"]["devices"] for run in logged)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise OSError('no route to https://me:secret@host/api')", "OSError: no route to https://***@host/api"),
        ("raise SystemExit('go away')", "SystemExit: go away"),
        ("import a_missing_library", "ModuleNotFoundError: No module named 'a_missing_library'"),
    ],
)
def test_a_tracker_that_fails_costs_one_message_and_not_the_table(
    fake: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], code: str, reason: str
) -> None:
    assert ended(monkeypatch, *REPORT) == 0
    plain = capfd.readouterr().out
    (fake / "mlflow" / "__init__.py").write_text(f"print('chatter')\n{code}\n")
    assert ended(monkeypatch, *REPORT, "--limit", "600", "--log-to", "mlflow", "--log-to", "wandb") == 1
    printed = capfd.readouterr()
    assert json.loads(printed.out)["rows"][0]["cells"] == json.loads(plain)["rows"][0]["cells"]
    last = printed.err.splitlines()[-1]
    assert last == (
        f"Error: MLflow did not take the results ({reason}). All results are kept, and "
        "'robench report --suite adv.yaml --limit 600 --log-to mlflow' logs them."
    )
    assert "Traceback" not in printed.err
    # The other tracker has them.
    assert "logged 2 rows to wandb" in printed.err


def test_interrupted_logging_kills_mlflows_run_which_the_next_one_finishes(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_INTERRUPT", "1")
    assert ended(monkeypatch, *REPORT, "--log-to", "mlflow") == 1
    assert "MLflow did not take the results (KeyboardInterrupt)" in capfd.readouterr().err
    (killed,) = logged_by(tmp_path)
    assert (killed["status"], killed["metrics"]) == ("KILLED", {})
    monkeypatch.delenv("FAKE_INTERRUPT")
    assert ended(monkeypatch, *REPORT, "--log-to", "mlflow") == 0
    assert [run["status"] for run in logged_by(tmp_path)] == ["FINISHED", "FINISHED"]


def test_variables_of_the_user_and_many_numbers_are_taken(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert ", mode disabled, " in log(runs_of(adv_suite(), report_of(), WANDB), "wandb")
    (tmp_path / "runs.json").unlink()
    (run, _) = runs_of(adv_suite(), report_of(), MLFLOW)
    many = {f"m{number}": float(number) for number in range(2500)}
    # The planted client refuses more than 1000 at a time, as a server does.
    log([replace(run, metrics=many)], "mlflow")
    assert logged_by(tmp_path)[0]["metrics"] == many


def test_an_unwritable_folder_of_wandb_is_an_error(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "adv.yaml"))
    with pytest.raises(RobenchError, match=r"did not take the results \(FileExistsError"):
        log(runs_of(adv_suite(), report_of(), WANDB), "wandb")


@pytest.mark.parametrize("command", [("run", "--model", "digits-vit"), ("report",)], ids=" ".join)
@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_tracker_is_reported_before_anything_is_measured(
    command: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # A folder without code, such as the one of wandb's runs, is not the package.
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *(each for each in sys.path if not each.endswith("site-packages"))])
    monkeypatch.delitem(sys.modules, name, raising=False)
    assert ended(monkeypatch, *command, "--suite", "digits-adv", "--results", "r", "--log-to", name) == 2
    printed = capfd.readouterr()
    title = TRACKERS[name].title
    assert printed.err == f"Error: --log-to {name} needs {title}, which is not installed: {install_command(name)}\n"
    assert printed.out == ""
    assert not (tmp_path / "r").exists()


def test_an_unknown_tracker_is_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert ended(monkeypatch, "report", "--suite", "digits-adv", "--log-to", "mlfow") == 2
    assert capfd.readouterr().err == "Error: unknown tracker 'mlfow'. Did you mean 'mlflow'?\n"


@pytest.mark.parametrize(
    ("smoke", "part", "is_rehearsal", "said"),
    [
        (True, None, False, "The rows of a smoke run are not logged."),
        (False, None, True, "The rows of a rehearsal are not logged."),
        (False, (1, 2), False, "A part of a run is not logged; "),
    ],
)
def test_smoke_runs_rehearsals_and_parts_are_not_logged(
    fake: Path, tmp_path: Path, capfd: Any, smoke: bool, part: object, is_rehearsal: bool, said: str
) -> None:
    request: Any = SimpleNamespace(smoke=smoke, part=part, suites=(adv_suite(),), limit=None)
    run_command._log(("mlflow",), request, [report_of()], is_rehearsal=is_rehearsal)
    printed = capfd.readouterr()
    assert (printed.out, printed.err.startswith(said), printed.err.count("\n")) == ("", True, 1)
    assert not (tmp_path / "runs.json").exists()


def test_a_finished_run_is_logged_as_its_report(fake: Path, tmp_path: Path) -> None:
    request: Any = SimpleNamespace(smoke=False, part=None, suites=(adv_suite(),), limit=None)
    run_command._log(("mlflow",), request, [report_of()], is_rehearsal=False)
    logged = {run["tags"][KEY] for run in logged_by(tmp_path)}
    assert logged == {run.key for run in runs_of(adv_suite(), report_of(), MLFLOW)}


@pytest.mark.slow
def test_a_report_is_logged_without_torch(fake: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom robench.cli.main import main\ntry:\n    main()\nexcept SystemExit as end:\n"
        "    assert not end.code\nassert 'mlflow' in sys.modules and 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *REPORT, "--log-to", "mlflow"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(fake), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "logged 2 rows" in done.stderr) == (0, True), done.stderr


def test_check_trackers_imports_nothing(fake: Path) -> None:
    check_trackers(TRACKERS)
    assert not TRACKERS.keys() & sys.modules.keys()
