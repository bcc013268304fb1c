"""The ``robench`` command: its subcommands are imported when they are called, so that help needs no torch.

Exit codes: 0 ok; 1 failures; 2 usage or configuration; 3 internal error; 4 data or weights missing or of the wrong
digest; 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from importlib import import_module
from typing import NoReturn

import click

from robench.core.errors import RobenchError, did_you_mean

INTERNAL_ERROR = 3
INTERRUPTED = 130

# Name to one line of help; each lives in the module robench.cli.<name>_command as `command`.
COMMANDS = {
    "run": "Measure models under suites and print the leaderboard.",
    "transfer": "Score each model's adversarial examples on every other model.",
    "audit": "Check whether a model's robustness can be believed.",
    "report": "Print the leaderboard of a suite from kept results.",
    "list": "List models, suites, attacks, datasets or attentions.",
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
    configuration, 3 internal error, 4 data or weights missing or of the wrong digest, 130 interrupted.
    """  # noqa: D301  # click keeps the lines after a real \b as they are


def main() -> NoReturn:
    """Run the command line and end with its exit code."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(OnceEach())
    logger = logging.getLogger("robench")
    logger.handlers = [handler]
    sys.exit(_exit_code())


class OnceEach(logging.Filter):
    """Lets each message through once: a dataset is opened for the checks, and again by whoever measures."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is new."""
        message = record.getMessage()
        is_new = message not in self._said
        self._said.add(message)
        return is_new


def _exit_code() -> int:
    try:
        result = cli.main(prog_name="robench", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted. What was kept is safe; the same command goes on from there.", err=True)
        return INTERRUPTED
    except RobenchError as error:
        click.echo(f"Error: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output left (`robench report | head`); that is its right. Nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        _show_internal(error)
        return INTERNAL_ERROR
    return result if isinstance(result, int) else 0


def _show_internal(error: Exception) -> None:
    if os.environ.get("ROBENCH_DEBUG"):
        traceback.print_exception(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    click.echo(
        f"Internal error: {type(error).__name__}: {error} ({place.filename}:{place.lineno}). This is a fault of "
        "robench; please report it with the output of the same command under ROBENCH_DEBUG=1.",
        err=True,
    )
