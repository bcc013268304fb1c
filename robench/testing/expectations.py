"""Common machinery of contract tests: messages, watched global generators, fresh interpreters."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LONGEST_ERROR = 300
IMPORTS_TORCH = 77  # a status of no other meaning


def require(holds: bool, subject: str, found: str, expected: str) -> None:
    """Raise a message in the common form unless a condition holds.

    Args:
        holds: the condition.
        subject: family and kind of the plug-in, such as ``attack 'pgd'``.
        found: observed behaviour.
        expected: required behaviour.

    Raises:
        AssertionError: the condition does not hold.
    """
    if not holds:
        raise AssertionError(f"{subject} {found}; expected {expected}")


def run_checks(subject: str, checks: Sequence[Callable[..., None]], *arguments: Any) -> None:
    """Call each check with the arguments; an exception of the plug-in counts as a broken contract.

    Any: each family of checks defines its arguments.

    Raises:
        AssertionError: the first promise that is broken.
    """
    for check in checks:
        try:
            check(*arguments)
        except AssertionError:
            raise
        except Exception as error:
            name = check.__name__.replace("_", " ")
            text = str(error).splitlines()[0][:LONGEST_ERROR] if str(error) else "no message"
            message = f"{subject} raised {type(error).__name__} ({text}) in: {name}; expected no exception"
            raise AssertionError(message) from error


def refusal(call: Callable[[], object], *wanted: type[Exception]) -> str | None:
    """Call a function that must raise one of some exceptions; return None if it does, otherwise its behaviour."""
    try:
        call()
    except wanted:
        return None
    except Exception as error:
        return f"raised {type(error).__name__} ({str(error)[:LONGEST_ERROR]})"
    return "raised nothing"


@contextmanager
def watched_generators(subject: str) -> Iterator[None]:
    """Require that the global generators of torch, numpy and random are neither drawn from nor seeded.

    Their states are restored afterwards.

    Raises:
        AssertionError: one of them has another state than before.
    """
    readers: dict[str, Callable[[], str]] = {
        "torch": lambda: str(torch.random.get_rng_state().tolist()),
        "numpy": lambda: str([part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()]),
        "random": lambda: str(random.getstate()),
    }
    states = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        torch.manual_seed(7)
        np.random.seed(7)  # the global generator is what is watched
        random.seed(7)
        before = {name: read() for name, read in readers.items()}
        yield
        moved = [name for name, read in readers.items() if read() != before[name]]
    finally:
        torch.random.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
    require(
        not moved,
        subject,
        f"moves the global random generator of {' and '.join(moved)}",
        "no draw from a global generator and no seed of one",
    )


def require_import_without_torch(subject: str, module: str) -> None:
    """Require that a module imports no torch in a fresh interpreter with the same search path.

    Modules that no other process can import (``__main__``) are skipped.

    Raises:
        AssertionError: it imports torch, or cannot be imported.
    """
    if module == "__main__":
        return
    found = _after_import(module, tuple(sys.path))
    require(
        found == "free",
        subject,
        f"is in module {module}, which {found} in a fresh interpreter",
        "an import without torch: move what computes to a module beside it, named by `implementation`",
    )


@cache
def _after_import(module: str, search_path: tuple[str, ...]) -> str:
    """Return ``free``, or the problem of a module's import."""
    code = (
        f"import sys; sys.path[:] = {list(search_path)!r}\nimport importlib; importlib.import_module({module!r})\n"
        f"sys.exit({IMPORTS_TORCH} if 'torch' in sys.modules else 0)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate()
    if process.returncode == IMPORTS_TORCH:
        return "imports torch"
    lines = errors.strip().splitlines() or ["no message"]
    return f"cannot be imported ({lines[-1][:LONGEST_ERROR]})" if process.returncode else "free"
