"""Comparisons of attacks whose outcome is known beforehand, if gradients say anything.

Source: Carlini et al. 2019, arXiv:1902.06705, and Athalye et al. 2018, arXiv:1802.00420, section 3.1: iterated attacks
beat single steps, gradients beat random search, a larger budget fools more, more steps change nothing, and no model is
right about images that are grey all over. A comparison fails by more than 0.2 points (AutoAttack's rule for Square) and
an exact paired p below 0.01 (``metrics.paired``).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from robench.core.flags import Flag
from robench.declarations.apgd_attack import Apgd
from robench.declarations.attacks import Fgsm, Pgd
from robench.declarations.square_attack import Square
from robench.metrics.paired import exact_p_value
from robench.perturbations.attacks.losses import cross_entropy_loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.evaluation.probe import Probe

SOURCE = "Carlini et al. 2019"
POINTS = 0.002
P_VALUE = 0.01
NUM_QUERIES = 500


def comparisons(probe: Probe, num_classes: int) -> list[Flag]:
    """Return the comparisons, made by attacks within the probe's budget; none where torch finds no gradient."""
    epsilon = probe.epsilon
    try:
        probe.gradient(cross_entropy_loss)
    except RuntimeError:
        return []
    pgd = probe.stands(Pgd(epsilon=epsilon, relative_step=Fraction(1, 4), num_steps=20))
    apgd = probe.stands(Apgd(epsilon=epsilon, num_steps=50))
    return [
        _beaten(
            "single step beats iterations",
            pgd,
            probe.stands(Fgsm(epsilon=epsilon)),
            "FGSM against PGD of 20 steps",
            "gradients mislead beyond the first step: try random starts, another loss, a black-box attack",
        ),
        _beaten(
            "random search beats gradients",
            apgd,
            probe.stands(Square(epsilon=epsilon, num_queries=NUM_QUERIES, p_init=0.8)),
            f"Square of {NUM_QUERIES} queries against APGD of 50 steps",
            "gradients are masked: use black-box attacks, BPDA or draws (num_draws), and an adaptive attack",
        ),
        _beaten(
            "smaller budget beats larger",
            probe.stands(Apgd(epsilon=min(2 * epsilon, Fraction(1)), num_steps=50)),
            apgd,
            "epsilon against twice epsilon",
            "the search fails in large balls: take more steps and restarts",
        ),
        _beaten(
            "twice the steps change the result",
            apgd,
            probe.stands(Apgd(epsilon=epsilon, num_steps=100)),
            "APGD of 100 steps against 50",
            "the attack has not converged: take more steps",
        ),
        _chance(probe, num_classes),
    ]


def _beaten(name: str, weaker: Sequence[bool], stronger: Sequence[bool], what: str, advice: str) -> Flag:
    """Return whether what should not be stronger is: it leaves fewer examples standing."""
    gain = (sum(weaker) - sum(stronger)) / len(weaker)
    p_value = exact_p_value(weaker, stronger)
    return Flag(
        name=name,
        source=SOURCE,
        value=gain,
        limit=POINTS,
        is_raised=gain > POINTS and p_value < P_VALUE,
        finding=f"{what}: {100 * gain:+.1f} points fewer stand (p = {p_value:.2g})",
        advice=advice,
    )


def _chance(probe: Probe, num_classes: int) -> Flag:
    half = Pgd(epsilon=Fraction(1, 2), relative_step=Fraction(1, 4), num_steps=100)
    standing = probe.stands(half)
    value = sum(standing) / len(standing)
    return Flag(
        name="right at any distance",
        source=SOURCE,
        value=value,
        limit=1 / num_classes,
        is_raised=value > 1 / num_classes,
        finding=f"{value:.0%} stand at linf 1/2, where every image can be grey",
        advice="the attack is broken for this model: check that gradients reach the pixels, try other losses",
    )
