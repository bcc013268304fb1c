"""Attention mechanisms whose cost grows linearly with the number of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.declarations.attention_base import AttentionBase
from robench.declarations.base import LARGEST, SEEDS

Count = Annotated[int, Ge(1), Le(LARGEST)]
Formula = Literal["paper", "released"]
DEFAULT_EPSILON = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(AttentionBase):
    """Linear attention: the softmax is replaced by the feature map elu(x) + 1, with neither a scale nor an epsilon.

    Katharopoulos et al. 2020, arXiv:2006.16236.
    """

    kind: ClassVar[str] = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearTwicing(AttentionBase):
    """Twicing over linear attention: A V + A (V - A V) with A the weights of linear attention. Twicing paper, B.1."""

    kind: ClassVar[str] = "linear-twicing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer(AttentionBase):
    """Performer: softmax attention approximated by positive random features. Choromanski et al. 2021, arXiv:2009.14794.

    Attributes:
        num_features: random features of a query or key.
        redraw_seed: from which each layer draws their projection, once; what was drawn is kept in the state dict.
        formula: features as printed (``paper``), or each over the largest of them, plus epsilon (``released``).
        epsilon: what ``released`` adds to each feature.
    """

    kind: ClassVar[str] = "performer"

    num_features: Count
    redraw_seed: Annotated[int, Ge(0), Lt(SEEDS)] = 0
    formula: Formula = "paper"
    epsilon: Annotated[float, Gt(0), Le(LARGEST)] = DEFAULT_EPSILON

    def contradictions(self) -> list[str]:
        """Features as printed have nothing added to them."""
        if self.formula == "released" or self.epsilon == DEFAULT_EPSILON:
            return []
        return [f"epsilon has no effect with formula paper, got {self.epsilon}"]

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many numbers a layer has beside those of softmax attention, drawn in blocks and with 64 bits."""
        head_dim = dim // num_heads
        return 4 * (self.num_features + head_dim) * head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Linformer(AttentionBase):
    """Linformer: keys and values are projected to fewer tokens by one learned matrix for each head and layer.

    Wang et al. 2020, arXiv:2006.04768.

    Attributes:
        projection_length: tokens after the projection, at most those before it.
    """

    kind: ClassVar[str] = "linformer"

    projection_length: Count

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return num_heads * self.projection_length * num_tokens

    def problems_in(self, *, num_tokens: int, depth: int) -> list[str]:
        """Return what does not fit a backbone: a projection to more tokens than it has."""
        return too_many("projection_length", self.projection_length, num_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nystrom(AttentionBase):
    """Nystrom attention: softmax attention approximated through landmarks. Xiong et al. 2021, arXiv:2102.03902.

    Attributes:
        num_landmarks: segments of tokens, of equal length or one more, whose means are the landmarks.
        formula: the pseudo-inverse starts at a scale of its own for each example and head (``paper``), or at one for
            all heads of the batch (``released``).
    """

    kind: ClassVar[str] = "nystrom"

    num_landmarks: Count
    formula: Formula = "paper"

    @property
    def is_coupled(self) -> bool:
        """Return True for the released formula; the kernel of a single landmark is 1 and has no scale to share."""
        return self.formula == "released" and self.num_landmarks > 1

    def problems_in(self, *, num_tokens: int, depth: int) -> list[str]:
        """Return what does not fit a backbone: more landmarks than it has tokens."""
        return too_many("num_landmarks", self.num_landmarks, num_tokens)


def too_many(field: str, asked: int, num_tokens: int) -> list[str]:
    """Return a message where more is asked for than there are tokens, no message elsewhere."""
    return (
        [f"{field} must be at most the {num_tokens} tokens of the backbone, got {asked}"] if asked > num_tokens else []
    )
