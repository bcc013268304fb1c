"""``robench timm``: runs a timm script, or a similar one, with the registry's models as timm models."""

import os
import runpy
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from robench.cli.main import INTERRUPTED
from robench.cli.options import AbsolutePath, registry_option
from robench.cli.terminal import say, unguarded_streams
from robench.core.errors import RobenchError, UsageError
from robench.datasets.user import UserDataset
from robench.declare import find_datasets, read_registries


@click.command("timm", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@registry_option
@click.argument("script", type=AbsolutePath())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(registries: tuple[Path, ...], script: Path, arguments: tuple[str, ...]) -> int:
    """Run the Python file SCRIPT with ARGS, like `python SCRIPT ARGS`.

    Every model of the registry is a timm model there: rpc-symvit is robench_rpc_symvit, with initial weights. `robench
    timm train.py DATA --model robench_rpc_symvit` trains it with timm's own script; options of robench precede SCRIPT.
    Class folders are numbered as robench does: in the order of their text, or of the registry's class_names.
    On several GPUs: `torchrun --nproc-per-node N -m robench timm train.py ...`.
    """
    # pathlib raises for a name that is too long.
    if not os.path.isfile(script):  # noqa: PTH113
        raise UsageError(f"no such file: {script}. SCRIPT is a Python file such as timm's train.py")
    checkpoints = read_registries(registries).values()
    names = [each.class_names for each in find_datasets(registries).values() if isinstance(each, UserDataset)]
    from robench.models.timm_registry import register_in_timm
    from robench.training.class_order import in_robench_order
    from robench.training.folder_images import posterizing_to_black

    register_in_timm(checkpoints)
    orders = [each for each in names if each is not None]
    with _as_main(script, arguments), unguarded_streams(), posterizing_to_black(), in_robench_order(orders):
        return _run(script)


def _run(script: Path) -> int:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            say(*end.code.split("\n"))
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except RobenchError:
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    # Broad because the script is the user's: its errors are displayed as by Python.
    except Exception as error:
        say(*"".join(traceback.format_exception(error)).splitlines())
        return 1
    return 0


@contextmanager
def _as_main(script: Path, arguments: tuple[str, ...]) -> Iterator[None]:
    """Set up arguments, module path and signal handling for the script, like Python does."""
    before = sys.argv, sys.path
    sys.argv = [str(script), *arguments]
    sys.path = [str(script.resolve().parent), *sys.path]
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGUSR1)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        sys.argv, sys.path = before
