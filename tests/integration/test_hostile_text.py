"""Texts that strangers write reach no terminal: every command, both streams, and every way in."""

import io
import json
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Ended, Robench

from examples import CHECKPOINT, MEASUREMENT, SHARD, failure_of, outcome_of, record_of
from robench.cli.main import COMMANDS
from robench.cli.progress import progress_shown, training_shown
from robench.core.inert import printable
from robench.core.shard import Shard, ShardHeader
from robench.declare import find_suite
from robench.reports import RENDERERS
from robench.scheduling import Progress
from robench.scheduling.display import ProgressLines
from robench.store import FolderStore
from robench.training.base import EpochReport, StepReport

# Colours, a window title, a cursor, C1 controls, another order, nothing at all, half a character, another line.
VISIBLE = "a\x1b[31m\x1b]0;b\x07\x9b2J\u202e\u2066\u200b\ufeff\r\x08\x7f\u2028\nforged: line"
LONG = f"{VISIBLE}{'x' * 10_000}"
# What a file may be called: a byte that is no UTF-8 is a lone surrogate to Python.
FILE_NAME = "a\x1b[31m\x1b]0;b\x07\u202e\u200b\r\x7f\udc9b\nforged: line"
IN_ARGUMENT = f"{VISIBLE}\ud83d\udc80"


def check(ended: Ended, *, is_json: bool = False) -> Ended:
    """Nothing is obeyed, no line is forged, and it is no fault of robench's."""
    for text in (ended.stdout, ended.stderr):
        shown = text.replace("\n", "")
        assert shown.isprintable(), sorted({repr(each) for each in shown if not each.isprintable()})
        assert not [line for line in text.splitlines() if line.startswith("forged")]
    assert ended.code in (0, 1, 2, 4), ended.stderr
    if is_json:
        json.loads(ended.stdout)
    return ended


RUN = ("run", "--suite", "digits-adv", "--model", "digits-vit")
SUBMIT = ("submit", "--suite", "digits-adv", "--model", "digits-vit", "--jobs", "1", "--dry-run")
# Each command, with foreign text wherever it takes any.
ARGUMENTS: dict[str, list[tuple[str, ...]]] = {
    "run": [
        ("run", "--suite", "T", "--model", "digits-vit"),
        ("run", "--suite", "T/x.yaml", "--model", "digits-vit"),
        ("run", "--suite", "digits-adv", "--model", "T"),
        *((*RUN, name, "T") for name in ("--device", "--limit", "--workers", "--executor", "--seed", "--registry")),
        (*RUN, "--keep-adversarial", "T"),
        (*RUN, "T"),
        (*RUN, "--T"),
        ("run", "--suite", "imagenet-adv", "--model", "rpc-symvit", "--data-root", "T"),
    ],
    "reproduce": [
        ("reproduce", "T", "--dry-run"),
        *(("reproduce", "rpc:1", "--dry-run", name, "T") for name in ("--rows", "--columns", "--seeds", "--registry")),
        *(("reproduce", "rpc:1", "--dry-run", name, "T") for name in ("--device-speed", "--limit", "--results")),
    ],
    "submit": [
        ("submit", "--suite", "T", "--model", "digits-vit", "--jobs", "1", "--dry-run"),
        ("submit", "--suite", "digits-adv", "--model", "T", "--jobs", "T", "--dry-run"),
        *(
            (*SUBMIT, name, "T")
            for name in ("--partition", "--account", "--time", "--mem", "--device", "--python", "--setup", "--results")
        ),
        *((*SUBMIT, name, "T") for name in ("--tables", "--output", "--data-root", "--tables-option")),
        (*SUBMIT, "--sbatch-option=-T"),
    ],
    "strength": [
        ("strength", "--suite", "T", "--model", "digits-vit"),
        ("strength", "--suite", "attackbench-digits", "--model", "T"),
    ],
    "transfer": [
        ("transfer", "--suite", "T", "--condition", "pgd", "--model", "digits-vit"),
        ("transfer", "--suite", "digits-adv", "--condition", "T", "--model", "digits-vit"),
        ("transfer", "--suite", "digits-adv", "--condition", "pgd", "--model", "digits-vit", "--target", "T"),
        ("transfer", "--suite", "digits-adv", "--attack", "T", "--model", "digits-vit"),
        ("transfer", "--suite", "digits-adv", "--condition", "pgd", "--model", "digits-vit", "--figure", "T"),
    ],
    "rescore": [
        ("rescore", "--suite", "T", "--model", "digits-vit"),
        ("rescore", "--suite", "digits-adv", "--model", "T"),
        ("rescore", "--suite", "digits-adv", "--model", "digits-vit", "--condition", "T"),
        ("rescore", "--suite", "digits-adv", "--model", "digits-vit", "--condition", "clean", "--results", "T"),
    ],
    "audit": [
        ("audit", "--model", "T"),
        ("audit", "--model", "digits-vit", "--dataset", "T"),
        ("audit", "--model", "digits-vit", "--epsilon", "T"),
        ("audit", "--model", "digits-vit", "--device", "T"),
    ],
    "report": [
        ("report", "--suite", "T"),
        ("report", "--suite", "T.yaml"),
        ("report", "--suite", "digits-adv", "--model", "T"),
        ("report", "--suite", "digits-adv", "--results", "T"),
        ("report", "--suite", "digits-adv", "--format", "T"),
    ],
    "explain": [
        ("explain", "T", "--suite", "digits-adv"),
        ("explain", "digits-vit", "--suite", "T"),
        ("explain", "digits-vit", "--suite", "digits-adv", "--example", "T", "--picture", "T"),
        ("explain", "digits-vit", "--suite", "digits-adv", "--results", "T"),
    ],
    "store": [
        ("store", "T"),
        ("store", "verify", "--results", "T"),
        ("store", "merge", "T", "--results", "T"),
        ("store", "compact", "--results", "T"),
        ("store", "gc", "--suite", "T", "--results", "."),
    ],
    "compare": [
        ("compare", "T", "digits-vit", "--suite", "digits-adv"),
        ("compare", "digits-vit", "T", "--suite", "T"),
        ("compare", "digits-vit", "T", "--suite", "digits-adv", "--format", "T"),
        ("compare", "T", "T", "--suite", "digits-adv", "--results", "T"),
        ("compare", "T", "digits-vit", "--control", "T", "--seeds", "T", "--suite", "digits-adv"),
    ],
    "baseline": [
        ("baseline", "T"),
        ("baseline", "write", "T", "--suite", "digits-adv", "--model", "T"),
        ("baseline", "write", "T", "--suite", "T", "--model", "digits-vit"),
    ],
    "check": [
        ("check", "--baseline", "T"),
        ("check", "--baseline", "x.py", "--model", "T"),
        ("check", "--baseline", "x.py", "--tolerance", "T"),
    ],
    "table": [("table", "T"), ("table", "rpc:1", "--results", "T"), ("table", "rpc:1", "--format", "T")],
    "analyse": [
        ("analyse", "T"),
        ("analyse", "entropy", "--model", "T", "--dataset", "digits"),
        ("analyse", "entropy", "--model", "digits-vit", "--dataset", "T"),
        ("analyse", "entropy", "--model", "digits-vit", "--suite", "T"),
        ("analyse", "entropy", "--model", "digits-vit", "--suite", "digits-adv", "--condition", "T"),
        ("analyse", "entropy", "--model", "digits-vit", "--dataset", "digits", "--set", "T"),
        ("analyse", "entropy", "--model", "digits-vit", "--dataset", "digits", "--device", "T"),
        ("analyse", "entropy", "--model", "digits-vit", "--dataset", "digits", "--epochs", "T"),
        ("figure", "analysis", "T", "--output", "x.svg"),
        ("figure", "paper", "T", "--output", "x"),
    ],
    "cost": [
        ("cost", "T"),
        ("cost", "digits-vit", "--registry", "T"),
        ("cost", "digits-vit", "--counts-only", "--input-shape", "T"),
        ("cost", "digits-vit", "--ratio-to", "T"),
        ("cost", "digits-vit", "--device", "T"),
        ("cost", "digits-vit", "--protocol", "T"),
    ],
    "view": [
        ("view", "--suite", "T", "--model", "digits-vit", "--output", "view.html"),
        ("view", "--suite", "smoke", "--dataset", "T", "--model", "digits-vit", "--output", "view.html"),
        ("view", "--suite", "digits-adv", "--model", "T", "--output", "view.html"),
        ("view", "--suite", "digits-adv", "--model", "digits-vit", "--condition", "T", "--output", "view.html"),
    ],
    "card": [("card", "T"), ("card", "digits-vit", "--results", "T"), ("card", "digits-vit", "--output", "T/T")],
    "leaderboard": [
        ("leaderboard", "--suite", "T"),
        ("leaderboard", "--suite", "digits-adv", "--model", "T"),
        ("leaderboard", "--suite", "digits-adv", "--results", "T"),
        ("leaderboard", "--suite", "digits-adv", "--format", "T"),
        ("leaderboard", "--suite", "digits-adv", "--output", "T/T"),
    ],
    "export": [
        ("export", "--suite", "T", "--output", "T"),
        ("export", "--suite", "digits-adv", "--model", "T", "--output", "x"),
        ("export", "--suite", "digits-adv", "--results", "T", "--output", "T/T"),
        ("export", "--suite", "digits-adv", "--format", "T", "--output", "x"),
    ],
    "figure": [
        ("figure", "T"),
        ("figure", "budget", "--suite", "T", "--output", "x.svg"),
        ("figure", "seeds", "--suite", "digits-adv", "--model", "T", "--output", "x.svg"),
        ("figure", "seeds", "--suite", "digits-adv", "--results", "T", "--panel", "T", "--output", "x.svg"),
        ("figure", "corruptions", "--suite", "digits-adv", "--output", "T"),
        ("figure", "training", "--model", "T", "--output", "T.svg"),
        ("figure", "episode", "--suite", "pendulum", "--model", "T", "--condition", "T", "--output", "x.svg"),
        ("figure", "training", "--history", "T", "--output", "x.svg"),
    ],
    "list": [("list", "T"), ("list", "models", "--registry", "T")],
    "show": [("show", "T"), ("show", "pgd", "--registry", "T")],
    "schema": [("schema", "T")],
    "validate": [("validate", "T"), ("validate", "T", "--json")],
    "status": [("status", "--suite", "T"), ("status", "--suite", "digits-adv", "--results", "T", "--failures")],
    "doctor": [("doctor", "--data-root", "T"), ("doctor", "--results", "T"), ("doctor", "--registry", "T")],
    "data": [
        ("data", "T"),
        ("data", "verify", "T"),
        ("data", "verify", "imagenet-a", "--data-root", "T"),
        ("data", "verify", "imagenet-c", "--data-root", "T"),
        ("data", "prepare", "T", "--archive", "T", "--data-root", "T"),
        ("data", "prepare", "imagenet-a", "--archive", "T", "--data-root", "T"),
    ],
    "train": [
        ("train", "T"),
        ("train", "digits-vit", "--device", "T"),
        ("train", "deit-tiny", "--data-root", "T", "--output", "T"),
    ],
    "backends": [("backends", "install", "T"), ("backends", "T"), ("backends", "list", "T")],
    "import": [
        ("import", "T", "--model", "T", "--vocabulary", "T", "--output", "T"),
        ("import", "T", "--model", "sotu-lm", "--vocabulary", "T", "--output", "x"),
        ("import", "x.py", "--model", "digits-vit", "--vocabulary", "T", "--output", "T"),
        ("import", "x.py", "--model", "sotu-lm", "--registry", "T", "--vocabulary", "x", "--output", "x"),
    ],
    "new": [("new", "T", "x"), ("new", "attack", "T"), ("new", "attack", "x", "--output", "T")],
    "timm": [("timm", "T"), ("timm", "--registry", "T", "x.py")],
}


def test_every_command_is_visited() -> None:
    assert ARGUMENTS.keys() == COMMANDS.keys()


def check_command(robench: Robench, folder: Path, name: str, text: str) -> None:
    """Check a command in a folder, with foreign text wherever it takes any."""
    (folder / "x.py").write_text("")
    for arguments in ARGUMENTS.get(name, [("T",), ("--T",)]):
        given = [argument.replace("T", text) for argument in arguments]
        if name in ("run", "strength", "transfer"):
            given += ["--results", str(folder / "r")]
        ended = check(robench(*given))
        # What can be no path at all is refused before anything is printed on stdout.
        if "--json" in arguments and ended.stdout:
            json.loads(ended.stdout)


@pytest.mark.parametrize(("name", "text"), [("nonsense", LONG), ("run", IN_ARGUMENT), ("report", LONG)])
def test_what_stands_on_the_command_line(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """``tests/slow`` has the other commands."""
    monkeypatch.chdir(tmp_path)
    check_command(robench, tmp_path, name, text)


@pytest.mark.slow
def test_what_stands_in_variables(robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBENCH_X", FILE_NAME)
    ended = check(robench("doctor", "--results", tmp_path))
    assert printable(FILE_NAME) in ended.stdout
    check(robench("doctor", "--results", tmp_path, "--json"), is_json=True)
    monkeypatch.setenv("ROBENCH_LIMIT", FILE_NAME)
    assert check(robench("report", "--suite", "digits-adv")).code == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / FILE_NAME
    folder.mkdir()
    return folder


@pytest.fixture
def registry(folder: Path) -> Path:
    path = folder / f"{FILE_NAME}.yaml"
    text = json.dumps(VISIBLE)
    path.write_text(
        "checkpoints:\n  mine:\n    architecture: {backbone: python, target: 'a.b:c'}\n"
        f"    weights: {{uri: weights.safetensors, sha256: null, how_to_get: {text}}}\n"
        "    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}\n"
        f"    source: {text}\n    training_data: {text}\n    licence: {json.dumps(LONG)}\n"
    )
    return path


def check_registry(robench: Robench, registry: Path, *arguments: str) -> None:
    """Check a command that reads a registry with hostile text in its name and its fields."""
    folder = registry.parent
    given: tuple[object, ...] = (*arguments, "--registry", registry)
    if arguments[0] in ("run", "doctor"):
        given += ("--results", folder / "r")
    if arguments == ("validate",):
        given = ("validate", registry)
    if arguments == ("timm",):
        script = folder / "script.py"
        script.write_text(f"raise SystemExit({VISIBLE.partition(chr(10))[0]!r})")
        given += (script,)
    check(robench(*given))
    if arguments[0] in ("list", "show", "validate", "doctor"):
        ended = check(robench(*given, "--json"), is_json=True)
        assert arguments[0] not in ("list", "show") or json.dumps(VISIBLE)[1:15] in ended.stdout


class TestFiles:
    """Hostile names of files and folders, and what stands in them."""

    @pytest.mark.parametrize("arguments", [("list", "models"), ("validate",)], ids=" ".join)
    def test_a_registry(self, robench: Robench, registry: Path, arguments: tuple[str, ...]) -> None:
        """``tests/slow`` has the other commands."""
        check_registry(robench, registry, *arguments)

    def test_problems_of_a_suite(self, robench: Robench, folder: Path) -> None:
        path = folder / "suite.yaml"
        key = json.dumps(LONG)
        path.write_text(f"name: {key}\n{key}: 1\nconditions: [{{{key}: {key}}}]\nmetrics: [{key}]\n")
        for arguments in (("validate", path), ("report", "--suite", path), ("status", "--suite", path)):
            assert check(robench(*arguments)).code == 2
        check(robench("validate", path, "--json"), is_json=True)

    def test_a_script_that_raises(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
        from robench.cli.main import main

        script = folder / "script.py"
        script.write_text(f"raise ValueError({VISIBLE!r})")
        monkeypatch.setattr(sys, "argv", ["robench", "timm", str(script)])
        with pytest.raises(SystemExit):
            main()
        shown = capfd.readouterr().err
        assert "ValueError: a\\x1b[31m" in shown
        assert shown.replace("\n", "").isprintable()

    @pytest.mark.parametrize("options", [(), ("--decode",), ("--decode", "--json")], ids=" ".join)
    def test_a_dataset(self, robench: Robench, folder: Path, options: tuple[str, ...]) -> None:
        images = folder / "imagenet-1k" / "val" / "n01440764"
        images.mkdir(parents=True)
        (folder / "imagenet-1k" / "val" / f"n99{FILE_NAME}").mkdir()
        for name, content in ((f"{FILE_NAME}.JPEG", b"\xff\xd8\xff"), (f"0{FILE_NAME}.JPEG", b""), (FILE_NAME, b"")):
            (images / name).write_bytes(content)
        ended = robench("data", "verify", "imagenet-1k", "--data-root", folder, *options)
        assert check(ended, is_json="--json" in options).code == 4
        assert "udc9b" in ended.stdout

    @pytest.mark.parametrize("name", [f"imagenet-a/n01440764/../{FILE_NAME}", f"/{FILE_NAME}", FILE_NAME, LONG])
    def test_an_archive(self, robench: Robench, folder: Path, name: str) -> None:
        path = folder / "a.tar"
        with tarfile.open(path, "w") as archive:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        ended = robench("data", "prepare", "imagenet-a", "--archive", path, "--data-root", folder)
        assert check(ended).code == 4

    def test_a_damaged_record(self, robench: Robench, small_suite: Callable[..., Path], folder: Path) -> None:
        store = FolderStore(folder / "r")
        store.put(record_of())
        # The manifest too, which says that the suite does not need the record.
        for path in (each for each in (folder / "r").rglob("*") if each.is_file()):
            path.write_bytes(b"damaged")
        ended = check(robench("report", "--suite", small_suite(), "--results", folder / "r"))
        assert "is damaged" in ended.stderr

    def test_a_full_results_folder(self, robench: Robench, small_suite: Callable[..., Path], folder: Path) -> None:
        (folder / "r").write_text("a file")
        command = ("run", "--suite", small_suite(), "--model", "digits-vit", "--results", folder / "r")
        assert check(robench(*command)).code == 2


class TestResults:
    """Hostile names and messages in what was kept."""

    @pytest.fixture
    def results(self, small_suite: Callable[..., Path], folder: Path) -> tuple[Path, Path]:
        suite = find_suite(small_suite())
        store = FolderStore(folder / "r")
        for number, condition in enumerate(suite.conditions):
            for checkpoint in (replace(CHECKPOINT, name=VISIBLE), replace(CHECKPOINT, name=LONG, licence="other")):
                changes = {"checkpoint": checkpoint, "condition": condition, "weights_digest": f"{number}" * 64}
                measurement = replace(MEASUREMENT, **changes, batch_size=50)
                header = Shard(measurement=measurement, start=0, stop=50).header
                store.put(self.result(header, is_failure=condition.name == "pgd"))
        return small_suite(), folder / "r"

    def result(self, header: ShardHeader, *, is_failure: bool) -> Any:
        header = replace(header, condition=VISIBLE)
        if is_failure:
            return replace(failure_of(header, LONG), traceback=f"{VISIBLE}\n{VISIBLE}")
        return record_of(header, tuple(outcome_of(f"{number}{VISIBLE}") for number in range(50)))

    def test_report(self, robench: Robench, results: tuple[Path, Path]) -> None:
        suite, folder = results
        for format_name in RENDERERS:
            ended = robench("report", "--suite", suite, "--results", folder, "--limit", 50, "--format", format_name)
            assert check(ended, is_json=format_name == "json").code == 0
            assert "31m" in ended.stdout

    def test_figure(self, robench: Robench, results: tuple[Path, Path], tmp_path: Path) -> None:
        suite, folder = results
        options = ("--suite", suite, "--results", folder, "--limit", 50, "--output", tmp_path / "a.svg")
        assert check(robench("figure", "seeds", *options)).code == 0
        content = (tmp_path / "a.svg").read_text()
        assert "<!-- a\\x1b[31m\\x1b]0;b" in content
        assert content.replace("\n", "").isprintable()
        # Their names are the same where they are truncated.
        assert "… (2) -->" in content
        assert "there is nothing to draw" in check(robench("figure", "budget", *options)).stderr
        assert check(robench("figure", "seeds", *options, "--panel", VISIBLE)).code == 2

    def test_status(self, robench: Robench, results: tuple[Path, Path]) -> None:
        suite, folder = results
        shown = {}
        for option in ("", "--failures", "--json"):
            ended = robench("status", "--suite", suite, "--results", folder, *option.split())
            assert check(ended, is_json=option == "--json").code == 0
            assert "31m" in ended.stdout
            shown[option] = ended.stdout
        assert shown["--failures"].count("  a\\x1b[31m") >= 2
        assert printable(LONG) in shown["--failures"]

    @pytest.mark.parametrize("is_terminal", [False, True])
    def test_progress(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
    ) -> None:
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
        failure = replace(failure_of(replace(SHARD.header, checkpoint=VISIBLE), LONG))
        with progress_shown(1) as on_progress:
            assert isinstance(on_progress, ProgressLines) is not is_terminal
            on_progress(Progress(num_shards=1, num_kept_before=0, num_done=1, num_failed=1, result=failure))
        with training_shown(f"[bold]{VISIBLE}") as training:
            step = StepReport(epoch=1, num_epochs=1, num_done=0, num_examples=9, is_resumed=True)
            training.on_step(step)
            training.on_step(replace(step, num_done=1, loss_nats=lambda: 1.0, is_resumed=False))
            training.on_epoch(EpochReport(epoch=1, num_epochs=1, loss_nats=1.0, examples_per_second=1.0))
        shown = capsys.readouterr().err
        assert "a\\x1b[31m" in shown.replace("\n", "")
        # On a terminal there are the sequences of the bar, and none of these.
        for obeyed in ("\x1b[31m", "\x1b]0;", "\x9b", "\u202e", "\u200b", "\x07", "\x7f"):
            assert obeyed not in shown
        assert not [line for line in shown.splitlines() if line.startswith("forged")]
