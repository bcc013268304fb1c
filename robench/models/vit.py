"""Declaration of vision transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.models.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class Vit(Transformer):
    """Vision transformer with a class token and learned positions (DeiT), with timm's parameter names.

    Attributes:
        distilled: whether there is a distillation token with a separate head; logits are the mean of both heads.
    """

    kind: ClassVar[str] = "vit"
    implementation: ClassVar[str] = "robench.models.vit_impl:build_vit"

    distilled: bool = False

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens: patches, the class token and, if there is one, the distillation token."""
        return self.num_patches + 1 + self.distilled
