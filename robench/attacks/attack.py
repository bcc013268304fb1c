"""Harness of declared attacks on a batch: the attack's space, labels, region and counts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from robench.attacks.base import Attack
from robench.attacks.label_problem import LabelProblem
from robench.attacks.ledger import Ledger
from robench.attacks.levels import as_read, as_written
from robench.attacks.problem import Problem, Reached
from robench.attacks.regions import Region, region_of
from robench.attacks.rows import chosen
from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.providers import title_of
from robench.domains import Domain, domain_of
from robench.tasks import task_of
from robench.tasks.base import ManyAnswers

# Any: each attack takes its own declaration, and a Problem, or a LabelProblem if it sees labels alone.
AttackFunction = Callable[[Any, Any], Reached]

# Rounding error of values converted from normalised space, in units of the inputs.
ROUNDING = 1e-6


def attack(
    function: AttackFunction,
    declaration: Attack,
    batch: Batch,
    victim: Model,
    draws: Draws,
    batch_size: int | None = None,
) -> Perturbed:
    """Return the attack's result on a batch, in units of the inputs, with the number of passes used.

    With ``clip: box`` it is clamped to the domain's limits, [0, 1] of images, and the values outside by more than
    rounding are counted: robench's own attacks have none. ``batch_size`` is the maximum number of rows per forward
    pass, by default all.
    """
    problem = problem_of(declaration, batch, victim, draws, len(batch.ids) if batch_size is None else batch_size)
    reached = function(declaration, LabelProblem(problem) if declaration.sees_labels_alone else problem)
    problem.ledger.require_finite()
    if not isinstance(reached, Reached) or reached.points.shape != problem.inputs.shape:
        found = tuple(reached.points.shape) if isinstance(reached, Reached) else type(reached).__name__
        title = title_of("attack", declaration, declaration.kind)
        raise ContractError(
            f"{title} returned {found}, wanted Reached with points of shape {tuple(problem.inputs.shape)}"
        )
    inputs = problem.pixels(reached.points).detach()
    num_clamped = None
    if declaration.clip == "box":
        lower, upper = problem.limits
        is_outside = (inputs < lower - ROUNDING) | (inputs > upper + ROUNDING)
        num_clamped = is_outside.flatten(1).sum(1)
        inputs = inputs.clamp(lower, upper)
    # The way through another space and back would move unmoved values by rounding errors.
    inputs = torch.where(reached.points == problem.clean, batch.inputs, inputs)
    is_found = reached.found
    if declaration.pixels == "8bit":
        written = as_written(batch.inputs, inputs, is_nearest=declaration.is_minimum_norm)
        inputs = as_read(batch.inputs, written)
        if is_found is not None:
            is_found = is_found & problem.fooled(problem.predict((inputs - problem.shift) / problem.scale))
            inputs = chosen(is_found, inputs, batch.inputs)
    ledger = problem.ledger
    return Perturbed(
        inputs=inputs,
        found=is_found,
        num_queries=ledger.num_queries,
        num_gradients=ledger.num_gradients,
        num_clamped=num_clamped,
        num_zero_gradients=ledger.num_zero_gradients,
    )


def problem_of(declaration: Attack, batch: Batch, victim: Model, draws: Draws, batch_size: int) -> Problem:
    """Return the problem of a declared attack on a batch."""
    if declaration.space == "input":
        scale, shift = batch.inputs.new_ones(()), batch.inputs.new_zeros(())
    else:
        shift, scale = victim.normalisation
    domain = domain_of(batch)
    free = free_of(domain, batch.inputs)
    if problems := declaration.problems_of_budget(domain):
        raise ContractError("; ".join(f"{declaration.kind}: {field} {message}" for field, message in problems))
    limits = domain.rules.limits
    clean = batch.inputs if declaration.space == "input" else (batch.inputs - shift) / scale
    inputs = clean.clamp(0, 1) if declaration.clip == "unit" else clean
    problem = Problem(
        victim=victim if declaration.gradients == "own" else victim.with_gradients(declaration.gradients),
        inputs=inputs,
        labels=batch.targets,
        region=region_for(declaration, clean, scale, shift, limits, free),
        draws=draws,
        ledger=Ledger(len(batch.ids)),
        rows=torch.arange(len(batch.ids)),
        scale=scale,
        shift=shift,
        batch_size=batch_size,
        uncut=clean if declaration.clip == "unit" else None,
        task=task_of(batch).rules,
        limits=limits,
        over_draws=getattr(declaration, "over_draws", "mean"),
    )
    if declaration.labels == "true":
        return problem
    outputs = problem.predict(problem.clean)
    if isinstance(problem.task, ManyAnswers):
        return replace(problem, labels=problem.task.own_labels(outputs, batch.targets))
    return replace(problem, labels=problem.task.labels_of(outputs))


def free_of(domain: Domain, inputs: Tensor) -> Tensor | None:
    """Return a mask in the shape of inputs (B, N, ...), false for padding, which may not move; None if all may."""
    valid = domain.rules.valid(inputs)
    if valid is None:
        return None
    return valid.view(*valid.shape, *[1] * (inputs.ndim - valid.ndim)).expand_as(inputs)


def region_for(
    declaration: Attack,
    clean: Tensor,
    scale: Tensor,
    shift: Tensor,
    limits: tuple[float, float],
    free: Tensor | None = None,
) -> Region:
    """Return the region that a declared attack searches around clean inputs (B, ...) in its space.

    ``scale``, ``shift`` and ``limits`` are as in ``Problem``, ``free`` as in ``Region``.
    """
    norm, epsilon = declaration.budget
    if declaration.clip == "box":
        lower, upper = limits
        return region_of(norm, clean, epsilon, -(shift - lower) / scale, (upper - shift) / scale, free)
    if declaration.clip == "unit":
        return region_of(norm, clean, epsilon, torch.zeros_like(scale), torch.ones_like(scale), free)
    infinite = torch.full_like(scale, torch.inf)
    return region_of(norm, clean, epsilon, -infinite, infinite, free)
