"""Contract of all perturbations, attacks and corruptions: budgets, reproducibility, independence, and side effects."""

import dataclasses
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from robench.attacks.base import Attack
from robench.core.errors import BudgetExceededError, ContractError
from robench.core.protocols import Model
from robench.declarations.base import PerturbationBase
from robench.domains import Domain
from robench.domains.images import IMAGES
from robench.testing.expectations import BrokenPromiseError, require, watched_generators
from robench.testing.models import LinearModel, batch_of, perturbed, rows_of

# Tolerance of results for other numbers of rows, where arithmetic may round differently.
ROUNDING = 1e-6


def keeps_shape_dtype_and_device(declaration: PerturbationBase, domain: Domain = IMAGES) -> None:
    """Check that results have shape, dtype and device of the inputs."""
    batch = batch_of(64, 2, domain)
    require_like(perturbed(declaration, batch).inputs, batch.inputs)


def require_like(result: Tensor, inputs: Tensor) -> None:
    """Require that a result (B, ...) has shape, dtype and device of the inputs, and no graph."""
    shape, wanted = tuple(result.shape), tuple(inputs.shape)
    require(shape == wanted, f"returns shape {shape}", f"{wanted}, that of the inputs")
    require(result.dtype == inputs.dtype, f"returns {result.dtype}", f"{inputs.dtype}, as the inputs")
    found, wanted_device = result.device, f"{inputs.device}, where the inputs are"
    require(found == inputs.device, f"returns inputs on {found}", wanted_device)
    require(not result.requires_grad, "returns inputs with a graph", "detached ones")


def require_valid(
    declaration: PerturbationBase, result: Tensor, inputs: Tensor, model: Model, domain: Domain = IMAGES
) -> None:
    """Require that perturbed inputs lie in the domain and the budget, without NaN, and that padding is as it was."""
    try:
        domain.rules.check_perturbed(result, inputs, declaration, model)
    except (BudgetExceededError, ContractError) as error:
        raise BrokenPromiseError(
            f"breaks its promise for {tuple(inputs.shape)}: {error}; expected valid {domain.name}"
        ) from error


def keeps_range_and_budget_exactly(declaration: PerturbationBase, domain: Domain = IMAGES) -> None:
    """Check range, padding and budget: with the harness's tolerance, and exactly for robench's own code."""
    batch, model = batch_of(64, 2, domain), LinearModel(domain=domain)
    made = perturbed(declaration, batch, model)
    result = made.inputs
    require_valid(declaration, result, batch.inputs, model, domain)
    if declaration.backend != "robench":
        return
    num_clamped = 0 if made.num_clamped is None else int(made.num_clamped.sum())
    require(
        num_clamped == 0,
        f"leaves {num_clamped} values outside [0, 1], which the harness had to clamp",
        "points of the region: project them by `problem.region.project`",
    )
    threat_model = declaration.threat_model
    if threat_model is None or threat_model.space != "input":
        return
    change = (result.double() - batch.inputs.double()).flatten(1)
    longest = float(change.norm(p=float(threat_model.norm[1:]), dim=1).max())
    require(
        longest <= float(threat_model.epsilon),
        f"moves an input by {longest!r} in {threat_model.norm}",
        f"at most {float(threat_model.epsilon)!r} without rounding errors: project by `problem.region.project`",
    )


def same_seeds_give_the_same_bytes(declaration: PerturbationBase, domain: Domain = IMAGES) -> None:
    """Check that two calls give the same result."""
    batch = batch_of(domain=domain)
    first, second = (perturbed(declaration, batch).inputs for _ in range(2))
    require(
        torch.equal(first, second),
        f"returns {_changed(first, second)} other examples when called again with the same seeds",
        "the same bytes: draw from the given `draws` alone, and keep no state",
    )


def examples_do_not_see_each_other(declaration: PerturbationBase, domain: Domain = IMAGES) -> None:
    """Check that an example alone has the same result as among others."""
    if declaration.batch_dependence:
        return
    batch = batch_of(domain=domain)
    whole = perturbed(declaration, batch).inputs
    for i in range(len(batch.ids)):
        alone = perturbed(declaration, rows_of(batch, [i]), seeds=[i]).inputs[0]
        _require_close(alone, whole[i], f"makes something else of example {i} alone")


def order_does_not_matter(declaration: PerturbationBase, domain: Domain = IMAGES) -> None:
    """Check that a permuted batch gives permuted results."""
    if declaration.batch_dependence:
        return
    batch, order = batch_of(domain=domain), [4, 0, 5, 2, 1, 3]
    shuffled = perturbed(declaration, rows_of(batch, order), seeds=order).inputs
    whole = perturbed(declaration, batch).inputs[order]
    _require_close(shuffled, whole, "makes something else of a permuted batch")


def leaves_the_batch_the_model_and_the_generators_alone(declaration: PerturbationBase, domain: Domain = IMAGES) -> None:
    """Check that neither the clean inputs, nor the labels, nor the model, nor global generators change."""
    batch, model = batch_of(domain=domain), LinearModel(domain=domain)
    untouched = batch_of(domain=domain)
    with watched_generators():
        perturbed(declaration, batch, model)
    require(torch.equal(batch.inputs, untouched.inputs), "writes into the clean inputs", "a copy first")
    require(torch.equal(batch.targets, untouched.targets), "writes into the labels", "labels left alone")
    require(not batch.inputs.requires_grad, "makes the clean inputs require gradients", "a detached copy")
    require(torch.equal(model.weight, LinearModel(domain=domain).weight), "changes the model", "weights left alone")


def a_budget_of_zero_returns_the_input(declaration: PerturbationBase, domain: Domain = IMAGES) -> None:
    """Check that a bounded attack with epsilon 0 changes no byte."""
    if declaration.threat_model is None:
        return
    batch = batch_of(domain=domain)
    try:
        nothing = without_budget(declaration)
    except ValueError as error:
        raise BrokenPromiseError(f"refuses epsilon 0 ({error}); expected it to be allowed, as by Epsilon") from error
    result = perturbed(nothing, batch).inputs
    require(
        torch.equal(result, batch.inputs),
        f"moves {_changed(result, batch.inputs)} of {len(result)} inputs at epsilon 0",
        "the inputs as they are",
    )


PERTURBATION_CHECKS = (
    keeps_shape_dtype_and_device,
    keeps_range_and_budget_exactly,
    same_seeds_give_the_same_bytes,
    examples_do_not_see_each_other,
    order_does_not_matter,
    leaves_the_batch_the_model_and_the_generators_alone,
    a_budget_of_zero_returns_the_input,
)


def without_budget(declaration: Any) -> Any:
    """Return an attack with epsilon 0, and so all bounded attacks in its fields.

    Any: ``replace`` returns what it is given.
    """
    members = {
        field.name: tuple(without_budget(each) if _has_budget(each) else each for each in value)
        for field in dataclasses.fields(declaration)
        if isinstance(value := getattr(declaration, field.name), tuple) and any(map(_has_budget, value))
    }
    return dataclasses.replace(declaration, epsilon=Fraction(0), **members)


def _has_budget(value: object) -> bool:
    return isinstance(value, Attack) and value.threat_model is not None


def _changed(one: Tensor, other: Tensor) -> int:
    """Return the number of examples that differ."""
    return int((one != other).flatten(1).any(1).sum())


def _require_close(found: Tensor, wanted: Tensor, difference: str) -> None:
    largest = float((found.double() - wanted.double()).abs().max())
    require(
        largest <= ROUNDING,
        f"{difference} (values differ by up to {largest:.3g})",
        "each example to depend on itself and its own draws alone",
    )
