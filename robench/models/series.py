"""Declarations of transformers over sequences of one padded length: their base, and that of time series."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Lt

from robench.attention.geometry import TokenLayout
from robench.declarations.base import LARGEST, FieldProblem
from robench.models.transformer import Count, Transformer, Width


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequences(Transformer):
    """Transformer over sequences with one token per place, padding included.

    Attributes:
        num_steps: number of places; ``num_classes``: number of logits.
        feedforward: hidden width of the MLP.
        dropout: probability with which training zeroes values.
        padding: treatment of padding by attention; ``keys`` leaves it out.
    """

    num_steps: Width
    num_classes: Annotated[int, Ge(1), Le(LARGEST)]
    feedforward: Width
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    padding: str
    depth: Count = 2

    @property
    def num_tokens(self) -> int:
        """Return the number of places."""
        return self.num_steps

    @property
    def layout(self) -> TokenLayout:
        """Return the places of the tokens, which may be fewer where attention leaves padding out."""
        return TokenLayout(is_padded=self.padding == "keys")

    @property
    def mlp_parameters(self) -> int:
        """Return the number of parameters of the matrices of a block's MLP."""
        return 2 * self.dim * self.feedforward

    def contradictions(self) -> list[FieldProblem]:
        """Refuse masks of keys for mechanisms without them, and what all transformers refuse."""
        # Named, since a class with slots is recreated and does not support a bare super().
        problems = Transformer.contradictions(self)
        if self.padding == "keys" and (reason := self.attention.mask_problem):
            wanted = f"must not be keys with attention {self.attention.kind}"
            problems.append(("padding", f"{wanted}: {reason}; got keys"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(Sequences):
    """Encoder of time series with one token per step, as in the code of Primal-Attention for the UEA archive.

    Attributes:
        num_steps: number of steps of a series, padding included: that of the dataset's longest one.
        num_channels: number of channels.
        dropout: probability with which training zeroes values of embedded steps, of each branch, within the MLP, and
            after the last activation.
        padding: ``output``: attention sees padded steps, whose tokens are zeroed before the head alone, as in the
            authors' code; ``keys``: attention does not see them.
    """

    kind: ClassVar[str] = "series"
    implementation: ClassVar[str] = "robench.models.series_impl:SeriesModel"

    num_channels: Width
    padding: Literal["output", "keys"] = "output"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return steps and channels of a series."""
        return self.num_steps, self.num_channels

    @property
    def embedding_parameters(self) -> int:
        """Return the approximate number of parameters of projection, positions and head."""
        return self.dim * (self.num_channels + self.num_steps * (1 + self.num_classes))
