"""Contract of analyses: ``check_analysis(MyAnalysis())``."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from robench.analyses.base import AnalysisBase, Curve, Pass, Statistic
from robench.analyses.observing import layout_of, observe
from robench.attention.base import AttentionBase
from robench.attention.geometry import Geometry, TokenLayout
from robench.attention.seen import Seen, ShowsInside
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.attention.twicing import Twicing
from robench.models.build import build
from robench.models.vit import Vit
from robench.testing.attention import StandaloneLayer, tokens_for
from robench.testing.expectations import (
    DECLARATION_CHECKS,
    BrokenPromiseError,
    require,
    run_checks,
    subject_of,
    watched_generators,
)

__all__ = ["ANALYSIS_CHECKS", "check_analysis", "pass_of", "random_images", "random_model", "rows_of"]

DEPTH, NUM_HEADS, NUM_EXAMPLES = 3, 2, 3
SPREAD = 0.4
# Of a row alone and among others: batched products may round differently, and ratios of small numbers show it.
ROW_TOLERANCE = 1e-6
FIELDS = {"queries": "queries_BHND", "keys": "keys_BHMD", "values": "values_BHMD", "weights": "weights_BHNM"}


def check_analysis(declaration: AnalysisBase) -> None:
    """Check that an analysis fulfils all contracts of robench's own analyses, on passes of tiny models."""
    subject = subject_of("analysis", declaration, AnalysisBase)
    run_checks(subject, (*DECLARATION_CHECKS, *ANALYSIS_CHECKS), declaration)


def statistics_say_their_axes(declaration: AnalysisBase) -> None:
    """Check that there are statistics, with a meaning, and with labels of the axes ``x`` and ``y`` that they have."""
    require(bool(declaration.statistics), "has no statistics", "at least one")
    for name, statistic in declaration.statistics.items():
        twice = len(set(statistic.axes)) < len(statistic.axes)
        require(not twice, f"has {name} with axes {statistic.axes}", "each axis once")
        require(bool(statistic.meaning), f"has {name} without a meaning", "a clause")
        for axis, label in (("x", statistic.x), ("y", statistic.y)):
            has_label = "a" if label else "no"
            require(
                bool(label) == (axis in statistic.axes),
                f"has {name} with axes {statistic.axes} and {has_label} label of {axis}",
                "a label of each of the axes x and y, and of no other",
            )


def it_returns_what_it_declares(declaration: AnalysisBase) -> None:
    """Check names, axes, types and finiteness of the numbers, in float64 and float32."""
    if declaration.subject == "formula":
        curves: Mapping[str, object] = declaration.implemented()(declaration)
        _require_names(declaration, curves)
        for name, statistic in declaration.statistics.items():
            _require_curve(name, curves[name], statistic)
        return
    for passes in passes_for(declaration):
        found = numbers_of(declaration, passes)
        _require_names(declaration, found)
        for name, statistic in declaration.statistics.items():
            _require_numbers(name, found[name], statistic, passes[-1])


def it_reads_only_what_it_needs(declaration: AnalysisBase) -> None:
    """Check that passes without the parts that it does not declare to need are enough."""
    for passes in passes_for(declaration):
        needed = tuple(_with_needs_alone(declaration, each) for each in passes)
        try:
            numbers_of(declaration, needed)
        except Exception as error:
            needs = ", ".join(declaration.needs) or "nothing"
            raise BrokenPromiseError(
                f"raised {type(error).__name__} for a pass that shows only {needs}, which it needs; expected all that"
                " it reads in needs"
            ) from error


def it_changes_and_draws_nothing(declaration: AnalysisBase) -> None:
    """Check that it leaves the tensors of the pass as they are, and has equal numbers when called again."""
    for passes in passes_for(declaration)[:1]:
        copies = tuple(rows_of(each, range(NUM_EXAMPLES)) for each in passes)
        with watched_generators():
            found = numbers_of(declaration, passes)
        same = all(
            torch.equal(part, other)
            for each, copy in zip(passes, copies, strict=True)
            for part, other in zip(_parts(each), _parts(copy), strict=True)
        )
        require(same, "writes into the tensors of the pass", "reading alone")
        again = numbers_of(declaration, copies)
        changed = [name for name in found if not torch.equal(found[name], again[name])]
        require(not changed, f"has other {', '.join(changed)} when called again", "the same to the bit")


def examples_do_not_influence_each_other(declaration: AnalysisBase) -> None:
    """Check that numbers of examples are the same alone and among others."""
    for passes in passes_for(declaration):
        found = numbers_of(declaration, passes)
        for place in range(NUM_EXAMPLES):
            alone = numbers_of(declaration, tuple(rows_of(each, [place]) for each in passes))
            for name, statistic in declaration.statistics.items():
                if statistic.is_of_examples:
                    wanted, row = found[name][place], alone[name][0]
                    same = torch.allclose(row, wanted, rtol=ROW_TOLERANCE, atol=ROW_TOLERANCE)
                    require(same, f"has another {name} of example {place} alone than in a batch", "the same")


ANALYSIS_CHECKS = (
    statistics_say_their_axes,
    it_returns_what_it_declares,
    it_reads_only_what_it_needs,
    it_changes_and_draws_nothing,
    examples_do_not_influence_each_other,
)


def numbers_of(declaration: AnalysisBase, passes: Sequence[Pass]) -> Mapping[str, Tensor]:
    """Return the numbers of an analysis of passes."""
    found: Mapping[str, Tensor] = declaration.implemented()(declaration, *passes)
    return found


def passes_for(declaration: AnalysisBase) -> list[tuple[Pass, ...]]:
    """Return the passes to check an analysis with, a clean and a perturbed one for changes; none for formulas."""
    if declaration.subject == "formula":
        return []
    clean, perturbed = _passes(0.0), _passes(0.3)
    pairs = zip(clean, perturbed, strict=True) if declaration.subject == "change" else ((each,) for each in clean)
    return [each for each in pairs if each[0].layout.grid or not declaration.needs_grid]


@cache
def _passes(shift: float) -> tuple[Pass, ...]:
    """Return passes with a class token, without one in float32, and of causal layers without patches."""
    classified = random_model(Softmax())
    pooled = random_model(Twicing(), pooling="mean")
    return (
        pass_of(*classified, random_images().double() + shift),
        pass_of(pooled[0], pooled[1].float(), random_images() + shift),
        _causal_pass(shift),
    )


def random_model(attention: AttentionBase, **fields_of_vit: Any) -> tuple[Vit, nn.Module]:
    """Return a vision transformer of 2 x 2 patches in float64, with normal random parameters, and its declaration."""
    sizes: dict[str, Any] = {"image_size": 8, "patch_size": 4, "num_classes": 5, "dim": 8, "num_heads": NUM_HEADS}
    architecture = Vit(depth=DEPTH, attention=attention, **sizes | fields_of_vit)
    with torch.random.fork_rng(devices=[]):
        module = build(architecture).double().eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(SPREAD * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return architecture, module


def random_images(num_images: int = NUM_EXAMPLES) -> Tensor:
    """Return normal random images for ``random_model``."""
    return torch.randn(num_images, 3, 8, 8, generator=torch.Generator().manual_seed(5))


def pass_of(architecture: Vit, module: nn.Module, images: Tensor) -> Pass:
    """Return the pass of images through a model."""
    return observe(module, lambda: module(images), layout_of(architecture))


def _causal_pass(shift: float) -> Pass:
    geometry = Geometry(dim=8, num_heads=NUM_HEADS, num_tokens=5, depth=DEPTH, layer=0, is_causal=True)
    entering_BNC = tokens_for(geometry, batch=NUM_EXAMPLES)
    tokens_BNC, layers = [entering_BNC + shift * entering_BNC.sin()], []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for layer in range(DEPTH):
            attention = StandaloneLayer(Softmax(), replace(geometry, layer=layer)).double().layer
            assert isinstance(attention, ShowsInside)
            layers.append(attention.seen(tokens_BNC[-1], ForwardState()))
            tokens_BNC.append(tokens_BNC[-1] + attention(tokens_BNC[-1]))
    return Pass(layers=tuple(layers), tokens_BNC=tuple(tokens_BNC), layout=TokenLayout())


def rows_of(seen: Pass, places: Sequence[int]) -> Pass:
    """Return copies of the tensors of some of the examples."""

    def kept(part: Tensor | None) -> Tensor | None:
        return None if part is None else part[list(places)].clone()

    return Pass(
        layers=tuple(
            Seen(**{field.name: kept(getattr(layer, field.name)) for field in fields(Seen)})  # type: ignore[arg-type]
            for layer in seen.layers
        ),
        tokens_BNC=tuple(tokens_BNC[list(places)].clone() for tokens_BNC in seen.tokens_BNC),
        layout=seen.layout,
    )


def _with_needs_alone(declaration: AnalysisBase, seen: Pass) -> Pass:
    needless: dict[str, Any] = {name: None for part, name in FIELDS.items() if part not in declaration.needs}
    return replace(
        seen,
        layers=tuple(replace(layer, **needless, rest_BHND=None) for layer in seen.layers),
        tokens_BNC=seen.tokens_BNC if "tokens" in declaration.needs else (),
    )


def _parts(seen: Pass) -> list[Tensor]:
    found = [getattr(layer, field.name) for layer in seen.layers for field in fields(Seen)]
    return [*(part for part in found if part is not None), *seen.tokens_BNC]


def _require_names(declaration: AnalysisBase, found: Mapping[str, object]) -> None:
    expected = ", ".join(sorted(declaration.statistics))
    require(found.keys() == declaration.statistics.keys(), f"returns {', '.join(sorted(found))}", expected)


def _require_numbers(name: str, numbers: Tensor, statistic: Statistic, seen: Pass) -> None:
    _require_real(name, numbers)
    layers = (DEPTH, DEPTH + 1) if seen.tokens_BNC else (DEPTH,)
    sizes = {"layer": layers, "head": (NUM_HEADS,)}
    wanted = [(NUM_EXAMPLES,)] * statistic.is_of_examples + [sizes.get(axis, ()) for axis in statistic.axes]
    fits = numbers.ndim == len(wanted) and all(
        size in allowed if allowed else size > 0 for size, allowed in zip(numbers.shape, wanted, strict=False)
    )
    axes = ("examples",) * statistic.is_of_examples + statistic.axes
    found = f"returns {name} of shape {tuple(numbers.shape)} for {NUM_EXAMPLES} examples, {DEPTH} layers of 2 heads"
    require(fits, found, f"the axes {', '.join(axes)}, where layers may begin with the embedding")


def _require_curve(name: str, curve: object, statistic: Statistic) -> None:
    require(isinstance(curve, Curve), f"returns {name} as {type(curve).__name__}", "a Curve")
    assert isinstance(curve, Curve)
    _require_real(name, curve.values)
    # Random samples count as examples.
    axes = ("samples",) * statistic.is_of_examples + statistic.axes
    found = f"returns {name} of shape {tuple(curve.values.shape)}"
    require(curve.values.ndim == len(axes), found, f"the axes {', '.join(axes) or 'of a number'}")
    for axis, places in (("x", curve.x), ("y", curve.y)):
        size = curve.values.shape[axes.index(axis)] if axis in axes else 0
        length = 0 if places is None else len(places)
        require(length == size, f"returns {name} with {length} places on {axis}", f"{size}")


def _require_real(name: str, numbers: object) -> None:
    is_real = isinstance(numbers, Tensor) and numbers.dtype in (torch.float32, torch.float64)
    found = numbers.dtype if isinstance(numbers, Tensor) else type(numbers).__name__
    require(is_real, f"returns {name} as {found}", "a tensor of float32 or float64")
    assert isinstance(numbers, Tensor)
    require(bool(numbers.isfinite().all()), f"returns {name} that is infinite or no number", "finite numbers")
