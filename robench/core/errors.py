"""Every error that robench raises on purpose, and the exit code each ends a command with.

RobenchError                     1  something could not be measured or kept
├── UsageError                   2  the request itself cannot be met (no such device, no such file)
├── DeclarationError             2  a suite, registry or mapping says something impossible
│   ├── UnknownNameError         2  it names something that nobody declared
│   └── PluginError              2  it names a plug-in of somebody else's that is broken
├── MissingDataError             4  a dataset is not where it was looked for
├── WeightsError                 4  weights are missing, or are not what the registry says
├── IncomparableError            4  results are not of the same data, protocol or versions
├── ExampleError                 1  one example of a dataset cannot be read
├── ContractError                1  a model, dataset or perturbation broke its promise
│   └── BudgetExceededError      1  a perturbation left its threat model
├── StoreError                   1  a record could not be kept
│   └── StoreUnwritableError     2  the results folder cannot be written at all
└── IncompleteError              1  a number was asked for before all of its shards were in

A message says what was met, where, what was wanted and what to do.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class RobenchError(Exception):
    """Base of all errors that robench raises on purpose.

    Its arguments are the lines of the message: a line break inside one of them came with a name or from a library, and
    is escaped where the message is printed.
    """

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of the message."""
        return tuple(map(str, self.args))


class UsageError(RobenchError):
    """The request cannot be met on this machine: no such device, no such file."""

    exit_code = 2


class DeclarationError(RobenchError):
    """A declaration says something impossible; the message gives file, path and what was wanted.

    Attributes:
        num_problems: problems that were found, of which the message may list the first alone.
    """

    exit_code = 2

    def __init__(self, *lines: str, num_problems: int = 1) -> None:
        super().__init__(*lines)
        self.num_problems = num_problems


class UnknownNameError(DeclarationError):
    """A declaration names something that nobody declared."""

    def __init__(self, noun: str, name: str, known: Iterable[str], advice: str = "") -> None:
        super().__init__(f"unknown {noun} {name!r}.{did_you_mean(name, known)}{' ' + advice if advice else ''}")


class PluginError(DeclarationError):
    """A plug-in of another distribution is broken; the message names both, and what is to be done."""


class MissingDataError(RobenchError):
    """A dataset is not where it was looked for."""

    exit_code = 4


class WeightsError(RobenchError):
    """Weights are missing, unreadable, unsafe, or not what the registry says."""

    exit_code = 4


class IncomparableError(RobenchError):
    """Results are not of the same data, protocol or versions, so that comparing them would say nothing."""

    exit_code = 4


class ExampleError(RobenchError):
    """One example of a dataset cannot be read; the message names its file."""


class ContractError(RobenchError):
    """A model, dataset or perturbation broke its promise (shape, range, finite values)."""


class BudgetExceededError(ContractError):
    """A perturbation returned an input outside its threat model."""


class StoreError(RobenchError):
    """A record could not be kept, for example because the disk is full."""


class StoreUnwritableError(StoreError):
    """The results folder cannot be written at all."""

    exit_code = 2


class IncompleteError(RobenchError):
    """A number was asked for before all of its shards were in."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence, with a leading space, that points from a wrong name to the known ones.

    Names in parts (``imagenet-c/snow/1``) are shown as one family.

    >>> did_you_mean("pgdd", ["fgsm", "pgd"])
    " Did you mean 'pgd'? Known: fgsm, pgd."
    """
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    shown = dict.fromkeys(_family(each, known) for each in known)
    return f"{hint} Known: {', '.join(shown)}." if known else f"{hint} None are declared."


MESSAGE_LENGTH = 2000


def described(error: BaseException) -> str:
    """Return the message of an error, with its type unless robench raised it; at most some 2,000 characters.

    Errors may be of anybody's making: their own ``__str__`` may raise, or return megabytes.
    """
    try:
        text = str(error)
    except BaseException as another:  # __str__ is code of a model's author, like all that led here
        text = f"(its message cannot be shown: __str__ raised {type(another).__name__})"
    text = shortened(text)
    return text if isinstance(error, RobenchError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def shortened(text: str, length: int = MESSAGE_LENGTH) -> str:
    """Leave out the middle of a text that is longer than ``length``, and escape what no file can hold.

    >>> shortened("abcdefghij", 4)
    'ab [... 6 characters left out ...] ij'
    """
    # A subclass of str may do anything when it is asked for its length.
    text, half = str.__str__(text), length // 2
    if (left_out := len(text) - 2 * half) > length % 2:
        text = f"{text[:half]} [... {left_out} characters left out ...] {text[-half:]}"
    # Half of a surrogate pair, say.
    return text.encode("utf-8", "backslashreplace").decode()


def _family(name: str, known: Iterable[str]) -> str:
    """Return what a name is shown as beside a hundred others: one in parts as its family."""
    first, _, rest = name.partition("/")
    if first in known:
        return first
    return f"{first}/..." if "/" in rest else name
