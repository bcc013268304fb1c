"""Ensemble of attacks: each runs on the examples that survive all previous ones.

Source: Croce & Hein 2020, arXiv:2003.01690, section 5; the parameters of its ensembles (``attacks.autoattack``) are
those of the paper's code (auto-attack, on PyPI pyautoattack). Success is decided by a new final prediction at the point
that an attack returned. The point is first projected onto the ensemble's own region, so that minimum-norm attacks (fab,
cw) count within it, and the projection of a point further away is an attempt as well.

Where libraries differ: the paper's code continues with fooled examples until a member's last step, returns the clean
image for surviving examples, and with fewer classes than targets warns, and then fails on an index; here there are
fewer targets, fewer than four classes are refused (but by ``few-classes``, which is not of the paper), and surviving
examples are returned at the point of smallest margin.
With ``returns: published`` surviving and initially misclassified examples are returned clean, before any clipping, and
APGD continues, so that it returns the last fooling point of its search, as there; only FAB stops at its first point
within the budget, where the paper's code keeps the nearest of the search. Its 5,000 queries of Square are trials, and
the first point one more; here it is one of them. ``standard`` in l1 has APGD with shrinking radii, 5 restarts and 5
targets (Croce & Hein 2021, arXiv:2103.01208). torchattacks' AutoAttack is another attack of the same name: its APGD
makes 10 steps.
"""

from dataclasses import replace

import torch

from robench.attacks.attack import AttackFunction, region_for
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack
from robench.attacks.levels import as_read, as_written
from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import put
from robench.devices import indices_on_cpu, to_device
from robench.tasks.classification_impl import margin_loss


def autoattack(declaration: AutoAttack, problem: Problem) -> Reached:
    """Return points (B, ...) of the region that fool the victim, or else have the smallest margin.

    Raises:
        DeclarationError: a member needs more classes than the victim has.
    """
    published = declaration.returns == "published"
    points = (problem.clean if published else problem.inputs).clone()
    logits = problem.predict(points)
    margins, survives = margin_loss(logits, problem.labels), ~problem.fooled(logits)
    for number, member in enumerate(declaration.attacks(num_classes=logits.shape[1])):
        remaining = indices_on_cpu(survives)
        if not len(remaining):
            break
        active, places = problem.within(f"member {number}").take(remaining), to_device(remaining, points.device)
        function: AttackFunction = member.implemented()
        reached = function(member, _member_problem(member, declaration, active))
        # An unclipped clean input returned by a member is not a point of the region, and not a success.
        is_clean = reached.points == active.clean
        candidates = torch.where(is_clean, reached.points, active.region.project(reached.points))
        if declaration.pixels == "8bit" and declaration.space == "input":
            # What the rounding undoes is attacked further.
            candidates = as_read(active.clean, as_written(active.clean, candidates))
        logits = active.predict(candidates)
        fooled, member_margins = active.fooled(logits), margin_loss(logits, active.labels)
        better = fooled if published else fooled | (member_margins > margins[places])
        put(places, better, (points, candidates), (margins, member_margins))
        survives[places] = ~fooled
    return Reached(points)


def _member_problem(member: Attack, ensemble: AutoAttack, problem: Problem) -> Problem:
    if member.budget == ensemble.budget:
        return problem
    around = problem.clean, problem.scale, problem.shift, problem.limits, problem.region.free
    return replace(problem, region=region_for(member, *around))
