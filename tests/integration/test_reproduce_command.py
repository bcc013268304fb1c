"""``robench reproduce``: from a table's name to its numbers, with weights and results that stay as they are."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Robench

from robench.core.checkpoint import Checkpoint
from robench.declare import read_registry, shipped_registry
from robench.reproduction import reproduction as module
from robench.runs.training_queue import Job, Trained, weights_of

TWIN = ("reproduce", "rpc:1", "--twin", "--rows", "symvit", "--columns", "IN-A*", "--seeds", 1, "--no-audit", "--json")
MODEL = "digits-symvit"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The registry of a clone without the twin's weights, whose recipe has two epochs."""
    shipped = read_registry(shipped_registry())

    def read(registries: Sequence[Path]) -> dict[str, Checkpoint]:
        found = {name: shortened(each) for name, each in shipped.items()}
        return found | {name: each for path in registries for name, each in read_registry(path).items()}

    def shortened(each: Checkpoint) -> Checkpoint:
        if each.training is None or each.entry != MODEL or each.belongs_to:
            return each
        return replace(each, training=each.training.shortened(2), folder=tmp_path / "absent")

    monkeypatch.setattr(module, "read_registries", read)


def in_this_process(jobs: Sequence[Job], count: int, shown: object) -> Iterator[tuple[Job, Trained]]:
    """Train without the seconds that a process takes to start."""
    for job in jobs:
        yield job, Trained(content=weights_of(job))


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.suffix in (".safetensors", ".parquet")}


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_twin_that_was_interrupted_twice_is_that_of_one_go(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those of a process of its own are in test_train_queue.py.
    monkeypatch.setattr("robench.runs.training_queue.run_queue", in_this_process)
    whole = robench(*TWIN, "--results", tmp_path / "whole")
    assert whole.code == 0
    assert "trained reproduced-digits-symvit: other weights than the registry has" in whole.stderr
    results = tmp_path / "interrupted"
    keep = module.Reproduction.keep

    def interrupted_after(method: Callable[..., Any]) -> Callable[..., Any]:
        def then_interrupted(*arguments: Any, **named: Any) -> Any:
            method(*arguments, **named)
            raise KeyboardInterrupt

        return then_interrupted

    with monkeypatch.context() as patched:
        patched.setattr(module.Reproduction, "keep", interrupted_after(keep))
        assert robench(*TWIN, "--results", results).code == 130
        first = files(results)
        assert [path.name for path in first] == ["reproduced-digits-symvit.safetensors"]
        patched.setattr(module.Reproduction, "keep", keep)
        patched.setattr(module.Reproduction, "requests", interrupted_after(module.Reproduction.requests))
        assert robench(*TWIN, "--results", results).code == 130
        second = files(results)
        assert second == first
    ended = robench(*TWIN, "--results", results)
    assert (ended.code, ended.stdout) == (0, whole.stdout)
    third = files(results)
    assert third.items() >= second.items()
    for path in sorted((tmp_path / "whole" / "weights").iterdir()):
        assert (results / "weights" / path.name).read_bytes() == path.read_bytes()
    assert not list((results / "training").iterdir())
    assert robench(*TWIN, "--results", results).stdout == whole.stdout
    assert files(results) == third
    # No other conditions than those of the number: digits-a alone.
    assert len(list((results / "records").iterdir())) == 1
    document = json.loads(robench("table", "rpc:1", "--twin", "--results", results, "--json").stdout)
    found = [cell for row in document["rows"] for cell in row["cells"].values() if cell["measured"] is not None]
    assert [cell["num_seeds"] for cell in found] == [1]


def test_a_dry_run_has_the_needed_conditions_and_hours_of_a_device(robench: Robench, tmp_path: Path) -> None:
    asked = ("reproduce", "rpc:1", "--dry-run", "--json", "--results", tmp_path, "--rows", "rpc-symvit")
    plan = json.loads(robench(*asked, "--columns", "IN-[RO]*", "--device-speed", 100).stdout)
    assert [each["checkpoint"] for each in plan["trainings"]] == [
        "reproduced-rpc-symvit",
        "reproduced-rpc-symvit-seed1",
        "reproduced-rpc-symvit-seed2",
    ]
    assert {each["suite"]: each["conditions"] for each in plan["measurements"]} == {
        "imagenet-shift": ["r", "o", "o-classes"]
    }
    faster = json.loads(robench(*asked, "--columns", "IN-[RO]*", "--device-speed", 200).stdout)
    for slow, fast in zip(plan["trainings"], faster["trainings"], strict=True):
        assert slow["hours"] == pytest.approx([2 * bound for bound in fast["hours"]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows", "RCP*"), "--rows 'RCP*' matches nothing. Known: RPC-SymViT"),
        (("--columns", "IN-X"), "--columns 'IN-X' matches nothing. Known: IN-1K top-1"),
        (("--device-speed", "0", "--dry-run"), "--device-speed must be a number of TFLOPS above 0, got 0"),
        (("--device-speed", "5"), "--device-speed is for the hours of --dry-run; add it"),
        (("--all",), "name tables, such as rpc:1, or give --all, got both"),
        (("--part", "3/2"), "--part must be 1/2 to 2/2, got 3/2"),
        # Data of two suites and of the training, at once.
        (("--columns", "IN-R*", "--columns", "IN-O*", "--data-root", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_reproduced_is_refused_before_anything_starts(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = robench("reproduce", "rpc:1", "--results", tmp_path / "r", *options)
    assert ended.code == (4 if "nowhere" in options else 2)
    assert message in ended.stderr
    assert not list(tmp_path.rglob("*.safetensors"))
    if "nowhere" in options:
        assert {name for name in ("imagenet-r", "imagenet-o", "imagenet-1k") if name in ended.stderr} == {
            "imagenet-r",
            "imagenet-o",
            "imagenet-1k",
        }


@pytest.mark.usefixtures("short")
def test_weights_in_the_place_of_new_ones_are_not_overwritten(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("nothing may be trained")

    monkeypatch.setattr("robench.runs.training_queue.run_queue", never)
    path = tmp_path / "weights" / "reproduced-digits-symvit.safetensors"
    path.parent.mkdir()
    path.write_bytes(b"somebody's")
    ended = robench(*TWIN, "--results", tmp_path)
    assert ended.code != 0
    assert "is not overwritten" in ended.stderr
    assert path.read_bytes() == b"somebody's"
