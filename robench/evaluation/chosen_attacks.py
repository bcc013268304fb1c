"""Attacks that an audit adds where other checks are raised, on the examples that APGD leaves.

Source: Carlini et al. 2019, arXiv:1902.06705, section 3: where gradients may be masked, an attack without gradients
and one by labels alone. Random gradients are averaged (Athalye et al. 2018, arXiv:1802.00420, section 4).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robench.attacks.apgd import Apgd
from robench.attacks.base import Attack
from robench.attacks.fmn import Fmn
from robench.attacks.minimum_norm import MinimumNormAttack
from robench.attacks.pgd import Pgd
from robench.attacks.rays import Rays
from robench.attacks.rows import length_of
from robench.core.flags import COUPLED_ROWS, RANDOM_VICTIM, Flag, Observations
from robench.evaluation.probe import NO_GRADIENT, QUARTER, Probe, observed
from robench.metrics.audits import BY_GRADIENTS, CHOSEN, WITHOUT_GRADIENTS
from robench.perturbations.dispatch import perturb

# Queries of an example: with scores, and by labels alone.
WITH_SCORES, BY_LABELS = 2000, 1000
# Rounding errors of a distance, in units of the inputs.
ROUNDING = 1e-6
# Steps of the search for the nearest point, and of ascent on the mean over draws.
NUM_STEPS, EXPECTED_STEPS, NUM_DRAWS = 100, 20, 20


def chosen_attacks(probe: Probe, flags: Sequence[Flag]) -> list[Observations]:
    """Return the examples that further attacks fool, if ``flags`` are raised; nothing otherwise, or for many answers.

    In an audit of several shards each chooses by its own flags, and attacks its own examples. A comparison that only
    all examples together decide chooses nothing; a flag of one shard that these do not raise is not reported.
    """
    reasons = [flag.name for flag in flags if flag.is_raised and flag.name != COUPLED_ROWS]
    if not reasons or probe.has_many:
        return []
    left, has_gradients = _left_by_apgd(probe)
    titles = [BY_GRADIENTS if has_gradients else WITHOUT_GRADIENTS]
    num_attacked, num_left = [len(left)], [int(left.sum())]
    for title, declaration in attacks(probe, has_gradients=has_gradients, is_random=RANDOM_VICTIM in reasons):
        rows = left.nonzero()[0]
        if len(rows):
            left[rows] = survivors(_only(probe, rows), declaration)
            titles.append(title)
            num_attacked.append(len(rows))
            num_left.append(int(left.sum()))
    return [observed(CHOSEN, titles, np.array(num_attacked), np.array(num_attacked) - num_left)]


def _left_by_apgd(probe: Probe) -> tuple[NDArray[np.bool_], bool]:
    """Return a mask of the examples that survive APGD, all without gradients, and whether there are gradients."""
    try:
        return np.asarray(probe.survives(Apgd(epsilon=probe.epsilon, num_steps=50)), np.bool_), True
    except NO_GRADIENT:
        return np.ones(len(probe), np.bool_), False


def attacks(probe: Probe, *, has_gradients: bool, is_random: bool) -> Iterator[tuple[str, Attack]]:
    """Yield the attacks to choose for a model with or without gradients and random numbers, each with its title."""
    epsilon = probe.epsilon
    if has_gradients and is_random:
        title = f"PGD of {EXPECTED_STEPS} steps and {NUM_DRAWS} draws"
        yield title, Pgd(epsilon=epsilon, relative_step=QUARTER, num_steps=EXPECTED_STEPS, num_draws=NUM_DRAWS)
    if has_gradients:
        yield f"FMN of {NUM_STEPS} steps", Fmn(norm="linf", num_steps=NUM_STEPS)
    for each in probe.random_searches:
        search = each(epsilon=epsilon, num_queries=WITH_SCORES, p_init=0.8, stop="at_success")
        yield f"Square of {WITH_SCORES:,} queries", search
    if probe.domain.limits is not None:
        yield f"RayS of {BY_LABELS:,} queries", Rays(num_queries=BY_LABELS)


def survivors(probe: Probe, declaration: Attack) -> NDArray[np.bool_]:
    """Return whether each example survives within the probe's budget."""
    if not isinstance(declaration, MinimumNormAttack):
        return np.asarray(probe.survives(declaration), np.bool_)
    made = perturb(declaration, probe.batch, probe.model, probe.draws, probe.batch_size)
    assert made.found is not None  # of a minimum-norm attack
    length = length_of(made.inputs.double() - probe.batch.inputs.double(), "linf")
    is_far = length > float(probe.epsilon) + ROUNDING
    return (is_far | ~made.found).cpu().numpy()


def _only(probe: Probe, rows: NDArray[np.intp]) -> Probe:
    """Return the probe of some of its examples."""
    places, batch = rows.tolist(), probe.batch
    ids = tuple(batch.ids[each] for each in places)
    some = replace(batch, ids=ids, inputs=batch.inputs[places], targets=batch.targets[places])
    return replace(probe, batch=some, draws=probe.draws.take(places))
