"""Declaration of vision transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.declarations.base import FieldProblem
from robench.models.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class Vit(Transformer):
    """Vision transformer with learned positions, with timm's parameter names; by default with a class token (DeiT).

    Attributes:
        distilled: whether there is a distillation token with a separate head; logits are the mean of both heads.
        embedding: ``patches`` for one linear map of each patch, ``convolutions`` for 3x3 convolutions of stride 2 that
            halve the image until a token covers ``patch_size`` pixels, a power of two.
        pooling: input of the head: the ``class-token``, or the ``mean`` over all tokens, and then no class token.
    """

    kind: ClassVar[str] = "vit"
    implementation: ClassVar[str] = "robench.models.vit_impl:build_vit"

    distilled: bool = False
    embedding: Literal["patches", "convolutions"] = "patches"
    pooling: Literal["class-token", "mean"] = "class-token"

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens: patches, and the class and distillation tokens that the model has."""
        return self.num_patches + (self.pooling == "class-token") + self.distilled

    @property
    def num_convolutions(self) -> int:
        """Return the number of convolutions of stride 2 that reduce ``patch_size`` pixels to one token."""
        return self.patch_size.bit_length() - 1

    def contradictions(self) -> list[FieldProblem]:
        """Refuse distillation without a class token, and convolutions that do not halve down to a patch."""
        # Named, since a class with slots is recreated and does not support a bare super().
        problems = Transformer.contradictions(self)
        if self.distilled and self.pooling == "mean":
            problems.append(("distilled", "must be false with pooling mean, which has no class token, got true"))
        if self.embedding == "convolutions":
            steps = self.num_convolutions
            if self.patch_size != 2**steps or not steps:
                wanted = "must be a power of two from 2 with embedding convolutions"
                problems.append(("patch_size", f"{wanted}, got {self.patch_size}"))
            elif self.dim % 2 ** (steps - 1):
                wanted = (
                    f"must be a multiple of {2 ** (steps - 1)}, since each of {steps} convolutions doubles the width"
                )
                problems.append(("dim", f"{wanted}, got {self.dim}"))
        return problems
