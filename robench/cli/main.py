"""The ``robench`` command: its subcommands are imported when they are called, so that help needs no torch.

Exit codes: 0 ok; 1 failures; 2 usage or configuration; 3 internal error; 4 data or weights missing or of the wrong
digest; 130 interrupted; 141 the reader of stdout is gone; 143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click

from robench.cli.terminal import OutputError, check_output, guarded_streams, route_messages, say
from robench.core.errors import RobenchError, did_you_mean
from robench.core.standard_output import divert_at_exit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERNAL_ERROR = 3
INTERRUPTED = 130
TERMINATED = 143
_SILENT_TRACKER = "ignore:resource_tracker:UserWarning"

# Name to one line of help; each lives in the module robench.cli.<name>_command as `command`.
COMMANDS = {
    "run": "Measure models under suites and print the leaderboard.",
    "transfer": "Score each model's adversarial examples on every other model.",
    "audit": "Check whether a model's robustness can be believed.",
    "report": "Print the leaderboard of a suite from kept results.",
    "leaderboard": "Write one table over suites: a page, or Markdown, CSV, JSON, LaTeX.",
    "list": "List models, suites, or plug-ins of a family.",
    "show": "Show everything known about one of them.",
    "validate": "Check suite and registry files; list all problems.",
    "status": "Say how much of each suite is measured.",
    "doctor": "Say what this installation can and cannot do.",
    "data": "List, verify and unpack datasets.",
    "train": "Train models of the registry.",
    "timm": "Run a script of timm's with the models of the registry.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command, or say which one may have been meant."""
        if cmd_name not in COMMANDS:
            ctx.fail(f"No such command {cmd_name!r}.{did_you_mean(cmd_name, COMMANDS)}")
        command: click.Command = import_module(f"robench.cli.{cmd_name}_command").command
        return command

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
    configuration, 3 internal error, 4 data or weights missing or of the wrong digest, 130 interrupted (Ctrl-C), 141
    the reader of stdout is gone, 143 terminated.
    """  # noqa: D301  # click keeps the lines after a real \b as they are


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a command as Ctrl-C does, with an exit code of its own."""


def main() -> NoReturn:
    """Run the command line and end with its exit code."""
    with guarded_streams(), _sigterm_raised():
        route_messages()
        _let_trackers_clean_up_silently()
        code = _exit_code()
    # All is said; functions that a model registered for the end of the process have nothing to add to it.
    divert_at_exit()
    sys.exit(code)


def _exit_code() -> int:
    code = _code_of_command()
    try:
        check_output()
    except OutputError as error:
        if error.lines:
            _say_error(error)
        # An interruption or a wrong request says more than the loss of what was printed of it.
        return error.exit_code if code in (0, 1) else code
    return code


def _code_of_command() -> int:
    try:
        result = cli.main(prog_name="robench", standalone_mode=False)
    except click.ClickException as error:
        _say_wrong_use(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        is_terminated = isinstance(error.__cause__ or error, Terminated)
        verb = "Terminated" if is_terminated else "Interrupted"
        say(f"{verb}. What was kept is safe; the same command goes on from there.")
        return TERMINATED if is_terminated else INTERRUPTED
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
    """Say what click finds wrong with the arguments, as click does."""
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(*message.split("\n"))
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        say(*error.ctx.get_usage().split("\n"), f"Try '{error.ctx.command_path} --help' for help.", "")
    # The choices that are named where an argument is missing are robench's own, a line each.
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
def _sigterm_raised() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that processes and what they share are cleared away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


def _let_trackers_clean_up_silently() -> None:
    """Keep Python's resource tracker from warning of semaphores.

    Workers in the middle of a shard are killed when a run is stopped twice, on purpose. The tracker removes what their
    decoding processes shared, and then warns the author of the program.
    """
    settings = os.environ.get("PYTHONWARNINGS", "")
    if _SILENT_TRACKER not in settings:
        # The last one counts most.
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [settings, _SILENT_TRACKER]))
