"""Declarations of transformers over patches: ViT, ViT that sees rounded images, and fully attentional networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attention.geometry import TokenLayout
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem
from robench.models.transformer import Boost, Count, PlainResidual, Transformer

Side = Annotated[int, Ge(1), Le(4096)]
# Images of 4096 pixels in patches of 16.
MOST_TOKENS = 65_537
TOKEN_MIXINGS: Sequence[type[DeclarationBase]] = (Softmax, Symmetric, Rpc, Twicing)
FAN_RESIDUALS: Sequence[type[DeclarationBase]] = (PlainResidual, Boost)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTransformer(Transformer):
    """Transformer over square patches of an image.

    Attributes:
        image_size, patch_size: side lengths in pixels; ``num_channels``: number of channels of the images.
        num_classes: number of logits.
        mlp_ratio: hidden width of the MLP over ``dim``.
    """

    takes_drop_path: ClassVar[bool] = True

    image_size: Side
    patch_size: Side
    num_classes: Annotated[int, Ge(1), Le(LARGEST)]
    num_channels: Count = 3
    mlp_ratio: Annotated[float, Gt(0), Le(1000)] = 4.0

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return channels, height and width of an image."""
        return self.num_channels, self.image_size, self.image_size

    @property
    def num_patches(self) -> int:
        """Return the number of patches of an image."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of an attention layer."""
        return self.num_patches

    @property
    def layout(self) -> TokenLayout:
        """Return the places of the tokens of an attention layer: patches behind class and distillation token."""
        side = self.image_size // self.patch_size
        return TokenLayout(num_special=self.num_tokens - self.num_patches, grid=(side, side))

    @property
    def mlp_parameters(self) -> int:
        """Return the approximate number of parameters of the MLP of a block."""
        return round(2 * self.mlp_ratio * self.dim**2)

    @property
    def embedding_parameters(self) -> int:
        """Return the approximate number of parameters of positions, head and patches."""
        return (self.num_tokens + self.num_classes + self.num_channels * self.patch_size**2) * self.dim

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems between the sizes of an image, or else those of all transformers."""
        problems: list[FieldProblem] = []
        if self.image_size % self.patch_size:
            problems.append(
                ("image_size", f"must be a multiple of patch_size {self.patch_size}, got {self.image_size}")
            )
        if self.num_tokens > MOST_TOKENS:
            problems.append(("image_size", f"must give at most {MOST_TOKENS:,} tokens, got {self.num_tokens:,}"))
        # Named, since a class with slots is recreated and does not support a bare super().
        return problems + Transformer.contradictions(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vit(ImageTransformer):
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
        # Named, as above.
        problems = ImageTransformer.contradictions(self)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedVit(Vit):
    """Vision transformer behind rounding, whose gradient is zero: a reference of masked gradients, for no other use.

    Athalye et al. 2018, arXiv:1802.00420, call it a shattered gradient. Weights are those of ``vit``.

    Attributes:
        step: distance of the values that are left, in units of the normalised input.
    """

    kind: ClassVar[str] = "quantized-vit"
    implementation: ClassVar[str] = "robench.models.vit_impl:build_quantized_vit"

    step: Annotated[float, Gt(0), Le(100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan(ImageTransformer):
    """Fully attentional network (FAN-ViT). Zhou et al. 2022, arXiv:2204.12451.

    The class token joins the patches after the last block that mixes tokens.

    Attributes:
        patch_size: 8 or 16 pixels, embedded by three or four convolutions.
        num_class_blocks: number of class-attention blocks after the ``depth`` others, the only ones with the class
            token.
        class_attention: ``softmax`` has a query projection (NVlabs/FAN); in ``symmetric`` the query is the class
            token's key, with any ``attention`` (rachtsy/FAN, models/fan_sym.py).
        attention: token mixing in the ``depth`` blocks: softmax, symmetric, rpc or twicing.
        residual: plain or boost.
    """

    kind: ClassVar[str] = "fan"
    implementation: ClassVar[str] = "robench.models.fan_impl:FullyAttentionalNetwork"

    num_class_blocks: Count = 2
    class_attention: Literal["softmax", "symmetric"] = "softmax"

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: sizes, layers and mechanisms must be supported by the backbone."""
        embedded = [] if self.patch_size in (8, 16) else [("patch_size", f"must be 8 or 16, got {self.patch_size}")]
        return [
            *embedded,
            *ImageTransformer.contradictions(self),
            *_refused("attention", self.attention, TOKEN_MIXINGS),
            *_refused("residual", self.residual, FAN_RESIDUALS),
        ]


def _refused(field_name: str, declared: DeclarationBase, taken: Sequence[type[DeclarationBase]]) -> list[FieldProblem]:
    if type(declared) in taken:
        return []
    kinds = ", ".join(sorted(kind.kind for kind in taken))
    return [(field_name, f"must be one that backbone fan takes ({kinds}), got {declared.kind}")]
