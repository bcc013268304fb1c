"""``--smoke`` and ``smoke=True``: four examples of each condition, nothing on disk, and a table that says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import Tiny, write_registry
from torch import nn

import robench as package
from robench.core.errors import UsageError
from robench.declare import find_suite
from robench.runs import RunRequest, smoke_request
from robench.runs.request import SMOKE_EXAMPLES, SMOKE_NOTE

Robench = Any


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    return empty


@pytest.fixture
def command(small_suite: Callable[..., Path], tmp_path: Path) -> tuple[object, ...]:
    suite = small_suite(**{"audit: false": "audit: true"})
    return "run", "--suite", suite, "--registry", write_registry(tmp_path), "--model", "honest", "--smoke"


def test_the_command_measures_four_examples_and_writes_nothing(
    robench: Robench, folder: Path, command: tuple[object, ...]
) -> None:
    ended = robench(*command)
    assert ended.code == 0
    assert "honest (first 4)" in ended.stdout
    assert f"- {SMOKE_NOTE}\n" in ended.stdout
    assert list(folder.iterdir()) == []


def test_its_rows_are_not_logged(
    robench: Robench, folder: Path, command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robench.cli.run_command.checked_trackers", lambda names: names)
    ended = robench(*command, "--log-to", "mlflow")
    assert ended.code == 0
    assert "The rows of a smoke run are not logged." in ended.stderr


def test_json_has_the_note_and_the_numbers_of_four_examples(
    robench: Robench, folder: Path, command: tuple[object, ...]
) -> None:
    document = json.loads(robench(*command, "--json").stdout)
    assert document["notes"] == [SMOKE_NOTE]
    assert {cell["num_examples"] for row in document["rows"] for cell in row["cells"].values()} == {SMOKE_EXAMPLES}
    assert document["rows"][0]["limit"] == SMOKE_EXAMPLES


def test_a_dry_run_says_what_would_be_measured(robench: Robench, folder: Path, command: tuple[object, ...]) -> None:
    plan = json.loads(robench(*command, "--dry-run", "--json").stdout)
    assert (plan["shards"], plan["examples"]) == (3, 3 * SMOKE_EXAMPLES)
    assert plan["titles"][0] == "honest / clean / examples 0-3"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--limit", 4), "--limit"),
        (("--limit", 9, "--results", "r", "--keep-adversarial", "float16"), "--results and --limit and --keep-advers"),
    ],
)
def test_options_that_contradict_it_are_refused_by_name(
    robench: Robench, folder: Path, command: tuple[object, ...], options: tuple[object, ...], named: str
) -> None:
    ended = robench(*command, *options)
    assert ended.code == 2
    assert f"a smoke run measures 4 examples and keeps none, which contradicts {named}" in ended.stderr
    assert list(folder.iterdir()) == []


def test_variables_do_not_contradict_it(
    robench: Robench, folder: Path, command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RESULTS": "results", "LIMIT": "9", "KEEP_ADVERSARIAL": "float32"}.items():
        monkeypatch.setenv(f"ROBENCH_{name}", value)
    assert "honest (first 4)" in robench(*command).stdout
    assert list(folder.iterdir()) == []


class Broken(nn.Module):
    """Takes batches of any size but the one that a smoke run has."""

    def __init__(self) -> None:
        super().__init__()
        self.tiny = Tiny()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.tiny(images)
        return logits * float("nan") if len(images) == SMOKE_EXAMPLES else logits


class TestPython:
    def test_a_model_in_memory_goes_through_in_one_line(self, folder: Path, small_suite: Callable[..., Path]) -> None:
        report = package.run(small_suite(), {"mine": Tiny()}, smoke=True, device="cpu")
        assert report.is_complete
        assert report.notes == (SMOKE_NOTE,)
        assert list(folder.iterdir()) == []

    def test_modules_without_a_digest_go_through_by_their_names(
        self, folder: Path, small_suite: Callable[..., Path]
    ) -> None:
        one, other = Tiny(), Tiny()
        one.register_forward_hook(lambda _module, _images, logits: logits)
        other.register_forward_hook(lambda _module, _images, logits: logits * float("nan"))
        report = package.run(small_suite(), {"one": one, "other": other}, smoke=True, device="cpu")
        assert [any(cell.missing for cell in row.cells.values()) for row in report.rows] == [False, True]
        assert list(folder.iterdir()) == []

    def test_what_fails_is_in_the_notes(self, folder: Path, small_suite: Callable[..., Path]) -> None:
        report = package.run(small_suite(), {"mine": Broken()}, smoke=True, device="cpu")
        assert not report.is_complete
        assert any("1 shard failed; first error: " in note for note in report.rows[0].notes)
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize(
        "options", [{"results": "results"}, {"limit": 4}, {"keep_adversarial": "float32"}], ids=lambda each: str(each)
    )
    def test_options_that_contradict_it_are_refused_by_name(
        self, folder: Path, small_suite: Callable[..., Path], options: dict[str, Any]
    ) -> None:
        with pytest.raises(UsageError, match=f"contradicts {next(iter(options))}; leave out one of them"):
            package.run(small_suite(), "digits-vit", smoke=True, **options)
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize("suite", ["digits-adv", "digits-shift", pytest.param("digits-c", marks=pytest.mark.slow)])
    def test_shipped_suites_have_all_their_numbers(self, folder: Path, suite: str) -> None:
        report = package.run(suite, {"mine": Tiny()}, smoke=True, device="cpu")
        assert all(cell.missing == 0 for cell in report.rows[0].cells.values())


class TestRequest:
    def request(self, **options: Any) -> RunRequest:
        return smoke_request(RunRequest(suites=(find_suite("digits-adv"),), checkpoints=(), **options))

    def test_one_process_measures_unless_workers_are_asked_for(self) -> None:
        assert self.request().workers == 1
        assert self.request(workers=3).workers == 3
        assert self.request(executor="processes").workers is None
        assert self.request(shard_timeout=9.0).workers is None
        assert self.request(executor="serial").workers is None

    def test_the_suite_is_cut_to_one_small_batch_and_keeps_its_seed(self) -> None:
        asked, suite = self.request(seed=7), find_suite("digits-adv")
        (cut,) = asked.suites
        assert (cut.batch_size, cut.batches_per_shard, cut.audit, asked.limit, asked.audit) == (4, 1, False, 4, False)
        assert (cut.conditions, cut.columns, cut.seed, asked.seed) == (suite.conditions, suite.columns, 0, 7)
