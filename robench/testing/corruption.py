"""Contract of corruptions of images: ``check_corruption(MyCorruption(severity=1))``."""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_type_hints

import annotated_types
import torch
from torch import Tensor

from robench.core.protocols import Batch
from robench.declarations.base import PerturbationBase, bounds_of
from robench.testing.expectations import DECLARATION_CHECKS, require, run_checks, subject_of, watched_generators
from robench.testing.models import NoModel, perturbed
from robench.testing.perturbations import PERTURBATION_CHECKS

__all__ = ["CORRUPTION_CHECKS", "check_corruption"]

SIZES = ((4, 4), (3, 9), (1, 1), (17, 40))


def check_corruption(declaration: PerturbationBase) -> None:
    """Check that a corruption fulfils all contracts of robench's own corruptions, at each of its severities.

    Args:
        declaration: an instance with a field ``severity`` and the property ``corruption``.
    """
    if not isinstance(declaration, PerturbationBase):
        raise AssertionError(
            f"{declaration!r} is not a corruption; expected an instance of a subclass of robench's PerturbationBase"
        )
    subject = subject_of("corruption", declaration)
    run_checks(subject, (*DECLARATION_CHECKS, names_its_type_and_severity, *PERTURBATION_CHECKS), declaration)
    run_checks(subject, CORRUPTION_CHECKS, declaration, images_for_tests())
    run_checks(subject, (severities_differ,), declaration, images_for_tests(64, 64))


def names_its_type_and_severity(declaration: PerturbationBase) -> None:
    """Check that the property ``corruption`` contains the type and the declared severity."""
    for each in at_severities(declaration):
        severity = getattr(each, "severity", None)
        found = each.corruption
        is_named = found is not None and isinstance(found[0], str) and found[1] == severity
        require(is_named, f"has corruption {found!r}", f"(type, {severity}), its type and severity")
    require(not declaration.is_attack, "declares to be an attack", "is_attack False")


def keeps_range_shape_and_dtype(declaration: PerturbationBase, images: Tensor) -> None:
    """Check that corrupted images are images, at the weakest and at the strongest severity."""
    severities = at_severities(declaration)
    for each in (severities[0], severities[-1]):
        result = corrupted(each, images)
        require(
            result.shape == images.shape,
            f"returns shape {tuple(result.shape)}",
            f"{tuple(images.shape)}, that of the images",
        )
        require(result.dtype == torch.float32, f"returns {result.dtype}", "torch.float32")
        require_range(result)


def same_seeds_give_the_same_images(declaration: PerturbationBase, images: Tensor) -> None:
    """Check that two calls give the same bytes."""
    for each in at_severities(declaration):
        require(
            torch.equal(corrupted(each, images), corrupted(each, images)),
            "returns other images when called again with the same seeds",
            "the same bytes: draw from the given `draws` alone",
        )


def neighbours_and_order_change_no_byte(declaration: PerturbationBase, images: Tensor) -> None:
    """Check that an image has the same bits alone, among others and in another order."""
    order = [3, 0, 4, 1, 2]
    whole = corrupted(declaration, images)
    require(
        torch.equal(corrupted(declaration, images[order], order), whole[order]),
        "makes other images of a permuted batch",
        "each image to depend on itself and its own draws alone",
    )
    for i in range(len(images)):
        require(
            torch.equal(corrupted(declaration, images[i : i + 1], [i])[0], whole[i]),
            f"makes another image of number {i} alone than among others",
            "each image to depend on itself and its own draws alone",
        )


def leaves_images_and_generators_alone(declaration: PerturbationBase, images: Tensor) -> None:
    """Check that neither the images nor global generators change, and that no model is needed."""
    before = images.clone()
    with watched_generators():
        corrupted(declaration, images)
    require(torch.equal(images, before), "writes into the images", "a copy first")


def images_of_any_size_are_taken(declaration: PerturbationBase, images: Tensor) -> None:
    """Check images of one pixel, of odd sides, and wide ones, at weak and strong severities."""
    severities = at_severities(declaration)
    for height, width in SIZES:
        ramp = torch.linspace(0, 1, 2 * 3 * height * width).view(2, 3, height, width)
        for each in severities[::2]:
            require_range(corrupted(each, ramp), f" for {height}x{width} pixels")


def gradients_end_here(declaration: PerturbationBase, images: Tensor) -> None:
    """Check that nothing is differentiated through a corruption."""
    result = corrupted(declaration, images.clone().requires_grad_())
    require(not result.requires_grad, "returns images with a graph", "detached ones")


CORRUPTION_CHECKS = (
    keeps_range_shape_and_dtype,
    same_seeds_give_the_same_images,
    neighbours_and_order_change_no_byte,
    leaves_images_and_generators_alone,
    images_of_any_size_are_taken,
    gradients_end_here,
)


def severities_differ(declaration: PerturbationBase, images: Tensor) -> None:
    """Check that every severity changes images, each differently from the previous one."""
    require(
        not torch.equal(corrupted(at_severities(declaration)[0], images), images),
        "changes no image at its weakest severity",
        "a change",
    )
    same = repeated_severities(declaration, images)
    require(not same, f"does at severity {sorted(same)} the same as at the one before", "another strength")


def repeated_severities(declaration: PerturbationBase, images: Tensor) -> set[int]:
    """Return the positions (from 1) of severities with the same result as the previous one."""
    results = [corrupted(each, images) for each in at_severities(declaration)]
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


def require_range(images: Tensor, where: str = "") -> None:
    """Require that images lie in [0, 1], without NaN."""
    is_within = bool(((images >= 0) & (images <= 1)).all())
    found = f"returns values from {float(images.min()):.6g} to {float(images.max()):.6g}{where}"
    require(is_within, found, "values in [0, 1]")


def corrupted(declaration: PerturbationBase, images: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
    """Return images (B, 3, H, W) with the corruption; the seeds are 0, 1, 2 ... by default, and there is no model."""
    ids = tuple(f"example-{i}" for i in range(len(images)))
    batch = Batch(ids=ids, inputs=images, targets=torch.zeros(len(images), dtype=torch.int64))
    return perturbed(declaration, batch, NoModel(), seeds).inputs  # type: ignore[arg-type]  # on purpose


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
