"""An attack, a corruption, an attention, a dataset and a metric of others, from ``robench run`` to the table."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Robench
from plugin_examples import COMPUTED, ENTRIES, Installer

from robench.core.records import Record
from robench.store import FolderStore

CHECKPOINT = Path(__file__).parents[2] / "checkpoints" / "digits-vit.safetensors"
REGISTRY = """\
checkpoints:
  halved:
    architecture:
      {backbone: vit, image_size: 32, patch_size: 8, num_channels: 3, num_classes: 10, depth: 4, dim: 64, num_heads: 4,
       mlp_ratio: 2, attention: ATTENTION}
    weights: {uri: CHECKPOINT, sha256: null}
    preprocessing: {kind: image, mean: [0.305, 0.305, 0.305], std: [0.35, 0.35, 0.35]}
"""
SUITE = """\
name: theirs
version: 1
seed: 0
dataset: digits
batch_size: 10
conditions:
  - {name: clean, num_examples: 20}
  - {name: brighten, num_examples: 20, perturbation: BRIGHTEN}
  - {name: sweep, num_examples: 20, perturbation: SWEEP}
  - {name: fade, num_examples: 20, perturbation: FADE}
  - {name: stripes, dataset: STRIPES, num_examples: 20}
metrics: [top1_accuracy, METRIC, robust_accuracy]
audit: false
"""
BY_KIND = {
    "BRIGHTEN": "{kind: their-brighten, epsilon: 8/255}",
    "SWEEP": "{kind: their-brighten, epsilons: [4/255, 16/255], carry: true}",
    "FADE": "{kind: their-fade, severity: 4}",
    "STRIPES": "their-stripes",
    "METRIC": "their_error",
    "ATTENTION": "{kind: their-halved}",
}
BY_TARGET = {
    "BRIGHTEN": "{kind: python, target: 'their_plugins.declared:Brighten', epsilon: 8/255}",
    "SWEEP": "{kind: python, target: 'their_plugins.declared:Brighten', epsilons: [4/255, 16/255], carry: true}",
    "FADE": "{kind: python, target: 'their_plugins.declared:Fade', severity: 4}",
    "STRIPES": "digits",
    "METRIC": "{kind: python, target: 'their_plugins.declared:ERROR'}",
    "ATTENTION": "{kind: python, target: 'their_plugins.declared:Halved'}",
}


def written(folder: Path, words: dict[str, str]) -> list[object]:
    """The options that name a suite and a registry with these words."""
    suite, registry = SUITE, REGISTRY.replace("CHECKPOINT", str(CHECKPOINT))
    for word, text in words.items():
        suite, registry = suite.replace(word, text), registry.replace(word, text)
    if words is BY_TARGET:
        suite = "".join(line for line in suite.splitlines(keepends=True) if "stripes" not in line)
    (folder / "suite.yaml").write_text(suite)
    (folder / "registry.yaml").write_text(registry)
    return ["--suite", folder / "suite.yaml", "--registry", folder / "registry.yaml"]


def records_in(folder: Path) -> dict[str, Record]:
    return {record.shard.key: record for record in FolderStore(folder).records(lambda header: True)}


def check_run(install: Installer, robench: Robench, tmp_path: Path, words: dict[str, str], owner: str) -> None:
    install(entries=None if owner else {})
    named = written(tmp_path, words)
    assert robench("validate", tmp_path / "suite.yaml").code == 0
    dry = ["--model", "halved", "--dry-run", "--results", tmp_path / "dry", "--executor", "serial"]
    assert robench("run", *named, *dry).code == 0
    found: list[dict[str, Record]] = []
    for executor in ("serial", "processes"):
        results = tmp_path / executor
        run = ["--model", "halved", "--results", results, "--device", "cpu", "--workers", 1, "--json"]
        ended = robench("run", *named, *run, "--executor", executor)
        assert ended.code == 0, ended.stderr
        found.append(records_in(results))
    serial, parallel = found
    assert serial.keys() == parallel.keys()
    assert all(serial[key].outcomes == parallel[key].outcomes for key in serial)
    assert {record.provenance.versions.get(owner) for record in [*serial.values(), *parallel.values()]} == (
        {"1.0"} if owner else {None}
    )
    reports = [
        robench("report", *named[:2], "--results", tmp_path / each, "--json") for each in ("serial", "processes")
    ]
    rows: list[Any] = [json.loads(report.stdout)["rows"] for report in reports]
    assert rows[0] == rows[1]
    assert all(cell["missing"] == 0 for cell in rows[0][0]["cells"].values())
    text = robench("report", *named[:2], "--results", tmp_path / "serial").stdout
    assert "brighten error" in text
    assert "linf-16/255 robust accuracy" in text


def test_what_breaks_its_promise_fails_alone_and_is_named(install: Installer, robench: Robench, tmp_path: Path) -> None:
    install(computed=COMPUTED.replace("return Perturbed(inputs=batch.inputs", "return 3 or (batch.inputs"))
    run = ["--model", "halved", "--results", tmp_path, "--device", "cpu", "--workers", 1]
    ended = robench("run", *written(tmp_path, BY_KIND), *run)
    assert ended.code == 1
    assert "perturbation 'their-fade' of their-plugins 1.0 returned a int" in ended.stdout + ended.stderr
    kept = {record.shard.condition for record in records_in(tmp_path).values()}
    assert kept == {"clean", "brighten", "sweep", "stripes"}


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("return 3", "returned a int, wanted robench.core.report.Estimate"),
        ("raise SystemExit(3)", "raised SystemExit: 3"),
        ("return Estimate(value=0.5, low=None, high=None, num_examples=1, unit='feet')", "in 'feet', wanted its unit"),
    ],
)
def test_a_metric_that_returns_no_estimate_is_named(
    install: Installer, robench: Robench, tmp_path: Path, small_suite: Any, body: str, shown: str
) -> None:
    install(computed=COMPUTED.replace("def error(readings):", f"def error(readings):\n    {body}"))
    suite = small_suite(top5_accuracy="their_error", num_examples="num_examples")
    ended = robench(
        "run", "--suite", suite, "--model", "digits-vit", "--limit", 50, "--results", tmp_path, "--workers", 1
    )
    assert ended.code == 1
    assert "metric 'their_error' of their-plugins 1.0" in ended.stderr
    assert shown in ended.stderr


def test_doctor_lists_distributions_and_what_is_broken(install: Installer, robench: Robench, tmp_path: Path) -> None:
    install(entries={"attack:bad": "Nothing", "atack:x": "X", **ENTRIES})
    ended = robench("doctor", "--json", "--results", tmp_path)
    checks = json.loads(ended.stdout)
    (found,) = [check for check in checks if check["name"] == "plug-ins of their-plugins 1.0"]
    assert found["state"] == "ok"
    assert "corruption:their-fade" in found["message"]
    notes = [check["message"] for check in checks if check["name"] == "plug-in"]
    assert len(notes) == 2
    assert "attack 'bad' of their-plugins 1.0 cannot be used" in notes[0] + notes[1]
    assert ended.code == robench("doctor", "--results", tmp_path).code == 0
    stripes = [check for check in checks if check["name"] == "dataset their-stripes"]
    assert [check["state"] for check in stripes] == ["ok"]


EXECUTOR = '''
from dataclasses import dataclass
from typing import ClassVar

from robench.executors import ExecutorBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting(ExecutorBase):
    """Execution in this process that counts what it measured in a file."""

    kind: ClassVar[str] = "their-counting"
    implementation: ClassVar[str] = "PACKAGE.computed:executor_of"
    is_in_process: ClassVar[bool] = True

    path: str
'''
COUNTING = """
from pathlib import Path

from robench.executors.serial import SerialExecutor


class CountingExecutor(SerialExecutor):
    def __init__(self, evaluator, path):
        super().__init__(evaluator)
        self.path = path

    def execute(self, work):
        with Path(self.path).open("a") as file:
            for result in super().execute(work):
                file.write(f"{result.shard.start}\\n")
                yield result


def executor_of(declaration, pool):
    return CountingExecutor(pool.make(pool.devices[0]), declaration.path)
"""


@pytest.mark.slow
def test_an_executor_of_others_measures_what_robenchs_own_does(
    install: Installer, robench: Robench, tmp_path: Path, small_suite: Any
) -> None:
    install(entries={"executor:their-counting": "Counting"}, declared=EXECUTOR, computed=COUNTING)
    assert "their-counting" in robench("list", "executors").stdout
    about = "--suite", small_suite(**{"150": "100"}), "--model", "digits-vit", "--device", "cpu"
    chosen = "--executor", "their-counting", "--executor-option", f"path={tmp_path / 'counted'}"
    ended = robench("run", *about, *chosen, "--results", tmp_path / "theirs")
    assert ended.code == 0, ended.stderr
    own = robench("run", *about, "--executor", "serial", "--results", tmp_path / "own")
    assert ended.stdout == own.stdout
    assert (tmp_path / "counted").read_text().split() == ["0", "50"] * 3
    theirs, ours = records_in(tmp_path / "theirs"), records_in(tmp_path / "own")
    assert {key: record.outcomes for key, record in theirs.items()} == {
        key: record.outcomes for key, record in ours.items()
    }
    missing = robench("run", *about, "--executor", "their-counting", "--results", tmp_path / "theirs")
    assert missing.code == 2
    assert "executor 'their-counting' has no default for path; set it by --executor-option" in missing.stderr
