"""Contract of corruptions: ``check_corruption(MyCorruption(severity=1))``."""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_type_hints

import annotated_types
import torch
from torch import Tensor

from robench.core.protocols import Batch
from robench.declarations.base import PerturbationBase, bounds_of
from robench.domains import Domain
from robench.domains.images import IMAGES
from robench.domains.series import SERIES
from robench.testing.expectations import DECLARATION_CHECKS, require, run_checks, subject_of, watched_generators
from robench.testing.models import NoModel, domain_for, perturbed
from robench.testing.perturbations import PERTURBATION_CHECKS, require_like, require_valid

__all__ = ["CORRUPTION_CHECKS", "check_corruption"]

# Any: corruptions are shown no model.
NO_MODEL: Any = NoModel()
# Heights and widths of images, and numbers of steps and channels of series.
SIZES = ((4, 4), (3, 9), (1, 1), (17, 40))


def check_corruption(declaration: PerturbationBase, domain: str | None = None) -> None:
    """Check that a corruption fulfils all contracts of robench's own corruptions, at each of its severities.

    Args:
        declaration: an instance with a field ``severity`` and the property ``corruption``.
        domain: ``images`` or ``series``; by default the class variable ``domain`` of the declaration, images without
            one. Series are padded on the right.
    """
    subject = subject_of("corruption", declaration, PerturbationBase)
    found = domain_for(declaration, domain)
    few, large = (
        (series_for_tests(), series_for_tests(64))
        if found.is_padded
        else (images_for_tests(), images_for_tests(64, 64))
    )
    run_checks(subject, (*DECLARATION_CHECKS, names_its_type_and_severity), declaration)
    run_checks(subject, PERTURBATION_CHECKS, declaration, found)
    run_checks(subject, CORRUPTION_CHECKS, declaration, few, found)
    run_checks(subject, (severities_differ,), declaration, large, found)


def names_its_type_and_severity(declaration: PerturbationBase) -> None:
    """Check that the property ``corruption`` contains the type and the declared severity."""
    for each in at_severities(declaration):
        severity = getattr(each, "severity", None)
        found = each.corruption
        is_named = found is not None and isinstance(found[0], str) and found[1] == severity
        require(is_named, f"has corruption {found!r}", f"(type, {severity}), its type and severity")
    require(not declaration.is_attack, "declares to be an attack", "is_attack False")


def keeps_range_shape_and_dtype(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> None:
    """Check that corrupted inputs are inputs of the domain, at the weakest and at the strongest severity."""
    severities = at_severities(declaration)
    for each in (severities[0], severities[-1]):
        result = corrupted(each, inputs, domain=domain)
        require_like(result, inputs)
        require_valid(each, result, inputs, NO_MODEL, domain)


def same_seeds_give_the_same_inputs(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> None:
    """Check that two calls give the same bytes."""
    for each in at_severities(declaration):
        require(
            torch.equal(corrupted(each, inputs, domain=domain), corrupted(each, inputs, domain=domain)),
            "returns other inputs when called again with the same seeds",
            "the same bytes: draw from the given `draws` alone",
        )


def neighbours_and_order_change_no_byte(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> None:
    """Check that an input has the same bytes alone, among others and in another order."""
    order = [3, 0, 4, 1, 2]
    whole = corrupted(declaration, inputs, domain=domain)
    require(
        torch.equal(corrupted(declaration, inputs[order], order, domain), whole[order]),
        "makes other inputs of a permuted batch",
        "each input to depend on itself and its own draws alone",
    )
    for i in range(len(inputs)):
        require(
            torch.equal(corrupted(declaration, inputs[i : i + 1], [i], domain)[0], whole[i]),
            f"makes another input of number {i} alone than among others",
            "each input to depend on itself and its own draws alone",
        )


def leaves_inputs_and_generators_alone(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> None:
    """Check that neither the inputs nor global generators change, and that no model is needed."""
    before = inputs.clone()
    with watched_generators():
        corrupted(declaration, inputs, domain=domain)
    require(torch.equal(inputs, before), "writes into the inputs", "a copy first")


def inputs_of_any_size_are_taken(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> None:
    """Check images of one pixel, of odd sides, and wide ones, or such series, at weak and strong severities."""
    severities = at_severities(declaration)
    for size in SIZES:
        shape = size if domain.is_padded else (3, *size)
        ramp = torch.linspace(0, 1, 2 * torch.Size(shape).numel()).view(2, *shape)
        for each in severities[::2]:
            require_valid(each, corrupted(each, ramp, domain=domain), ramp, NO_MODEL, domain)


def gradients_end_here(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> None:
    """Check that nothing is differentiated through a corruption."""
    result = corrupted(declaration, inputs.clone().requires_grad_(), domain=domain)
    require(not result.requires_grad, "returns inputs with a graph", "detached ones")


CORRUPTION_CHECKS = (
    keeps_range_shape_and_dtype,
    same_seeds_give_the_same_inputs,
    neighbours_and_order_change_no_byte,
    leaves_inputs_and_generators_alone,
    inputs_of_any_size_are_taken,
    gradients_end_here,
)


def severities_differ(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> None:
    """Check that every severity changes inputs, each differently from the previous one."""
    require(
        not torch.equal(corrupted(at_severities(declaration)[0], inputs, domain=domain), inputs),
        "changes no input at its weakest severity",
        "a change",
    )
    same = repeated_severities(declaration, inputs, domain)
    require(not same, f"does at severity {sorted(same)} the same as at the one before", "another strength")


def repeated_severities(declaration: PerturbationBase, inputs: Tensor, domain: Domain = IMAGES) -> set[int]:
    """Return the positions (from 1) of severities with the same result as the previous one."""
    results = [corrupted(each, inputs, domain=domain) for each in at_severities(declaration)]
    return {i for i in range(1, len(results)) if torch.equal(results[i], results[i - 1])}


def at_severities(declaration: Any) -> list[Any]:
    """Return the declaration at each severity within the bounds of its field ``severity``, ascending.

    Any: ``replace`` returns the type of its argument.
    """
    declared: type = type(declaration)
    bounds = dict(bounds_of(declared)).get("severity", ())
    low = [bound.ge for bound in bounds if isinstance(bound, annotated_types.Ge)]
    high = [bound.le for bound in bounds if isinstance(bound, annotated_types.Le)]
    fields = ", ".join(get_type_hints(type(declaration)))
    require(
        bool(low and high),
        f"has no bounded field severity (class variables and fields: {fields})",
        "severity: Annotated[int, Ge(1), Le(5)]",
    )
    return [dataclasses.replace(declaration, severity=each) for each in range(int(low[0]), int(high[0]) + 1)]  # type: ignore[call-overload]  # numbers


def corrupted(
    declaration: PerturbationBase, inputs: Tensor, seeds: Sequence[int] | None = None, domain: Domain = IMAGES
) -> Tensor:
    """Return inputs (B, ...) with the corruption; the seeds are 0, 1, 2 ... by default, and there is no model."""
    ids = tuple(f"example-{i}" for i in range(len(inputs)))
    targets = torch.zeros(len(inputs), dtype=torch.int64)
    return perturbed(
        declaration, Batch(ids=ids, inputs=inputs, targets=targets, domain=domain.name), NO_MODEL, seeds
    ).inputs


def images_for_tests(height: int = 26, width: int = 32) -> Tensor:
    """Return five images (5, 3, H, W): one with black and white places, a black one, a grey one, two coloured ones."""
    generator = torch.Generator().manual_seed(1)
    coarse = torch.rand(5, 3, 5, 5, generator=generator)
    images = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    images = (images + 0.1 * torch.rand(images.shape, generator=generator)).clamp(0, 1)
    images[0, :, :6], images[0, :, 6:12], images[1] = 0.0, 1.0, 0.0
    images[2] = images[2, :1]
    levels: Tensor = (images * 255).round() / 255
    return levels


def series_for_tests(num_steps: int = 26) -> Tensor:
    """Return five series (5, T, 12), padded on the right: the first whole, one of a step, one of zeros, two others."""
    values = torch.randn(5, num_steps, 12, generator=torch.Generator().manual_seed(1))
    values[2] = 0.0
    lengths = (num_steps, 1, num_steps, num_steps // 2, num_steps - 1)
    return SERIES.rules.collate([each[:length] for each, length in zip(values, lengths, strict=True)])
