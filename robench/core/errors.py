"""Errors that robench raises on purpose, with the exit code of each.

RobenchError                     1  something could not be measured or stored
├── UsageError                   2  the request is impossible (no such device, no such file)
├── DeclarationError             2  a suite, registry or mapping is invalid
│   ├── UnknownNameError         2  it names something undeclared
│   └── PluginError              2  it names a broken third-party plug-in
├── MissingDataError             4  a dataset was not found
├── WeightsError                 4  weights are missing, or differ from the registry's entry
├── IncomparableError            4  results are of other data, another protocol or other versions
├── ContractError                1  a model, dataset or perturbation broke its contract
│   ├── NoGradientError          1  a model has no gradients by its inputs
│   └── BudgetExceededError      1  a perturbation left its threat model
├── StoreError                   1  a record could not be stored
│   └── StoreUnwritableError     2  the results folder cannot be written at all
├── IncompleteError              1  a number was requested before all of its shards were measured
│   └── InapplicableError        1  outcomes of this kind of model cannot have the number
└── ExampleError                 1  one example of a dataset cannot be read

A message states what was found, where, what was expected and what to do.
"""

from collections.abc import Collection, Iterable
from typing import ClassVar

from robench.core.suggestions import closest, nearest


class RobenchError(Exception):
    """Base class of all errors that robench raises on purpose.

    Its arguments are the lines of the message. A line break inside an argument comes from a name or a library and is
    escaped when the message is printed.
    """

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines of the message."""
        return tuple(map(str, self.args))


class UsageError(RobenchError):
    """Impossible request on this machine: no such device, no such file."""

    exit_code = 2


class DeclarationError(RobenchError):
    """Invalid declaration; the message gives file, path and expected value.

    Attributes:
        num_problems: number of problems found; the message may list only the first.
    """

    exit_code = 2

    def __init__(self, *lines: str, num_problems: int = 1) -> None:
        super().__init__(*lines)
        self.num_problems = num_problems


# More known names than these are not listed, but the nearest.
MOST_LISTED = 50
_NEAREST = 5
# Nouns of what 'robench list' lists.
_LISTED = ("dataset", "metric", "model", "suite")


class UnknownNameError(DeclarationError):
    """Name in a declaration that nothing declares."""

    def __init__(self, noun: str, name: str, known: Iterable[str], advice: str = "") -> None:
        hint = did_you_mean(name, known, others=f" 'robench list {noun}s' has all." if noun in _LISTED else "")
        super().__init__(f"unknown {noun} {name!r}.{hint}{' ' + advice if advice else ''}")


class PluginError(DeclarationError):
    """Broken plug-in of another distribution; the message names both and the remedy."""


class MissingDataError(RobenchError):
    """Dataset that is not at the expected location."""

    exit_code = 4


class WeightsError(RobenchError):
    """Weights that are missing, unreadable, unsafe, or different from the registry's entry."""

    exit_code = 4


class IncomparableError(RobenchError):
    """Results are not of the same data, protocol or versions, so that comparing them would say nothing."""

    exit_code = 4


class ExampleError(RobenchError):
    """Example of a dataset that cannot be read; the message names its file."""


class ContractError(RobenchError):
    """Broken contract of a model, dataset or perturbation (shape, range, finite values)."""


class NoGradientError(ContractError):
    """Model whose outputs do not depend on its inputs by operations that torch differentiates."""


class BudgetExceededError(ContractError):
    """Input that a perturbation moved outside its threat model."""


class StoreError(RobenchError):
    """Record that could not be stored, for example because the disk is full."""


class StoreUnwritableError(StoreError):
    """Results folder that cannot be written at all."""

    exit_code = 2


class IncompleteError(RobenchError):
    """Number requested before all of its shards were measured."""


class InapplicableError(IncompleteError):
    """Number that outcomes of this kind of model do not have, however much is measured."""


def did_you_mean(name: str, known: Iterable[str], expected: Collection[str] = (), others: str = "") -> str:
    """Return a sentence, with a leading space, that suggests a known name for a wrong one, or lists the known ones.

    In lists, names with several parts (``imagenet-c/snow/1``) are abbreviated to their family. Of many names the
    nearest five are listed, with the sentence ``others`` on the rest. ``expected`` are the known names that are missing
    where the wrong one was found.

    >>> did_you_mean("pgdd", ["fgsm", "pgd"]), did_you_mean("square", ["fgsm", "pgd"])
    (" Did you mean 'pgd'?", ' Known: fgsm, pgd.')
    """
    known = sorted(known)
    close = closest(name, known, expected)
    if close is not None:
        return f" Did you mean {close!r}?"
    shown = dict.fromkeys(_family(each, known) for each in known)
    if len(shown) > MOST_LISTED:
        return f" The nearest of {len(known):,} are {', '.join(nearest(name, known, _NEAREST))}.{others}"
    return f" Known: {', '.join(shown)}." if known else " None are declared."


MESSAGE_LENGTH = 2000


def described(error: BaseException) -> str:
    """Return the message of an error, with its type unless robench raised it; at most some 2,000 characters.

    Errors may come from third-party code: their ``__str__`` may raise, or return megabytes.
    """
    try:
        text = str(error)
    except BaseException as another:  # __str__ is code of a model's author, like all that led here
        text = f"(its message cannot be shown: __str__ raised {type(another).__name__})"
    text = shortened(text)
    return text if isinstance(error, RobenchError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def shortened(text: str, length: int = MESSAGE_LENGTH) -> str:
    """Remove the middle of a text longer than ``length``, and escape characters that no file can store.

    >>> shortened("abcdefghij", 4)
    'ab [... 6 characters left out ...] ij'
    """
    # A subclass of str may override its length.
    text, half = str.__str__(text), length // 2
    if (left_out := len(text) - 2 * half) > length % 2:
        text = f"{text[:half]} [... {left_out} characters left out ...] {text[-half:]}"
    # For example half of a surrogate pair.
    return text.encode("utf-8", "backslashreplace").decode()


def _family(name: str, known: Iterable[str]) -> str:
    """Abbreviate a name for a long list: the family of a name with several parts."""
    first, _, rest = name.partition("/")
    if first in known:
        return first
    return f"{first}/..." if "/" in rest else name
