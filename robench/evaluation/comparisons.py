"""Sanity comparisons of attacks (``metrics.sanity``) on a probe."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from robench.attacks.apgd import Apgd
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.square import Square
from robench.metrics.sanity import (
    MORE_STEPS,
    RANDOM_SEARCH,
    SINGLE_STEP,
    SMALLER_BUDGET,
    beaten,
    right_at_any_distance,
)
from robench.tasks.classification_losses import cross_entropy_loss

if TYPE_CHECKING:
    from robench.core.flags import Flag
    from robench.evaluation.probe import Probe

NUM_QUERIES = 500
QUARTER = Fraction(1, 4)


def comparisons(probe: Probe, num_classes: int) -> list[Flag]:
    """Return the comparisons, by attacks within the probe's budget; none if torch finds no gradient."""
    epsilon, twice = probe.epsilon, min(2 * probe.epsilon, Fraction(1))
    try:
        probe.gradient(cross_entropy_loss)
    except RuntimeError:
        return []
    pgd = probe.stands(Pgd(epsilon=epsilon, relative_step=QUARTER, num_steps=20))
    apgd = probe.stands(Apgd(epsilon=epsilon, num_steps=50))
    fgsm = probe.stands(Fgsm(epsilon=epsilon))
    square = probe.stands(Square(epsilon=epsilon, num_queries=NUM_QUERIES, p_init=0.8))
    larger = probe.stands(Apgd(epsilon=twice, num_steps=50))
    longer = probe.stands(Apgd(epsilon=epsilon, num_steps=100))
    half = probe.stands(Pgd(epsilon=Fraction(1, 2), relative_step=QUARTER, num_steps=100))
    return [
        beaten(SINGLE_STEP, pgd, fgsm, "FGSM against PGD of 20 steps"),
        beaten(RANDOM_SEARCH, apgd, square, f"Square of {NUM_QUERIES} queries against APGD of 50 steps"),
        beaten(SMALLER_BUDGET, larger, apgd, "epsilon against twice epsilon"),
        beaten(MORE_STEPS, apgd, longer, "APGD of 100 steps against 50"),
        right_at_any_distance(half, num_classes, "PGD of 100 steps at linf 1/2"),
    ]
