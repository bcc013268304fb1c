"""Attention mechanisms whose cost grows linearly with the number of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from robench.declarations.base import DeclarationBase

Count = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(DeclarationBase):
    """Linear attention: the softmax is replaced by the feature map elu(x) + 1. Katharopoulos et al. 2020."""

    kind: ClassVar[str] = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearTwicing(DeclarationBase):
    """Twicing over linear attention: A V + A (V - A V) with A the weights of linear attention."""

    kind: ClassVar[str] = "linear-twicing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer(DeclarationBase):
    """Performer: softmax attention approximated by positive random features. Choromanski et al. 2021.

    Attributes:
        num_features: random features; ``redraw_seed``: of their projection, which is kept in the state dict.
    """

    kind: ClassVar[str] = "performer"

    num_features: Count
    redraw_seed: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Linformer(DeclarationBase):
    """Linformer: keys and values are projected to fewer tokens by one learned matrix. Wang et al. 2020."""

    kind: ClassVar[str] = "linformer"

    projection_length: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Nystrom(DeclarationBase):
    """Nystrom attention: softmax attention approximated through landmarks. Xiong et al. 2021."""

    kind: ClassVar[str] = "nystrom"

    num_landmarks: Count
