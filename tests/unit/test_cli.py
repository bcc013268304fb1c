"""The command line: help, lists, exit codes, and progress that stays out of stdout."""

import json
import logging
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from conftest import MeasuredStore, Robench

from examples import SHARD, failure_of, record_of
from robench.cli.main import COMMANDS, GivenUp, cli
from robench.cli.progress import WatchedRun, has_kept, progress_shown, training_shown
from robench.cli.run_command import _say_how_it_ended, kept_in
from robench.cli.terminal import OnceEach, say
from robench.core.errors import RobenchError, WeightsError
from robench.core.records import Failure, Record
from robench.declare import parse_suite
from robench.executors import SerialExecutor
from robench.scheduling import Progress
from robench.scheduling.display import ProgressLines
from robench.store import FolderStore
from robench.training.base import EpochReport, StepReport

RECORD = record_of(SHARD.header)
FAILURE = failure_of(SHARD.header, "no luck")


class TestHelp:
    def test_every_command_has_help_that_says_its_variables(self, robench: Robench) -> None:
        helps = {name: robench(name, "--help") for name in COMMANDS}
        assert {ended.code for ended in helps.values()} == {0}
        assert all(ended.stdout.startswith("Usage: robench") for ended in helps.values())
        assert "ROBENCH_WORKERS" in helps["run"].stdout
        assert "ROBENCH_DATA" in helps["run"].stdout

    def test_every_option_has_a_variable_of_its_own(self) -> None:
        for name in COMMANDS:
            command = cli.get_command(CliRunner().isolation, name)  # type: ignore[arg-type]
            assert command is not None
            options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
            variables = [parameter.envvar for parameter in options]
            assert all(str(variable).startswith("ROBENCH_") for variable in variables), (name, variables)
            assert len(set(variables)) == len(variables)

    def test_the_overview_names_every_command_in_one_line(self, robench: Robench) -> None:
        text = robench("--help").stdout
        assert all(re.search(rf"^  {name} +\S", text, re.MULTILINE) for name in COMMANDS)

    def test_python_dash_m_is_the_same_program(self) -> None:
        command = [sys.executable, "-m", "robench", "--version"]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ended.stdout.startswith("robench, version ")


class TestList:
    @pytest.mark.parametrize(
        ("kind", "some"),
        [
            ("models", {"digits-vit", "deit-tiny", "rpc-symvit"}),
            ("suites", {"digits-adv", "imagenet-adv"}),
            ("attacks", {"clean", "uniform-noise", "fgsm", "pgd"}),
            ("datasets", {"digits", "imagenet-1k"}),
            ("attentions", {"softmax", "symmetric", "rpc"}),
            ("metrics", {"top1_accuracy", "mean_corruption_error"}),
        ],
    )
    def test_json_and_text_have_the_same_names(self, robench: Robench, kind: str, some: set[str]) -> None:
        entries = json.loads(robench("list", kind, "--json").stdout)
        names = [entry["name"] for entry in entries]
        assert some <= set(names)
        assert len(set(names)) == len(names)
        assert all(entry["summary"] for entry in entries)
        lines = robench("list", kind, "--all").stdout.splitlines()[1:]
        assert [line.split()[0] for line in lines] == names
        assert "\\n" not in "".join(lines)

    def test_a_registry_file_adds_its_models(self, robench: Robench, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text(
            "checkpoints:\n  mine:\n    architecture: {backbone: python, target: 'a.b:c'}\n"
            "    weights: {uri: w.pth, sha256: null}\n"
            "    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}\n"
        )
        names = [entry["name"] for entry in json.loads(robench("list", "models", "--registry", path, "--json").stdout)]
        assert names[-1] == "mine"

    def test_attacks_show_their_fields_with_defaults(self, robench: Robench) -> None:
        entries = {entry["name"]: entry for entry in json.loads(robench("list", "attacks", "--json").stdout)}
        fields = entries["pgd"]["fields"]
        assert fields["num_steps"] == {"type": "int", "required": True}
        assert fields["random_start"] == {"type": "bool", "required": False, "default": True}


class TestShow:
    def test_shows_what_the_name_stands_for(self, robench: Robench) -> None:
        (entry,) = json.loads(robench("show", "rpc-symvit", "--json").stdout)
        assert entry["is_one_of"] == "models"
        assert entry["architecture"]["attention"]["formula"] == "released"
        text = robench("show", "digits-adv").stdout
        assert "epsilon: 8/255" in text
        assert "linf-8/255/robust_accuracy" in text

    def test_a_sweep_is_shown_as_files_have_it(self, robench: Robench) -> None:
        (entry,) = json.loads(robench("show", "sweep", "--json").stdout)
        assert entry["fields"]["epsilons"] == {"type": "list of fraction", "required": True}
        assert set(entry["fields"]) == {"epsilons", "carry"}
        # The example is read as one.
        example = yaml.safe_load(entry["example"])
        conditions = [{"name": "clean"}, {"name": "swept", "perturbation": example}]
        suite = {"name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 8, "conditions": conditions}
        assert len(parse_suite({**suite, "metrics": ["top1_accuracy"]}).conditions[1].perturbation.at_budgets) == 3

    @pytest.mark.parametrize("kind", ["attacks", "corruptions", "attentions", "backbones", "residuals", "trainings"])
    def test_types_of_fields_are_words_of_files(self, robench: Robench, kind: str) -> None:
        entries = json.loads(robench("list", kind, "--json").stdout)
        types = {field["type"] for entry in entries for field in entry.get("fields", {}).values()}
        assert types or kind == "corruptions"
        assert not [each for each in types if re.search(r"robench\.|Literal|Union|Base|tuple|\[", each)]


class TestStatusAndDoctor:
    def test_status_counts_what_is_kept_and_missing(self, robench: Robench, measured_store: MeasuredStore) -> None:
        asked = ("status", "--suite", measured_store.suite, "--results", measured_store.results, "--json")
        for options, missing in (((), 0), (("--all-examples",), 450)):
            rows = json.loads(robench(*asked, *options).stdout)
            assert {row["model"] for row in rows} == set(measured_store.models)
            assert {(row["kept"], row["missing"], row["failed_shards"]) for row in rows} == {(150, missing, 0)}
        assert "digits-vit" in robench("status", "--all", "--results", measured_store.results).stdout
        assert {each.provenance.suite for each in FolderStore(measured_store.results).manifests()} == {"small"}

    def test_status_of_an_empty_folder_is_an_empty_array_and_a_failure(self, robench: Robench, tmp_path: Path) -> None:
        ended = robench("status", "--results", tmp_path / "absent", "--json")
        assert (ended.code, json.loads(ended.stdout)) == (1, [])

    def test_doctor_finds_shipped_parts_sound_and_says_what_is_missing(self, robench: Robench, tmp_path: Path) -> None:
        ended = robench("doctor", "--results", tmp_path, "--json")
        checks = {check["name"]: check for check in json.loads(ended.stdout)}
        assert ended.code == 0
        sound = ("torch", "dataset digits", "weights digits-vit", "results")
        assert {checks[name]["state"] for name in sound} == {"ok"}
        assert checks["dataset imagenet-1k"]["state"] == "missing"
        assert "ROBENCH_DATA" in checks["dataset imagenet-1k"]["message"]
        ready, missing, between, *details = robench("doctor", "--results", tmp_path).stdout.splitlines()
        assert (ready, between) == ("Ready: all that robench ships works.", "")
        num_missing = sum(name.startswith("dataset ") and each["state"] == "missing" for name, each in checks.items())
        said = rf"Missing, and needed only by .*: {num_missing} datasets, weights of [0-9]+ models\."
        assert re.fullmatch(said, missing)
        assert details[0].startswith("ok       python: ")

    def test_doctor_fails_where_a_part_of_its_own_is_broken(
        self, robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(checkpoint: Any) -> None:
            raise WeightsError("gone")

        monkeypatch.setattr("robench.models.loading.resolve", broken)
        ended = robench("doctor", "--results", tmp_path)
        assert ended.code == 1
        assert ended.stdout.startswith("Not ready: weights digits-vit, weights digits-vit@1, ")
        assert "broken   weights digits-vit: gone" in ended.stdout
        assert re.search(r"missing  weights of \d+ models: .*deit-tiny.*robench show NAME", ended.stdout)


class TestExitCodes:
    @pytest.mark.parametrize(
        ("error", "code", "text"),
        [
            (RobenchError("a message"), 1, "Error: a message"),
            (WeightsError("a message"), 4, "Error: a message"),
            (KeyboardInterrupt(), 130, "Interrupted"),
            (ZeroDivisionError("oops"), 3, "Internal error: ZeroDivisionError: oops"),
        ],
    )
    def test_errors_become_codes_and_messages_on_stderr(
        self, robench: Robench, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, text: str
    ) -> None:
        def fail(**options: object) -> None:
            raise error

        monkeypatch.setattr(cli, "main", fail)
        ended = robench("list", "models")
        assert (ended.code, ended.stdout) == (code, "")
        assert text in ended.stderr

    def test_a_message_is_shown_once(self) -> None:
        seen = OnceEach()
        records = [logging.LogRecord("robench", 30, "", 0, text, None, None) for text in ("a", "b", "a")]
        assert [seen.filter(record) for record in records] == [True, True, False]


def progress(num_done: int, result: Record | Failure | None = None, num_kept_before: int = 0) -> Progress:
    return Progress(num_shards=4, num_kept_before=num_kept_before, num_done=num_done, num_failed=0, result=result)


class TestProgress:
    def test_without_a_terminal_there_is_a_first_and_a_last_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        with progress_shown(4) as on_progress:
            assert isinstance(on_progress, ProgressLines)
            on_progress(progress(0))
            for done in range(1, 5):
                on_progress(progress(done, RECORD))
        captured = capsys.readouterr()
        assert captured.out == ""
        first, last = captured.err.splitlines()
        assert first == "0 of 4 shards"
        assert re.fullmatch(r"4 of 4 shards \d+ examples/s", last)

    def test_the_time_left_is_shown_once_it_is_known(self, capsys: pytest.CaptureFixture[str]) -> None:
        for found, shown in ((None, "1 of 4 shards"), (18.2, "1 of 4 shards about 18 s left")):
            ProgressLines(say, 0)(replace(progress(1), seconds_left=found))
            assert capsys.readouterr().err.strip() == shown
        ProgressLines(say, 0)(replace(progress(4), seconds_left=18.2))
        assert capsys.readouterr().err.strip() == "4 of 4 shards"

    def test_a_training_says_where_it_resumes_and_how_far_it_is_within_an_epoch(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        with training_shown("tiny") as shown:
            step = StepReport(epoch=3, num_epochs=4, num_done=500, num_examples=1000, is_resumed=True)
            shown.on_step(step)
            for seconds, num_done in ((1.0, 600), (15.0, 700), (21.0, 800)):
                clock[0] = seconds
                shown.on_step(replace(step, num_done=num_done, loss_nats=lambda: 1.5, is_resumed=False))
            shown.on_epoch(EpochReport(epoch=4, num_epochs=4, loss_nats=1.25, examples_per_second=10.0))
        assert capsys.readouterr().err.splitlines() == [
            "training tiny resumes at epoch 3 of 4, after 500 of 1,000 examples",
            "training tiny: epoch 3 of 4, 600 of 1,000 examples, loss 1.500 nats, the time left is not known yet",
            "training tiny: epoch 3 of 4, 800 of 1,000 examples, loss 1.500 nats, 10 examples/s, about 2 min left",
            "training tiny: epoch 4 of 4, loss 1.250 nats, 10 examples/s",
        ]

    def test_failures_are_told_at_once_and_kept_shards_count(self, capsys: pytest.CaptureFixture[str]) -> None:
        ProgressLines(say, 0)(progress(1, FAILURE))
        assert "failed: m / pgd / examples 0-99: no luck" in capsys.readouterr().err
        ProgressLines(say, 0)(progress(0, num_kept_before=4))
        assert capsys.readouterr().err == "4 of 4 shards\n"

    def test_on_a_terminal_a_bar_shows_shards_rate_and_failures(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        with progress_shown(4) as on_progress:
            assert not isinstance(on_progress, ProgressLines)
            on_progress(progress(0))
            on_progress(progress(1, RECORD))
            on_progress(progress(2, FAILURE))
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "no luck" in captured.err


@pytest.mark.parametrize(("done", "failed", "kept"), [(0, 0, False), (1, 1, False), (2, 1, True)])
def test_an_interrupt_says_that_results_are_kept_only_where_there_are_some(
    capsys: pytest.CaptureFixture[str], done: int, failed: int, kept: bool
) -> None:
    progress = Progress(num_shards=3, num_kept_before=0, num_done=done, num_failed=failed)
    _say_how_it_ended(progress, is_interrupted=True, smoke=False)
    assert ("What was measured is kept" in capsys.readouterr().err) == kept
    assert ("what was measured is kept" in kept_in(Path("r"), has_kept(progress))) == kept


def test_what_was_refused_is_not_said_to_be_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(num_shards=3, num_kept_before=0, num_done=3, num_failed=3, num_refused=2)
    _say_how_it_ended(progress, is_interrupted=False, smoke=False)
    failed, refused = capsys.readouterr().err.splitlines()
    assert failed == "1 shards failed; the same command tries them again."
    assert refused.startswith("2 shards were refused, as the same command will be")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ((), "Nothing was measured; the same command begins again."),
        # Of a transfer, whose attacks are measured before the scores.
        ((progress(2),), "What was measured is kept; the same command goes on from there."),
    ],
)
def test_an_interruption_while_measuring_says_what_is_kept(before: tuple[Progress, ...], said: str) -> None:
    watch, executor = WatchedRun(), SerialExecutor(lambda shard, following=None: record_of(shard.header))
    watch.filled = dict(zip(["attacking"], before, strict=False))
    with pytest.raises(GivenUp) as caught, watch.watching(executor, 1, 1, "scoring"):
        raise GivenUp
    assert caught.value.__notes__ == [said]
