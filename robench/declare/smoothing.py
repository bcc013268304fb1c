"""Declaration of a smoothed model: another one under Gaussian noise."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from robench.core.checkpoint import ALPHA, DRAWS, SELECTION, Smoothing
from robench.declarations.base import LARGEST
from robench.declarations.preprocessing import PreprocessingBase
from robench.declare.document import Problem, document_from_python
from robench.declare.fields import values_of
from robench.declare.schema import attempt, construct
from robench.domains import DOMAINS
from robench.tasks import DEFAULT_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothingEntry:
    """Fields of ``core.checkpoint.Smoothing`` in a file.

    Attributes:
        sigma: standard deviation of the noise, in units of the inputs, which are not clipped.
        selection: number of draws that choose the class.
        draws: number of further draws that bound its probability.
        alpha: probability with which a certificate may be wrong.
    """

    sigma: Annotated[Fraction, Gt(0), Le(LARGEST)]
    selection: Annotated[int, Ge(1), Le(LARGEST)] = SELECTION
    draws: Annotated[int, Ge(1), Le(LARGEST)] = DRAWS
    alpha: Annotated[Fraction, Gt(0), Lt(1)] = ALPHA


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothedEntry(SmoothingEntry):
    """Model of a registry that is smoothed, and how.

    Attributes:
        checkpoint: entry of this file or of the shipped registry, ``NAME`` or ``NAME@SEED``.
    """

    checkpoint: str

    @property
    def smoothing(self) -> Smoothing:
        """Return the smoothing that the entry declares."""
        return Smoothing(**values_of(self, "checkpoint"))


def smoothing_problem(task: str, preprocessing: PreprocessingBase, *, coupled: bool) -> str | None:
    """Return why a model cannot be smoothed: votes need classes, noise numbers, draws independent rows; else None."""
    domain = DOMAINS.get(preprocessing.domain)
    if task != DEFAULT_TASK:
        return f"must be a classifier, whose votes are counted; it is for {task}"
    if domain is not None and not domain.is_real_valued:
        return f"must be of real-valued inputs, to which noise can be added; its inputs are {domain.name}"
    if coupled:
        return "must be a model whose rows do not influence each other, so that draws are independent; it is coupled"
    return None


def parse_smoothing(fields: object, source: str = "smoothed") -> Smoothing:
    """Return the smoothing that a mapping of its fields describes.

    Raises:
        DeclarationError: all problems of the fields; ``source`` is their name in the message.
    """
    document, problems = document_from_python(fields, source), list[Problem]()
    entry = attempt(partial(construct, SmoothingEntry), document, (), problems)
    return Smoothing(**values_of(document.settle(entry, problems)))
