"""Command ``robench``: its subcommands are imported when called, so that help needs no torch.

Exit codes: 0 ok; 1 failures; 2 usage or configuration; 3 internal error; 4 data or weights missing or with a wrong
checksum; 75 given up on SIGUSR1; 130 interrupted; 141 the reader of stdout is gone; 143 terminated.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from robench.cli.terminal import OutputError, check_output, guarded_streams, route_messages, say
from robench.core.errors import RobenchError, did_you_mean
from robench.core.memory import keep_freed_memory
from robench.core.standard_output import divert_at_exit

INTERNAL_ERROR = 3
# EX_TEMPFAIL of sysexits.h: the same command goes on later.
GIVEN_UP = 75
INTERRUPTED = 130
TERMINATED = 143
# Shells ask for completions with it.
_COMPLETION = "_ROBENCH_COMPLETE"
_SILENT_TRACKER = "ignore:resource_tracker:UserWarning"

# Maps names to one line of help; each is in the module robench.cli.<name>_command as `command`.
COMMANDS = {
    "run": "Measure models under suites and print the leaderboard.",
    "submit": "Measure in an array of Slurm jobs, then write the tables.",
    "transfer": "Score each model's adversarial examples on every other model.",
    "strength": "Compare attacks: optimality, distances and costs of each.",
    "rescore": "Score a submission's adversarial examples again.",
    "audit": "Check whether a model's robustness is reliable.",
    "report": "Print the leaderboard of a suite from stored results.",
    "explain": "Explain a model's results: attacks, flags, failures, single examples.",
    "leaderboard": "Write one table over suites: a page, or Markdown, CSV, JSON, LaTeX.",
    "card": "Write a Hugging Face model card of a model's results.",
    "figure": "Draw figures for papers: budgets, corruptions, training, seeds.",
    "compare": "Compare two models, or several with a control, on the same examples.",
    "baseline": "Write a file that later results are checked against.",
    "check": "Check results against a baseline.",
    "export": "Write results as tidy tables (CSV, Parquet), or images before and after an attack.",
    "view": "Write a page of examples before and after attacks, with filters.",
    "table": "Print papers' tables with the measured numbers and verdicts.",
    "reproduce": "Train and measure what papers' tables need, and print them.",
    "cost": "Count and measure what models cost: parameters, multiply-adds, seconds, memory.",
    "analyse": "Analyse attention inside models, on clean or attacked examples.",
    "list": "List models, suites, or plug-ins of a family.",
    "show": "Show everything known about one of them.",
    "validate": "Check suite, registry and leaderboard files; list all problems.",
    "schema": "Print the JSON Schema of suite, registry or leaderboard files, for editors.",
    "status": "Show how much of each suite is measured.",
    "store": "Verify, merge and tidy results folders.",
    "doctor": "Check the installation and give advice.",
    "data": "List, verify and unpack datasets.",
    "backends": "List libraries of attacks; install TextAttack.",
    "train": "Train models of the registry.",
    "new": "Write the files of a working plug-in, such as an attack.",
    "import": "Convert a language model of its authors into safetensors.",
    "timm": "Run a timm script with the models of the registry.",
}
# Commands ``NAME_command`` in the module of another command.
BESIDE = {
    "audit": "explain",
    "backends": "doctor",
    "baseline": "check",
    "compare": "check",
    "leaderboard": "report",
    "rescore": "transfer",
    "schema": "validate",
    "show": "list",
    "status": "store",
}


class LazyGroup(click.Group):
    """Group of commands that knows their names and imports a command only when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command, or suggest a similar name."""
        if cmd_name not in COMMANDS:
            ctx.fail(f"No such command {cmd_name!r}.{did_you_mean(cmd_name, COMMANDS)}")
        module = import_module(f"robench.cli.{BESIDE.get(cmd_name, cmd_name)}_command")
        command: click.Command = getattr(module, f"{cmd_name}_command", module.command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands without importing any of them, and the options of the group."""
        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' lines without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="robench", prog_name="robench")
def cli() -> None:
    """Measure the robustness of attention variants, and print it as leaderboards.

    \b
    robench run --suite digits-adv --model digits-vit --model digits-rpc-symvit
    robench report --suite digits-adv --format latex

    Every option can be given as an environment variable, as its help says. Exit codes: 0 ok, 1 failures, 2 usage or
    configuration, 3 internal error, 4 data or weights missing or of the wrong digest, 75 given up on SIGUSR1, 130
    interrupted (Ctrl-C), 141 the reader of stdout is gone, 143 terminated.
    """  # noqa: D301  # click keeps the lines after a real \b as they are


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command like Ctrl-C but with its own exit code."""


class GivenUp(KeyboardInterrupt):
    """SIGUSR1, by which a batch system announces the time limit: a command ends at once and can go on later."""


# Exit code and first words of the last message, by the error that ended a command.
_ENDINGS: dict[type[BaseException], tuple[int, str]] = {
    GivenUp: (GIVEN_UP, "Stopped by SIGUSR1; shards under way are dropped."),
    Terminated: (TERMINATED, "Terminated."),
}


def main() -> NoReturn:
    """Run the command line and end with its exit code."""
    if os.environ.get(_COMPLETION):
        # Click answers the shell, on streams of its own.
        sys.exit(cli.main(prog_name="robench"))
    keep_freed_memory()
    with guarded_streams(), _signals_raised():
        route_messages()
        _let_trackers_clean_up_silently()
        code = _exit_code()
    # All output is written; exit functions registered by a model are not run.
    divert_at_exit()
    if code == GIVEN_UP:
        # The interpreter takes seconds to take torch down, which a time limit may not have.
        os._exit(code)
    sys.exit(code)


def _exit_code() -> int:
    code = _code_of_command()
    try:
        check_output()
    except OutputError as error:
        if error.lines:
            _say_error(error)
        # An interruption or a usage error takes precedence over lost output.
        return error.exit_code if code in (0, 1) else code
    return code


def _code_of_command() -> int:
    try:
        result = cli.main(prog_name="robench", standalone_mode=False)
    except click.ClickException as error:
        _say_wrong_use(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        cause = error.__cause__ or error
        code, how = _ENDINGS.get(type(cause), (INTERRUPTED, "Interrupted."))
        # A command that stores results adds a note on them.
        say(" ".join([how, *getattr(cause, "__notes__", ())]))
        return code
    except RobenchError as error:
        _say_error(error)
        return error.exit_code
    except Exception as error:
        _say_internal(error)
        return INTERNAL_ERROR
    return result if isinstance(result, int) else 0


def _say_error(error: RobenchError) -> None:
    first, *others = error.lines or ("",)
    say(f"Error: {first}", *others)


def _say_wrong_use(error: click.ClickException) -> None:
    """Print click's message about wrong arguments, as click does."""
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(*message.split("\n"))
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        say(*error.ctx.get_usage().split("\n"), f"Try '{error.ctx.command_path} --help' for help.", "")
    # The choices listed for a missing argument are robench's own, one per line.
    is_own = isinstance(error, click.MissingParameter)
    first, *others = message.expandtabs(4).split("\n") if is_own else [message]
    say(f"Error: {first}", *others)


def _say_internal(error: Exception) -> None:
    if os.environ.get("ROBENCH_DEBUG"):
        say(*"".join(traceback.format_exception(error)).splitlines())
    place = traceback.extract_tb(error.__traceback__)[-1]
    say(
        f"Internal error: {type(error).__name__}: {error} ({place.filename}:{place.lineno}). This is a fault of "
        "robench; please report it with the output of the same command under ROBENCH_DEBUG=1."
    )


@contextmanager
def _signals_raised() -> Iterator[None]:
    """Raise on SIGTERM and SIGUSR1, like on Ctrl-C, so that processes and shared resources are cleaned up.

    After the first SIGUSR1 further ones are ignored, also while the interpreter ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    give_up = _GiveUp()
    on_sigterm = signal.signal(signal.SIGTERM, _raise_terminated)
    on_sigusr1 = signal.signal(signal.SIGUSR1, give_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, on_sigterm)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN if give_up.is_raised else on_sigusr1)


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


class _GiveUp:
    """Signal handler that raises ``GivenUp`` once: a batch system and its script may both send the signal."""

    def __init__(self) -> None:
        self.is_raised = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.is_raised:
            self.is_raised = True
            raise GivenUp


def _let_trackers_clean_up_silently() -> None:
    """Prevent Python's resource tracker from warning about semaphores.

    Workers in the middle of a shard are killed when a run is stopped twice, on purpose. The tracker removes the shared
    resources of their decoding processes, and then warns the author of the program.
    """
    settings = os.environ.get("PYTHONWARNINGS", "")
    if _SILENT_TRACKER not in settings:
        # The last one takes precedence.
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [settings, _SILENT_TRACKER]))
