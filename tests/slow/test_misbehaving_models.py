"""Each way that a model can misbehave, in the process of the run and in workers, ends as docs/reliability.md says.

Models that end the process of a serial run have a run each; all others share one, with an honest model before and after
them, so that each also shows that it left the others alone.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT
from misbehaving_models import BATCH_SIZE, KINDS, Model
from safetensors.torch import save_file

from robench.core.outcomes import Outcome
from robench.core.records import Failure, Record
from robench.store import FolderStore

DOCUMENT = (ROOT / "docs" / "reliability.md").read_text()
TIMEOUT_SECONDS = 20
HONEST = ("honest", "honest-again")


class Row(NamedTuple):
    """One row of a table of the document."""

    name: str
    serial: str
    workers: str


def rows(heading: str) -> dict[str, Row]:
    section = DOCUMENT.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "|" in line]
    return {name.strip("`"): Row(name.strip("`"), serial, workers) for name, _, serial, workers in cells[2:]}


SHARDS = rows("While it is measured")
PREFLIGHT = rows("In the preflight check")
KILLS_SERIAL = [name for name, row in SHARDS.items() if row.serial.startswith(("ends the run", "hangs"))]


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one registry entry a kind, all with the same weights."""
    made: Path = tmp_path_factory.mktemp("models")
    save_file(Model("honest", False).state_dict(), made / "weights.safetensors")
    (made / "suite.yaml").write_text(
        f"name: small\nversion: 1\nseed: 0\ndataset: digits\nbatch_size: {BATCH_SIZE}\naudit: false\n"
        f"conditions: [{{name: fgsm, num_examples: {BATCH_SIZE}, perturbation: {{kind: fgsm, epsilon: 8/255}}}}]\n"
        "metrics: [top1_accuracy]\n"
    )
    entries = {name: f"kind: {name}" for name in KINDS} | {"honest-again": "kind: honest, at_once: false"}
    entries |= {f"{name}-at-once": f"kind: {name}, at_once: true" for name in KINDS}
    (made / "registry.yaml").write_text("checkpoints:\n" + "".join(_entry(*each) for each in entries.items()))
    return made


def _entry(name: str, arguments: str) -> str:
    return (
        f"  {name}:\n"
        f"    architecture: {{backbone: python, target: 'misbehaving_models:build', arguments: {{{arguments}}}}}\n"
        "    weights: {uri: weights.safetensors, sha256: null}\n"
        "    preprocessing: {kind: image, mean: [0.3, 0.3, 0.3], std: [0.4, 0.4, 0.4]}\n"
        "    training_data: none\n    source: here\n    licence: none\n"
    )


def run(folder: Path, results: str, models: Iterable[str], *options: object) -> Ended:
    """Run in files and not pipes, which a process that a model forked would hold open."""
    command = [sys.executable, "-m", "robench", "run", "--suite", "suite.yaml", "--registry", "registry.yaml"]
    command += [each for model in models for each in ("--model", model)]
    with (folder / f"{results}.out").open("wb") as out, (folder / f"{results}.err").open("wb") as err:
        run = subprocess.Popen(
            [*command, "--results", results, "--json", *map(str, options)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "ROBENCH_MARK": str(folder)},
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        code = run.wait()
    return Ended(code, (folder / f"{results}.out").read_text(), (folder / f"{results}.err").read_text(errors="replace"))


def running(folder: Path) -> list[int]:
    """Processes that runs of this test left, by what is in the environment that they were started with."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"ROBENCH_MARK={folder}\0".encode() in (process / "environ").read_bytes()
            if is_ours and "\nState:\tZ" not in (process / "status").read_text():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def left_behind(folder: Path) -> list[int]:
    """Return what is still there when all that is being killed had time to go."""
    for _ in range(40):
        if not (found := running(folder)):
            break
        time.sleep(0.25)
    return found


class Results(NamedTuple):
    records: dict[str, Record]
    failures: dict[str, Failure]


def results(folder: Path, name: str) -> Results:
    store = FolderStore(folder / name)
    return Results(
        {record.shard.checkpoint: record for record in store.records(lambda shard: True)},
        {failure.shard.checkpoint: failure for failure in store.failures()},
    )


@pytest.fixture(scope="module")
def honest(folder: Path) -> tuple[Outcome, ...]:
    assert run(folder, "alone", ["honest"], "--executor", "serial").code == 0
    return results(folder, "alone").records["honest"].outcomes


@pytest.fixture(scope="module")
def serial(folder: Path) -> Ended:
    names = ["honest", *(name for name in SHARDS if name not in KILLS_SERIAL), "honest-again"]
    ended = run(folder, "serial", names, "--executor", "serial")
    for process in running(folder):
        # Of the model that forks; nothing ends its copy in a serial run.
        os.kill(process, signal.SIGKILL)
    return ended


@pytest.fixture(scope="module")
def workers(folder: Path) -> Ended:
    names = ["honest", *SHARDS, "honest-again"]
    return run(folder, "workers", names, "--workers", 2, "--shard-timeout", TIMEOUT_SECONDS)


def test_the_document_has_each_kind_once() -> None:
    assert [*SHARDS] == [name for name in KINDS if name != "honest"]
    assert len(SHARDS) >= 30
    assert set(PREFLIGHT) <= set(KINDS)


def test_runs_with_misbehaving_models_end_with_1_and_their_tables_alone(serial: Ended, workers: Ended) -> None:
    for ended in (serial, workers):
        assert ended.code == 1, ended.stderr[-2000:]
        assert {row["model"] for row in json.loads(ended.stdout)["rows"]} >= {*HONEST, "exit-0"}
        assert "printed by the model" in ended.stderr
        assert "logged by the model" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_workers_leave_no_process_behind(folder: Path, workers: Ended) -> None:
    assert left_behind(folder) == []


@pytest.mark.parametrize("name", [*HONEST, *(name for name in SHARDS if name not in KILLS_SERIAL)])
def test_serial(folder: Path, serial: Ended, honest: tuple[Outcome, ...], name: str) -> None:
    check("unchanged" if name in HONEST else SHARDS[name].serial, results(folder, "serial"), name, honest)


@pytest.mark.parametrize("name", [*HONEST, *SHARDS])
def test_workers(folder: Path, workers: Ended, honest: tuple[Outcome, ...], name: str) -> None:
    check("unchanged" if name in HONEST else SHARDS[name].workers, results(folder, "workers"), name, honest)


def check(expected: str, found: Results, name: str, honest: tuple[Outcome, ...]) -> None:
    if expected.startswith("failure: "):
        fragment = expected.removeprefix("failure: ").strip("`")
        assert name not in found.records
        assert fragment in found.failures[name].error
        assert len(found.failures[name].error) < 3000
        assert len(found.failures[name].traceback) < 30_000
        return
    assert name not in found.failures, found.failures[name].error
    outcomes = found.records[name].outcomes
    if expected == "unchanged":
        assert outcomes == honest
    else:
        assert expected == "measured"
        assert [outcome.example_id for outcome in outcomes] == [outcome.example_id for outcome in honest]


@pytest.mark.parametrize("name", [name for name, row in SHARDS.items() if row.serial == row.workers == "measured"])
def test_what_a_model_makes_up_is_the_same_in_both(folder: Path, serial: Ended, workers: Ended, name: str) -> None:
    here, there = (results(folder, each).records[name] for each in ("serial", "workers"))
    assert replace(here, provenance=there.provenance) == there


@pytest.mark.parametrize("name", [name for name in KILLS_SERIAL if SHARDS[name].serial.startswith("ends")])
def test_what_ends_a_serial_run_keeps_what_was_measured(folder: Path, honest: tuple[Outcome, ...], name: str) -> None:
    ended = run(folder, f"serial-{name}", ["honest", name], "--executor", "serial")
    said = re.fullmatch(r"ends the run: (exit code|signal) (\d+)", SHARDS[name].serial)
    assert said is not None
    assert ended.code == int(said[2]) * (1 if said[1] == "exit code" else -1)
    assert ended.stdout == ""
    assert results(folder, f"serial-{name}").records["honest"].outcomes == honest
    for process in running(folder):
        os.kill(process, signal.SIGKILL)


# What ends a serial run does so in the preflight check as later on.
REFUSED = [(name, "workers") for name in PREFLIGHT] + [
    (name, "serial") for name in PREFLIGHT if name not in KILLS_SERIAL
]


@pytest.mark.parametrize(("name", "executor"), REFUSED)
def test_preflight(folder: Path, name: str, executor: str) -> None:
    expected = getattr(PREFLIGHT[name], executor)
    assert expected.startswith("refused: ")
    options = ["--executor", "serial"] if executor == "serial" else ["--shard-timeout", TIMEOUT_SECONDS]
    ended = run(folder, f"preflight-{executor}-{name}", ["honest", f"{name}-at-once"], *options)
    assert ended.code == 2, ended.stderr[-2000:]
    assert ended.stdout == ""
    assert expected.removeprefix("refused: ").strip("`") in ended.stderr
    assert f"'{name}-at-once'" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert left_behind(folder) == []
