"""Segmentation ensemble attack: of the points that APGD reaches with three losses, that of the fewest right answers.

Source: Croce, Singh & Hein 2024, arXiv:2306.12941 version 2, section 3, and the authors' code (nmndeep/
Robust-Segmentation, ``tools/infer.py``, ``tools/worse_only.py``): losses ``mask-ce-bal``, ``mask-ce-avg`` and
``js-avg``, 300 steps each in l-infinity, radii 2, 1.5 and 1 epsilon, steps judged by the mean cross-entropy of all
pixels, and of each search the point with the fewest right pixels. Version 1 has other losses.

Differences: which point counts is decided by a new final prediction, and the clean input counts too, so that the result
is never weaker than a member alone or doing nothing. All members begin at one random point of an image, as in that
code, which seeds them alike; searches go on to their last step, where that code stops once all pixels of a batch are
wrong. For ``balanced-ce`` see ``tasks.segmentation_losses_impl``. The worst case of mean IoU over all images, by which
that code reports SEA too, is the metric ``robust_mean_iou`` over the members.
"""

import torch

from robench.attacks.attack import AttackFunction
from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import put
from robench.attacks.sea import Sea


def sea(declaration: Sea, problem: Problem) -> Reached:
    """Return points (B, ...) of the region, the best of all members' and the clean input."""
    points = problem.inputs.clone()
    fewest, everywhere = problem.num_right(problem.predict(points)), torch.arange(len(problem), device=points.device)
    for number, member in enumerate(declaration.attacks):
        function: AttackFunction = member.implemented()
        reached = function(member, problem.within(f"member {number}"))
        num_right = problem.num_right(problem.predict(reached.points))
        put(everywhere, num_right < fewest, (points, reached.points), (fewest, num_right))
    return Reached(points)
