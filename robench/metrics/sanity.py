"""Sanity checks: comparisons of attacks with known outcomes, which fail if gradients are uninformative.

Source: Carlini et al. 2019, arXiv:1902.06705, and Athalye et al. 2018, arXiv:1802.00420, section 3.1: iterated attacks
beat single steps, gradients beat random search, a larger budget fools more, more steps change nothing, and no model is
right about inputs that may all be made equal, such as images that may be turned grey. A comparison fails by more than
0.2 points (AutoAttack's rule for Square) and an exact paired p below 0.01 (``paired``).

Where examples have many answers, such as pixels, the proportions of right ones are compared by the sign test; for
verdicts it is McNemar's. No loss of gradients is the number of right answers, which random search lowers directly,
and small differences are significant, so that the limit is 2 points. Losses differ in which answers they attack: a
search must not be beaten by one with the plain loss and as few passes.
"""

from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import ArrayLike

from robench.core.errors import ContractError
from robench.core.flags import Flag
from robench.metrics.paired import tail_p_value

SOURCE = "Carlini et al. 2019"
POINTS = 0.002
POINTS_OF_MANY = 0.02
P_VALUE = 0.01
# Fewer examples, all lost by the stronger attack, have no p below the limit: 2 / 2 ** 8 is the first.
LEAST_COMPARED = 8


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected order of two attacks, named by its violation, with advice for it."""

    name: str
    advice: str


SINGLE_STEP = Expectation(
    "single step beats iterations",
    "gradients mislead beyond the first step: try random starts, another loss, a black-box attack",
)
RANDOM_SEARCH = Expectation(
    "random search beats gradients",
    "gradients are masked: use black-box attacks, BPDA or draws (num_draws), and an adaptive attack",
)
SMALLER_BUDGET = Expectation(
    "smaller budget beats larger", "the search fails in large balls: take more steps and restarts"
)
MORE_STEPS = Expectation("twice the steps change the result", "the attack has not converged: take more steps")
PLAIN_LOSS = Expectation(
    "plain loss beats another",
    "the attack leaves out answers that the plain loss reaches: check which of them its loss and its steps attack",
)
KNOWS_ATTENTION = Expectation(
    "attention-aware attack beats the others",
    "attacks that do not know the mechanism overstate robustness: report the number under the one that is named",
)
ANY_DISTANCE = Expectation(
    "right at any distance",
    "the attack is broken for this model: check that gradients reach the inputs, try other losses",
)


def beaten(expectation: Expectation, stronger: ArrayLike, weaker: ArrayLike, what: str, *, num_tests: int = 1) -> Flag:
    """Return whether less survives the attack that should be weaker.

    Both attacks are of the same examples (N,): verdicts, whether an example survives, or the proportions of its answers
    that are still right. p is multiplied by the number of attacks that the weaker one was chosen from.
    """
    one, other = np.asarray(stronger), np.asarray(weaker)
    if len(one) != len(other):
        raise ContractError(f"paired verdicts must be of the same examples, got {len(one)} and {len(other)}")
    lost, won = int((one > other).sum()), int((other > one).sum())
    p_value = min(1.0, 2 * num_tests * tail_p_value(max(lost, won), lost + won))
    gain = (fsum(one) - fsum(other)) / len(one)
    survive, limit = ("survive", POINTS) if one.dtype == bool else ("answers stay right", POINTS_OF_MANY)
    return Flag(
        name=expectation.name,
        source=SOURCE,
        value=gain,
        limit=limit,
        is_raised=gain > limit and p_value < P_VALUE,
        finding=f"{what}: {_survivors(gain)} {survive} (p = {p_value:.2g})",
        advice=expectation.advice,
    )


def _survivors(gain: float) -> str:
    if gain == 0:
        return "as many"
    return f"{100 * abs(gain):.1f} points {'fewer' if gain > 0 else 'more'}"


def right_at_any_distance(survives: ArrayLike, num_classes: int, what: str) -> Flag:
    """Return whether more examples, or their answers, survive than chance allows if all inputs may be made equal."""
    value = fsum(np.asarray(survives)) / np.size(survives)
    return Flag(
        name=ANY_DISTANCE.name,
        source=SOURCE,
        value=value,
        limit=1 / num_classes,
        is_raised=value > 1 / num_classes,
        finding=f"{value:.0%} survive {what}, where all inputs can be made equal",
        advice=ANY_DISTANCE.advice,
    )
