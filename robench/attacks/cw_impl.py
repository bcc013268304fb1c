"""Carlini and Wagner's minimum-norm attack in l2, by Adam on distance and margin.

Source: Carlini & Wagner 2017, arXiv:1608.04644, sections V and VI: minimise over w
    |x' - x|_2^2 + c max(z_y(x') - max_{i != y} z_i(x') + confidence, 0),  x' = (tanh(w) + 1) / 2,
and search for the c of each example: times ten until a search succeeds, then halfway between the largest that failed
and the smallest that succeeded. Of all points that succeed, in any search, the nearest counts.

The authors' code (nn_robust_attacks) is followed: each search begins at the clean input with a fresh Adam (rates 0.9
and 0.999); where the loss at a check, ten a search, is not below 0.9999 of that at the last, it stops: there for the
whole batch at once, here for each example. Its last of ten and more searches takes the smallest c that succeeded again,
which is left out, since the nearest point of all searches is kept anyway.
Differences: torchattacks has one c and no search (here ``num_search_steps: 1``), stops the whole batch, cannot move
pixels of exactly 0 or 1 (their w is infinite), and takes the largest other logit of logits times 0 or 1, so that it
finds nothing where all logits are below 0; cleverhans and the authors subtract 10000 from the label's instead. Here the
margin is a difference of logits and nothing else. cleverhans never stops early, lets each search go on from the last
(``continues``), and cuts to [0, 1] by default, normalised images too (``clip_min``, ``clip_max``). foolbox is the
authors' algorithm, one image at a time in its first versions. Without limits (``clip: none``) w is x' itself.

Misclassified examples are returned unchanged, found at distance 0. If nothing was found, the clean input is returned;
with ``clip_min`` and ``clip_max`` the clipped one, as in cleverhans.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from robench.attacks.cw import Cw
from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import Nearest, chosen
from robench.attacks.search import rows_of
from robench.core.errors import DeclarationError
from robench.devices import indices_on_cpu, to_device
from robench.tasks.base import Loss, resolved
from robench.tasks.classification_impl import margin_loss, predicted

# Margin from the limits that keeps w finite, as in the authors' code.
INSIDE = 0.999999
PROGRESS = 0.9999
NUM_CHECKS = 10
LARGEST_C = 1e10
MEAN_RATE, SQUARE_RATE, TINY = 0.9, 0.999, 1e-8


def cw(declaration: Cw, problem: Problem) -> Reached:
    """Return the nearest adversarial points (B, ...), and a mask of the examples for which one was found.

    Raises:
        DeclarationError: there is no other class.
    """
    limits = _Limits.of(declaration, problem)
    origin = limits.cut(problem.inputs)
    logits = problem.predict(origin)
    if logits.shape[1] < 2:
        raise DeclarationError("cw needs at least 2 classes, the model has 1")
    nearest = Nearest(origin, "l2")
    places = torch.arange(len(problem), device=origin.device)
    nearest.offer(places, origin, _succeeded(declaration, logits, problem.labels))
    active = indices_on_cpu(~nearest.found)
    if len(active):
        places = to_device(active, places.device)
        _search_for_c(declaration, problem.take(active), limits.take(active), nearest, places)
    found = nearest.found
    if declaration.target == "other":
        found = found & problem.fooled(problem.predict(nearest.points))
    return Reached(chosen(found, nearest.points, origin), found)


def _search_for_c(declaration: Cw, problem: Problem, limits: _Limits, nearest: Nearest, places: Tensor) -> None:
    c = problem.inputs.new_full((len(problem),), declaration.initial_c)
    failed, succeeded = torch.zeros_like(c), torch.full_like(c, torch.inf)
    origin = nearest.origin[places]
    adam = begun = _Adam.at(limits.variables(origin))
    for number in range(declaration.num_search_steps):
        tried = _Tried(problem, limits, places, origin, c, adam if declaration.continues else begun)
        is_hit = torch.zeros(len(nearest.origin), dtype=torch.bool, device=c.device)
        adam = _descend(declaration, tried, number, nearest, is_hit)
        is_hit = is_hit[places]
        succeeded = torch.where(is_hit, torch.minimum(succeeded, c), succeeded)
        failed = torch.where(is_hit, failed, torch.maximum(failed, c))
        c = torch.where(succeeded < torch.inf, (failed + succeeded) / 2, (10 * c).clamp(max=LARGEST_C))


def _descend(declaration: Cw, tried: _Tried, number: int, nearest: Nearest, is_hit: Tensor) -> _Adam:
    """Run one search, offer successful points, mark them in ``is_hit`` (B of the batch,), and return the final state.

    ``number`` identifies the search and determines the draws of its passes.
    """
    weighed_margin = _weighed_margin(declaration.confidence, 1.0 if declaration.target == "other" else -1.0)
    checked = torch.full_like(tried.c, torch.inf)
    for step in range(declaration.num_steps):
        points, derivative = tried.limits.points(tried.adam.variables)
        problem = tried.problem.at(search=number, step=step)
        seen = problem.differentiate(points, weighed_margin, beside=[tried.c])
        succeeded = _succeeded(declaration, seen.outputs, tried.problem.labels)
        nearest.offer(tried.places, points, succeeded)
        is_hit[tried.places] |= succeeded
        change = points - tried.origin
        gradient = torch.add(seen.gradient(), change, alpha=2) * derivative
        tried = replace(tried, adam=tried.adam.stepped(gradient, declaration.learning_rate))
        if declaration.stops_early and step % max(1, declaration.num_steps // NUM_CHECKS) == 0:
            loss = seen.values + change.square().flatten(1).sum(1)
            progresses = indices_on_cpu(loss <= PROGRESS * checked)
            tried, checked = tried.take(progresses), loss.index_select(0, to_device(progresses, loss.device))
            if not len(progresses):
                break
    return tried.adam


@dataclass(frozen=True, slots=True)
class _Tried:
    """Rows of one search, their places in the batch, reference points, weights c, and the search's state."""

    problem: Problem
    limits: _Limits
    places: Tensor
    origin: Tensor
    c: Tensor
    adam: _Adam

    def take(self, stays: Tensor) -> _Tried:
        if len(stays) == len(self.c):
            return self
        of_rows = (self.limits, self.places, self.origin, self.c, self.adam)
        return _Tried(self.problem.take(stays), *rows_of(of_rows, stays))


@dataclass(frozen=True, slots=True)
class _Adam:
    """Variables (B, ...), averages of their gradients and squared gradients, and the number of steps."""

    variables: Tensor
    mean: Tensor
    square: Tensor
    num_steps: int

    @classmethod
    def at(cls, variables: Tensor) -> _Adam:
        return cls(variables, torch.zeros_like(variables), torch.zeros_like(variables), 0)

    def stepped(self, gradient: Tensor, learning_rate: float) -> _Adam:
        """Return the variables after a step against the gradient (Kingma & Ba 2015, arXiv:1412.6980, algorithm 1)."""
        count = self.num_steps + 1
        mean = torch.lerp(self.mean, gradient, 1 - MEAN_RATE)
        square = (SQUARE_RATE * self.square).addcmul_(gradient, gradient, value=1 - SQUARE_RATE)
        deviation = (square / (1 - SQUARE_RATE**count)).sqrt_().add_(TINY)
        rate = learning_rate / (1 - MEAN_RATE**count)
        return _Adam(self.variables.addcdiv(mean, deviation, value=-rate), mean, square, count)


@dataclass(frozen=True, slots=True)
class _Limits:
    """Change of variables: (B, ...) minimum and maximum of each point; None without limits."""

    lower: Tensor | None
    upper: Tensor | None

    @classmethod
    def of(cls, declaration: Cw, problem: Problem) -> _Limits:
        if declaration.clip_min is not None and declaration.clip_max is not None:
            like = problem.inputs
            return cls(torch.full_like(like, declaration.clip_min), torch.full_like(like, declaration.clip_max))
        if declaration.clip == "none" or not problem.is_limited:
            return cls(None, None)
        return cls(problem.region.lower, problem.region.upper)

    def take(self, rows: Tensor) -> _Limits:
        some: _Limits = rows_of(self, rows)
        return some

    def cut(self, points: Tensor) -> Tensor:
        return points if self.lower is None else torch.clamp(points, self.lower, self.upper)

    def variables(self, points: Tensor) -> Tensor:
        if self.lower is None or self.upper is None:
            return points
        return torch.atanh(INSIDE * (2 * (points - self.lower) / (self.upper - self.lower) - 1))

    def points(self, variables: Tensor) -> tuple[Tensor, Tensor]:
        """Return the points (B, ...) of variables, and their derivatives by the variables."""
        if self.lower is None or self.upper is None:
            return variables, torch.ones_like(variables)
        half = (self.upper - self.lower) / 2
        bent = torch.tanh(variables)
        return self.cut(self.lower + half * (bent + 1)), half * (1 - bent.square())


def _weighed_margin(confidence: float, sign: float) -> Loss:
    """Return the loss c max(confidence - sign margin, 0) of each row, with the margin of the best other class."""

    @resolved
    def loss(logits: Tensor, labels: Tensor, c: Tensor) -> Tensor:
        return c * (confidence - sign * margin_loss(logits, labels)).clamp(min=0)

    return loss


def _succeeded(declaration: Cw, logits: Tensor, labels: Tensor) -> Tensor:
    """Return (B,) whether the target condition holds by more than the confidence."""
    is_label = one_hot(labels, logits.shape[1])
    if declaration.target == "own":
        return predicted(logits - declaration.confidence * is_label) == labels
    return predicted(logits + declaration.confidence * is_label) != labels
