"""Base class of the declarations of analyses, and what an implementation takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from robench.declarations.base import DeclarationBase

if TYPE_CHECKING:
    from torch import Tensor

    from robench.attention.geometry import TokenLayout
    from robench.attention.seen import Seen

# Subject of an analysis: a model's pass over examples, the change of that pass by a perturbation, or formulas alone.
Subject = Literal["pass", "change", "formula"]
# What a pass shows: fields of ``attention.seen.Seen`` without their axes, and the tokens between blocks.
Part = Literal["queries", "keys", "values", "weights", "heads", "tokens"]
# ``x`` and ``y`` are places on the axes of a figure.
Axis = Literal["layer", "head", "x", "y"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """Number that an analysis reports.

    Attributes:
        meaning: what it is, in a clause; the label of its axis in figures.
        unit: such as ``nats`` or ``patches``; empty for a pure number.
        axes: axes of the number, in this order, after that of the examples.
        x, y: labels of these axes with their units, if the number has them.
        is_of_examples: whether each example, or random sample of a formula, has its own, so that there are intervals.
        is_map: whether ``y`` and ``x`` are places in a plane, drawn as colours; else there is a line for each ``y``.
        beside: statistic in whose panel of a figure it is drawn; empty for a panel of its own.
    """

    meaning: str
    unit: str = ""
    axes: tuple[Axis, ...] = ("layer",)
    x: str = ""
    y: str = ""
    is_of_examples: bool = True
    is_map: bool = False
    beside: str = ""


class AnalysisBase(DeclarationBase):
    """Declaration of an analysis of what attention does inside a model.

    The implementation depends on ``subject``. It returns a tensor for each statistic. Its axes are the examples, if
    it ``is_of_examples``, and then the declared ones.

    * ``pass``: ``(declaration, Pass) -> Mapping[str, Tensor]``, for a batch of examples;
    * ``change``: ``(declaration, clean: Pass, perturbed: Pass) -> Mapping[str, Tensor]``, likewise;
    * ``formula``: ``(declaration) -> Mapping[str, Curve]``.

    Attributes:
        title: what it shows, in a clause.
        subject: what it analyses.
        needs: what each layer of a pass must show.
        needs_grid: whether tokens must be patches of an image.
        statistics: what it reports, by name.
    """

    title: ClassVar[str]
    subject: ClassVar[Subject] = "pass"
    needs: ClassVar[tuple[Part, ...]] = ()
    needs_grid: ClassVar[bool] = False
    statistics: ClassVar[Mapping[str, Statistic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Forward pass of a batch, as seen from inside.

    Attributes:
        layers: what each attention layer shows, from the first.
        tokens_BNC: tokens that enter the first block, and that leave each block: one more than ``layers``; empty for a
            model whose blocks are unknown.
        layout: meaning of the tokens.
    """

    layers: tuple[Seen, ...]
    tokens_BNC: tuple[Tensor, ...]
    layout: TokenLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Numbers of a formula, and their places.

    Attributes:
        values: axes as the statistic declares them.
        x, y: places along these axes, if the statistic has them.
    """

    values: Tensor
    x: Tensor | None = None
    y: Tensor | None = None
