"""Ensemble of attacks: each meets only the examples that all before it left standing.

Source: Croce & Hein 2020, arXiv:2003.01690, section 5; the parameters of its ensembles (``attacks.autoattack``)
are those of the paper's code (auto-attack, on PyPI pyautoattack). What decides is the final prediction, made anew at
what an attack reached. That is first projected onto the ensemble's own region, so that an attack without a budget (fab,
cw) counts within it, and the projection of its point, where that lies further away, is a try as well.

Where libraries differ: the paper's code steps on with what is fooled until a member's last step, returns the clean
image for what stands, and with fewer classes than targets warns, and then fails on an index; here there are fewer
targets, fewer than four classes are refused, and what stands is returned at the point of smallest margin. With
``returns: published`` what stands, and what is misclassified when clean, is returned clean, before any cut, and APGD
steps on, so that the point left is the last of its search that fools, as there; FAB alone leaves at its first point
within the budget, where the paper's code keeps the nearest of the search. Its 5,000 queries of Square are trials, and
the first point one more; here it is one of them. ``standard`` in l1 has APGD with shrinking radii, 5 restarts and 5
targets (Croce & Hein 2021, arXiv:2103.01208). torchattacks' AutoAttack is another attack of the same name: its APGD
makes 10 steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from robench.attacks.attack import region_for
from robench.attacks.problem import Reached
from robench.tasks.classification_losses import margin_loss

if TYPE_CHECKING:
    from robench.attacks.attack import AttackFunction
    from robench.attacks.autoattack import AutoAttack
    from robench.attacks.base import Attack
    from robench.attacks.problem import Problem


def autoattack(declaration: AutoAttack, problem: Problem) -> Reached:
    """Return points (B, ...) of the region that fool the victim, or else come nearest to it.

    Raises:
        DeclarationError: a member needs more classes than the victim has.
    """
    published = declaration.returns == "published"
    points = (problem.clean if published else problem.inputs).clone()
    logits = problem.predict(points)
    margins, stands = margin_loss(logits, problem.labels), ~problem.fooled(logits)
    for number, member in enumerate(declaration.attacks(num_classes=logits.shape[1])):
        places = stands.nonzero()[:, 0]
        if not len(places):
            break
        standing = problem.within(f"member {number}").take(places)
        function: AttackFunction = member.implemented()
        reached = function(member, _met_by(member, declaration, standing))
        # What a member left as it was before any cut is no point of the region, and none that it found.
        is_clean = reached.points == standing.clean
        candidates = torch.where(is_clean, reached.points, standing.region.project(reached.points))
        logits = standing.predict(candidates)
        fooled, met = standing.fooled(logits), margin_loss(logits, standing.labels)
        better = fooled if published else fooled | (met > margins[places])
        points[places[better]], margins[places[better]] = candidates[better], met[better]
        stands[places] = ~fooled
    return Reached(points)


def _met_by(member: Attack, ensemble: AutoAttack, problem: Problem) -> Problem:
    """Return the problem with the region that the member itself is declared to search."""
    if member.budget == ensemble.budget:
        return problem
    return replace(problem, region=region_for(member, problem.clean, problem.scale, problem.shift, problem.limits))
