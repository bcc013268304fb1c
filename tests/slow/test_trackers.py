"""Tables in the real MLflow and Weights & Biases, in an environment of their own, read back by their own means."""

import json
import os
import shlex
import struct
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from environments import python_with
from leaderboard_examples import ADV, adv_suite, fill

from robench.store import FolderStore

SKILLS = {"digits-vit": 0.5, "digits-symvit": 0.6}
REPORT = ("report", "--suite", "adv.yaml", "--json")
# Of each Python process: addresses that it connects to, and whether it ended with torch.
WATCH = """
import atexit, os, socket, sys
here, connect, look_up = (None, "127.0.0.1", "::1", "localhost"), socket.socket.connect, socket.getaddrinfo

def noted(host):
    if host not in here:
        print("connects to", host, file=open(os.environ["WATCHED"], "a"))

def noted_connect(self, address):
    noted("127.0.0.1" if self.family == socket.AF_UNIX else address[0])
    return connect(self, address)

def noted_look_up(host, *arguments, **settings):
    noted(host)
    return look_up(host, *arguments, **settings)

socket.socket.connect, socket.getaddrinfo = noted_connect, noted_look_up
atexit.register(lambda: print("torch", "torch" in sys.modules, file=open(os.environ["WATCHED"], "a")))
"""
READ_MLFLOW = """
import json
from mlflow import MlflowClient
client = MlflowClient()
runs = client.search_runs([client.get_experiment_by_name("robench").experiment_id])
print("found", json.dumps([
    {
        "name": run.info.run_name,
        "status": run.info.status,
        "params": run.data.params,
        "metrics": run.data.metrics,
        "tags": run.data.tags,
        "points": [len(client.get_metric_history(run.info.run_id, name)) for name in run.data.metrics],
    }
    for run in runs
]))
"""
READ_WANDB = """
import json, sys
from wandb.proto.wandb_internal_pb2 import Record
for line in sys.stdin:
    record = Record.FromString(bytes.fromhex(line))
    for update in (*record.run.config.update, *record.summary.update):
        name = update.key or "/".join(update.nested_key)
        print("found", json.dumps([record.WhichOneof("record_type"), name, json.loads(update.value_json)]))
    if record.run.run_id:
        print("found", json.dumps(["run", ".", [record.run.run_id, record.run.project, record.run.display_name]]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of an environment with both trackers, as the extras have them, beside this one's packages."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = os.environ.get("ROBENCH_TEST_TRACKERS", "").split() or [*extras["mlflow"], *extras["wandb"]]
    return str(python_with(tmp_path_factory.mktemp("environment"), *asked))


@pytest.fixture
def call(python: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that calls Python in the folder of a test, without variables of trackers and of this test."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    left_out = ("MLFLOW_", "WANDB_", "PYTEST_", "CI", "GITHUB_", "DO_NOT_TRACK")
    env = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    env |= {"PYTHONPATH": os.pathsep.join([str(tmp_path / "watch"), str(ROOT)]), "WATCHED": str(tmp_path / "watched")}

    def called(*arguments: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments],
            cwd=tmp_path,
            env=env | variables,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )

    return called


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    fill(FolderStore(tmp_path / "results"), adv_suite(), SKILLS)
    (tmp_path / "adv.yaml").write_text(yaml.safe_dump(ADV))
    return tmp_path


def found(ended: subprocess.CompletedProcess[str]) -> list[Any]:
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line.removeprefix("found ")) for line in ended.stdout.splitlines() if line.startswith("found ")]


def numbers(row: dict[str, Any], separator: str) -> dict[str, float]:
    return {
        key if part == "value" else f"{key}{separator}{part}": cell[part]
        for key, cell in row["cells"].items()
        for part in ("value", "low", "high", "num_examples")
    }


def logged_twice(call: Callable[..., subprocess.CompletedProcess[str]], name: str, **variables: str) -> Any:
    """Log the stored report twice and return it; nothing of the tracker is on stdout or leaves the machine."""
    plain = call("-m", "robench", *REPORT)
    for _ in range(2):
        ended = call("-m", "robench", *REPORT, "--log-to", name, **variables)
        assert ended.returncode == 0, ended.stderr[-2000:]
        assert ended.stdout == plain.stdout
        assert f"logged 2 rows to {name}: " in ended.stderr
    return json.loads(plain.stdout)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"MLFLOW_TRACKING_URI": "./mine", "MLFLOW_ALLOW_FILE_STORE": "true"},
    ],
    ids=["default", "file"],
)
def test_mlflow_has_each_row_once(
    call: Callable[..., subprocess.CompletedProcess[str]], stored: Path, variables: dict[str, str]
) -> None:
    report = logged_twice(call, "mlflow", **variables)
    watched = (stored / "watched").read_text().splitlines()
    assert watched == ["torch False"] * 3
    (runs,) = found(call("-c", READ_MLFLOW, **variables))
    assert sorted(run["name"] for run in runs) == sorted(f"adv/{model}" for model in SKILLS)
    rows = {row["model"]: row for row in report["rows"]}
    for run in runs:
        params = run["params"]
        row = rows[params["model"]]
        assert run["metrics"] == numbers(row, ".")
        assert set(run["points"]) == {1}
        assert run["status"] == "FINISHED"
        assert (params["suite"], params["seed"], params["batch_size"], params["datasets"]) == (
            "adv",
            "0",
            "20",
            "digits",
        )
        assert len(run["tags"]["robench_key"]) == 32


def test_wandb_has_offline_runs_of_one_id_a_row(
    call: Callable[..., subprocess.CompletedProcess[str]], stored: Path
) -> None:
    report = logged_twice(call, "wandb")
    assert set((stored / "watched").read_text().splitlines()) == {"torch False"}
    rows = {f"adv/{row['model']}": row for row in report["rows"]}
    ids = []
    for path in sorted((stored / "wandb").glob("offline-run-*/*.wandb")):
        lines = "\n".join(record.hex() for record in records_of(path.read_bytes()))
        read = found(call("-c", READ_WANDB, given=lines))
        run_id, project, name = next(value for kind, key, value in read if (kind, key) == ("run", "."))
        config = {key: value for kind, key, value in read if kind == "run"}
        summary = {key: value for kind, key, value in read if kind == "summary" and not key.startswith("_")}
        assert (project, config["model"], config["seed"]) == ("robench", name.removeprefix("adv/"), 0)
        assert config["robench_key"] == run_id == path.stem.removeprefix("run-")
        assert summary == {key.replace("-", "_"): value for key, value in numbers(rows[name], "/").items()}
        ids.append(run_id)
    assert len(ids) == 4
    assert len(set(ids)) == 2


def records_of(content: bytes) -> list[bytes]:
    """Return the records of a file of wandb: LevelDB's log, below a header of seven bytes."""
    records, parts, place = [], b"", 7
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7 : place + 7 + size]
        place += 7 + size
        # A whole record, or the last part of one.
        if kind in (1, 4):
            records.append(parts)
            parts = b""
    return records


def test_a_server_that_is_away_costs_no_results_and_the_message_has_the_command_that_logs_them(
    call: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, small_suite: Callable[..., Path]
) -> None:
    run = ["run", "--suite", str(small_suite()), "--model", "digits-vit", "--executor", "serial", "--json"]
    away = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    ended = call("-m", "robench", *run, "--log-to", "mlflow", **away)
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["rows"][0]["cells"]["clean/top1_accuracy"]["missing"] == 0
    errors = [line for line in ended.stderr.splitlines() if line.startswith("Error")]
    assert len(errors) == 1
    assert errors[0].startswith("Error: MLflow did not take the results (MlflowException: ")
    assert "Traceback" not in ended.stderr
    assert len(FolderStore(tmp_path / "results").keys()) == 9
    again = shlex.split(errors[0].split("'")[-2])
    assert again[:2] == ["robench", "report"]
    for command in (again[1:], [*run, "--log-to", "mlflow"]):
        ended = call("-m", "robench", *command)
        assert ended.returncode == 0, ended.stderr[-2000:]
        assert "logged 1 row to mlflow: experiment robench" in ended.stderr
    # That of the report and that of the second run, which measured nothing, are the same.
    (runs,) = found(call("-c", READ_MLFLOW))
    assert [each["name"] for each in runs] == ["small/digits-vit"]


def test_a_folder_that_wandb_cannot_write_is_an_error(
    call: Callable[..., subprocess.CompletedProcess[str]], stored: Path
) -> None:
    ended = call("-m", "robench", *REPORT, "--log-to", "wandb", WANDB_DIR=str(stored / "adv.yaml"))
    assert ended.returncode == 1
    assert "Error: Weights & Biases did not take the results (FileExistsError: " in ended.stderr
    assert json.loads(ended.stdout)["rows"]
