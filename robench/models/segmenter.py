"""Declarations of segmenters: a transformer over the patches of windows of an image, and a decoder of its tokens."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Lt

from robench.attention.rpc import Rpc
from robench.attention.symmetric import Symmetric
from robench.declarations.base import FieldProblem
from robench.models.foreign import Timm
from robench.models.transformer import Count, Width
from robench.models.vit import Side, Vit

# Width of a head of the decoder, as published.
HEAD_WIDTH = 64
# Mechanisms that a decoder may have beside softmax.
DECODER_MIXINGS = (Symmetric, Rpc)
NumClasses = Annotated[int, Ge(2), Le(65_536)]


# Without slots, so that declarations with fields of their own can derive from it too.
@dataclass(frozen=True, kw_only=True)
class WindowDecoder:
    """Fields of segmenters beside their encoder: the decoder, and the windows in which an image is read.

    Attributes:
        decoder: ``linear``: one linear map of each patch's token to logits; ``mask-transformer``: softmax attention
            over patches and learned vectors of the classes, then their scalar products.
        decoder_depth: number of blocks of the mask transformer.
        decoder_heads: number of its attention heads; None for one for each 64 channels, at least one.
        decoder_dropout: probability with which training zeroes its attention weights, and values of its branches.
        stride: distance of windows in pixels; None for that of windows side by side.
        windows_per_pass: number of windows in a pass, where an image has several; the last pass repeats one.
    """

    decoder: Literal["linear", "mask-transformer"] = "mask-transformer"
    decoder_depth: Count = 2
    decoder_heads: Width | None = None
    decoder_dropout: Annotated[float, Ge(0), Lt(1)] = 0.1
    stride: Side | None = None
    windows_per_pass: Annotated[int, Ge(1), Le(4096)] = 4

    def decoder_problems(self, window: int) -> list[FieldProblem]:
        """Return the problems of fields that the decoder does not have, and of pixels that no window would see."""
        problems: list[FieldProblem] = []
        if self.decoder == "linear":
            defaults = {"decoder_depth": 2, "decoder_heads": None, "decoder_dropout": 0.1}
            problems += [
                (name, f"has no effect with decoder linear, got {getattr(self, name)}")
                for name, default in defaults.items()
                if getattr(self, name) != default
            ]
        if self.stride is not None and self.stride > window:
            problems.append(("stride", f"must be at most image_size {window}, got {self.stride}"))
        return problems

    def heads_of(self, dim: int) -> int:
        """Return the number of heads of a mask transformer over tokens of width ``dim``."""
        return self.decoder_heads or max(1, dim // HEAD_WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmenter(WindowDecoder, Vit):
    """Segmenter with a vision transformer as encoder. Strudel et al. 2021, arXiv:2105.05633.

    Attributes:
        image_size: side of a window in pixels, square; images of any size are read in windows.
        num_classes: number of logits of a pixel.
        attention: attention of the encoder.
        decoder_attention: attention of the mask transformer: ``softmax``, or that of the encoder (``encoder``) with the
            same layers, as in the code of RPC-Attention (rachtsy/segm); of symmetric and rpc alone.
    """

    kind: ClassVar[str] = "segmenter"
    implementation: ClassVar[str] = "robench.models.segmenter_impl:build_segmenter"

    num_classes: NumClasses
    decoder_attention: Literal["softmax", "encoder"] = "softmax"

    @property
    def embedding_parameters(self) -> int:
        """Return the approximate number of parameters of positions, patches and decoder."""
        of_encoder = (self.num_tokens + self.num_channels * self.patch_size**2) * self.dim
        of_decoder = 0 if self.decoder == "linear" else (12 * self.decoder_depth + 3) * self.dim**2
        return of_encoder + of_decoder + self.num_classes * self.dim

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems of the encoder, between sizes of the decoder, and of windows."""
        # Named, since a class with slots is recreated and does not support a bare super().
        problems = Vit.contradictions(self) + self.decoder_problems(self.image_size)
        if self.decoder_heads is not None and self.dim % self.decoder_heads:
            problems.append(("decoder_heads", f"must divide dim {self.dim}, got {self.decoder_heads}"))
        if self.decoder_attention == "encoder" and not (
            self.decoder == "mask-transformer" and isinstance(self.attention, DECODER_MIXINGS)
        ):
            kinds = " or ".join(each.kind for each in DECODER_MIXINGS)
            wanted = f"must be softmax unless decoder is mask-transformer and attention {kinds}"
            problems.append(("decoder_attention", f"{wanted}, got encoder"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TimmSegmenter(WindowDecoder, Timm):
    """Segmenter with a vision transformer of the timm library as encoder, and the decoders of ``segmenter``.

    Attributes:
        image_size: side of a window in pixels, square, which timm gets as ``img_size``.
        num_classes: number of logits of a pixel.
    """

    kind: ClassVar[str] = "timm-segmenter"
    implementation: ClassVar[str] = "robench.models.segmenter_impl:build_timm_segmenter"

    image_size: Side
    num_classes: NumClasses

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return channels, height and width of a window."""
        channels = self.arguments.get("in_chans", 3)
        return channels if isinstance(channels, int) else 3, self.image_size, self.image_size

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems of timm's arguments, and of windows."""
        # Named, as above.
        problems = Timm.contradictions(self) + self.decoder_problems(self.image_size)
        for name, field in (("img_size", "image_size"), ("num_classes", "num_classes")):
            if name in self.arguments:
                problems.append((f"arguments.{name}", f"must not be there: state {field} beside arguments"))
        return problems
