"""Fast adaptive boundary attack: a minimum-norm attack by steps onto linearised decision boundaries.

Source: Croce & Hein 2020, arXiv:1907.02044, algorithm 1. At x, the boundary of class k is taken as the hyperplane
    z_k(x) - z_y(x) + <grad (z_k - z_y)(x), u - x> = 0;
of all classes the one nearest in the norm counts, or that of a target class alone. With d and d_0 the shortest changes
within the box from x and from the clean x_0 onto it,
    x <- project((1 - a) (x + eta d) + a (x_0 + eta d_0)),  a = min(|d| / (|d| + |d_0|), alpha_max).
Where the victim then errs, the point is kept if it is the nearest so far, and x goes back: x <- x_0 + beta (x - x_0).
At the end the nearest point is drawn toward the clean input, by linear interpolation of the margin (final search).
Later searches begin at random within half of epsilon, or of the distance found so far where that is less.

Differences: the authors' first code (fab-attack) is followed. Its final search aims at the boundary itself, on whose
wrong side half of the points then fall; here at a twentieth of the rest of the way past it. pyautoattack, by the same
authors, has no final search, lets all restarts begin at half of epsilon, returns the clean image
if the nearest point is farther than epsilon, and does not attack examples fooled within epsilon further (``stop:
at_success``; here they already leave between steps). With ``num_targets``, classes are ranked by the clean logits, as
there; with ``num_final_steps: 0`` distances are the same, to rounding. torchattacks has a copy of it, with 10 steps by
default. Untargeted, both take the gradients of all classes from one forward pass; here a victim that draws random
numbers makes a separate pass for each, with separate draws.

Misclassified examples are returned clean, found at distance 0. The region's bounds serve as the box, so the problem
must have no budget, as constructed by ``problem_of`` for a Fab.

Shortest changes to hyperplanes: equation 4 of the paper, min |d|_p so that <w, x + d> = b and x + d lies in the box.
Every coordinate moves along the sign of w, by at most the room r_i >= 0 that the box leaves. With g = b - <w, x> >= 0:
    l-infinity  all by the same t:           sum |w_i| min(r_i, t) = g
    l2          in proportion to |w_i|:      sum |w_i| min(r_i, t |w_i|) = g
    l1          one after the other, those of the largest |w_i| first, each to its full room
The left sides of the first two are concave and piecewise linear in t, so that Newton's method from t = 0 never
overshoots and ends at the exact t after as many steps as there are changes of rate on its way (a handful, where the
authors' code sorts all coordinates). Where the box does not reach the hyperplane, the corner nearest to it is taken.
The gap g is given and not computed as <w, x> - b, which would round the small difference of two large numbers.
Bounds may be infinite.
"""

from dataclasses import dataclass
from itertools import count, islice

import torch
from torch import Tensor

from robench.attacks.fab import Fab
from robench.attacks.nearest import drawn_start
from robench.attacks.problem import Passed, Problem, Reached
from robench.attacks.rows import Nearest, chosen, length_of, spread
from robench.core.errors import DeclarationError
from robench.core.seeds import Stream
from robench.devices import indices_on_cpu, is_asynchronous, to_device
from robench.tasks.base import Loss, resolved
from robench.tasks.classification_impl import lead_loss, of_class, predicted

DUAL = {"linf": "l1", "l2": "l2", "l1": "linf"}
TINY = 1e-12
SHORTEST = 1e-8
PAST = 0.05


def fab(declaration: Fab, problem: Problem) -> Reached:
    """Return the nearest adversarial points (B, ...) and a mask of those found; the clean input elsewhere.

    Raises:
        DeclarationError: there are fewer classes than targets and the label.
    """
    clean_logits = problem.predict(problem.inputs)
    nearest = Nearest(problem.inputs, declaration.norm)
    is_wrong = problem.fooled(clean_logits)
    places = torch.arange(len(problem), device=is_wrong.device)
    nearest.offer(places, problem.inputs, is_wrong)
    right = indices_on_cpu(~is_wrong)
    active = _Active(problem.take(right), to_device(right, places.device), nearest)
    for number, target in enumerate(_targets(declaration, clean_logits)):
        for restart in range(declaration.num_restarts):
            if len(active.places):
                _search(declaration, active, target, Stream(purpose="start", restart=restart, step=number))
    return _drawn_nearer(declaration, problem, nearest, clean_logits)


def _targets(declaration: Fab, clean_logits: Tensor) -> tuple[Tensor | None, ...]:
    """Return the target classes (B,) of each search; None for all at once."""
    num_classes, num_targets = clean_logits.shape[1], declaration.num_targets
    if num_classes < 1 + (num_targets or 1):
        raise DeclarationError(
            f"fab{f' with num_targets {num_targets}' if num_targets else ''} needs at least "
            f"{1 + (num_targets or 1)} classes, the model has {num_classes}"
        )
    if num_targets is None:
        return (None,)
    ranked = clean_logits.argsort(dim=1, descending=True, stable=True)
    return tuple(ranked[:, rank] for rank in range(1, 1 + num_targets))


@dataclass(slots=True)
class _Active:
    """Examples still under attack, their places in the batch, and the nearest points of the whole batch."""

    problem: Problem
    places: Tensor
    nearest: Nearest

    def let_go(self, epsilon: float) -> Tensor:
        """Drop examples found within epsilon; return the indices of the rows that stay."""
        stays = indices_on_cpu(self.nearest.distances[self.places] > epsilon)
        here = to_device(stays, self.places.device)
        if len(stays) < len(self.problem):
            self.problem, self.places = self.problem.take(stays), self.places.index_select(0, here)
        return here


def _search(declaration: Fab, active: _Active, target: Tensor | None, start: Stream) -> None:
    """Take ``num_steps`` steps toward the boundary of the target (B of the batch,), or of the nearest class."""
    points = active.problem.inputs
    if start.restart:
        farthest = float(declaration.epsilon or 0)
        radius = active.nearest.distances[active.places].clamp(max=farthest) / 2
        points = drawn_start(active.problem, radius, declaration.norm, start)
    for step in range(declaration.num_steps):
        problem = active.problem.within(f"target {start.step}").at(search=start.restart, step=step)
        points = _stepped(declaration, problem, points, None if target is None else target[active.places])
        # The final prediction itself, so that kept points need no further check.
        fooled = problem.fooled(problem.predict(points))
        active.nearest.offer(active.places, points, fooled)
        back = problem.inputs + declaration.beta * (points - problem.inputs)
        points = chosen(fooled, back, points)
        if declaration.stop == "at_success" and declaration.epsilon is not None:
            points = points.index_select(0, active.let_go(float(declaration.epsilon)))
            if not len(points):
                return


def _stepped(declaration: Fab, problem: Problem, points: Tensor, target: Tensor | None) -> Tensor:
    """Return the points after a step onto the linearised boundary, combined from current points and clean inputs."""
    clean, region, norm = problem.inputs, problem.region, declaration.norm
    values, normal = _boundary(problem, points, target, norm)
    gap = -values - (normal * (clean - points)).flatten(1).sum(1)
    # Both steps in one call: for few rows the overhead of a call dominates.
    below, above = (torch.cat([bound - points, bound - clean]) for bound in (region.lower, region.upper))
    ways = onto_hyperplane(torch.cat([-values, gap]), torch.cat([normal, normal]), below, above, norm)
    ahead, direct = ways.chunk(2)
    way, direct_way = length_of(ahead, norm).clamp(min=SHORTEST), length_of(direct, norm).clamp(min=SHORTEST)
    alpha = spread((way / (way + direct_way)).clamp(max=declaration.alpha_max), points)
    moved = (points + declaration.eta * ahead) * (1 - alpha) + (clean + declaration.eta * direct) * alpha
    return region.project(moved)


def _boundary(problem: Problem, points: Tensor, target: Tensor | None, norm: str) -> tuple[Tensor, Tensor]:
    """Return z_k - z_y (B,) and its gradient (B, ...) for the target k, or the class of the nearest boundary."""
    if target is not None:
        seen = problem.differentiate(points, lead_loss, beside=[target])
        return seen.values, seen.gradient()
    passes = problem.differentiate_each(points, (_ahead_by(offset) for offset in count(1)))
    first = next(passes)
    values, normal, distances = first.values, first.gradient(), _distances(first, norm)
    for seen in islice(passes, first.outputs.shape[1] - 2):
        away = _distances(seen, norm)
        nearer = away < distances
        values, distances = torch.where(nearer, seen.values, values), torch.where(nearer, away, distances)
        normal = chosen(nearer, seen.gradient(), normal)
    return values, normal


def _distances(seen: Passed, norm: str) -> Tensor:
    """Return the distances (B,) of the linearised boundaries: |z_k - z_y| over the gradient's dual norm."""
    return seen.values.abs() / (length_of(seen.gradient(), DUAL[norm]) + TINY)


def _ahead_by(offset: int) -> Loss:
    """Return the loss z_k - z_y of the class at this offset after the label, cyclically."""

    @resolved
    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return lead_loss(logits, labels, (labels + offset) % logits.shape[1])

    return loss


def _drawn_nearer(declaration: Fab, problem: Problem, nearest: Nearest, clean_logits: Tensor) -> Reached:
    """Return the nearest points after the final search, and a mask of those misclassified by the final prediction.

    All rows are predicted together, as in the final prediction: at a boundary, rounding decides.
    """
    inner, inner_logits = problem.inputs, clean_logits
    outer, outer_logits = nearest.points, problem.predict(nearest.points)
    found = nearest.found & problem.fooled(outer_logits)
    for _ in range(declaration.num_final_steps):
        fraction = _interpolation(inner_logits, outer_logits, problem.labels)
        points = problem.region.project(inner + spread(fraction, outer) * (outer - inner))
        logits = problem.predict(points)
        fooled = problem.fooled(logits)
        inner, inner_logits = chosen(fooled, inner, points), chosen(fooled, inner_logits, logits)
        outer, outer_logits = chosen(fooled, points, outer), chosen(fooled, logits, outer_logits)
    return Reached(chosen(found, outer, problem.inputs), found)


def _interpolation(inner_logits: Tensor, outer_logits: Tensor, labels: Tensor) -> Tensor:
    """Return the fraction (B,) of the way just past the boundary if logits are linear between; 1 if nowhere."""
    other = predicted(outer_logits)
    ahead = of_class(inner_logits, labels) - of_class(inner_logits, other)
    behind = of_class(outer_logits, other) - of_class(outer_logits, labels)
    fraction = ahead / (ahead + behind + 1e-10)
    fraction = torch.where((fraction >= 0) & (fraction <= 1), fraction, torch.ones_like(fraction))
    # At the tie itself rounding would decide, half of the time against, and the outer end would never move.
    return fraction + PAST * (1 - fraction)


# Iterations between two looks at whether the box has been filled, on devices that a look waits for.
LOOKED_EVERY = 4


def onto_hyperplane(gap: Tensor, normal: Tensor, below: Tensor, above: Tensor, norm: str) -> Tensor:
    """Return the shortest changes d (B, ...) with <normal, d> = gap and below <= d <= above, or the nearest possible.

    ``gap`` is (B,); ``normal``, ``below`` <= 0 and ``above`` >= 0 are (B, ...). Where the normal is zero nothing moves.
    """
    rows = normal.flatten(1)
    # A negative gap equals a positive one along the opposite normal.
    signs = rows.sign() * torch.where(gap < 0, -1.0, 1.0)[:, None]
    room = torch.where(signs > 0, above.flatten(1), -below.flatten(1)).masked_fill(signs == 0, 0)
    # The same hyperplane with largest weight 1, whose squares and quotients stay numbers however flat the victim is.
    limits = torch.finfo(rows.dtype)
    scale = rows.abs().amax(1).clamp(min=limits.tiny)
    weights, distance = rows.abs() / scale[:, None], (gap.abs() / scale).clamp(max=limits.max)
    lengths = _in_order(distance, weights, room) if norm == "l1" else _together(distance, weights, room, norm)
    return (signs * lengths).view_as(normal)


def _together(gap: Tensor, weights: Tensor, room: Tensor, norm: str) -> Tensor:
    """Return the lengths (B, D) that coordinates move: t, or in l2 t times their weight, each within its room."""
    rates = weights if norm == "l2" else torch.ones_like(weights)
    gains, costs, full = weights * rates, weights * room, room <= 0
    looked_every = LOOKED_EVERY if is_asynchronous(gap) else 1
    for iteration in count(1):
        rates_of_gain = gains.masked_fill(full, 0).sum(1)
        spent = costs.masked_fill(~full, 0).sum(1)
        # Where no coordinate is left the box ends before the hyperplane, and all stay full.
        times = ((gap - spent).clamp(min=0) / rates_of_gain.clamp(min=torch.finfo(rates_of_gain.dtype).tiny))[:, None]
        reached = rates * times
        newly = ~full & (reached >= room)
        if iteration % looked_every == 0 and not bool(newly.any()):
            break
        # Once nothing is new, further iterations change nothing.
        full = full | newly
    return torch.where(full, room, reached)


def _in_order(gap: Tensor, weights: Tensor, room: Tensor) -> Tensor:
    """Return the lengths (B, D) that coordinates move: fully in order of weight, the last as far as needed."""
    order = weights.argsort(dim=1, descending=True, stable=True)
    gains = (weights * room).gather(1, order)
    before = torch.cat([torch.zeros_like(gains[:, :1]), gains[:, :-1].cumsum(1)], dim=1)
    taken = torch.minimum((gap[:, None] - before).clamp(min=0), gains)
    lengths = torch.where(gains > 0, taken / weights.gather(1, order), torch.zeros_like(taken))
    return torch.minimum(torch.zeros_like(lengths).scatter(1, order, lengths), room)
