"""What backbones tell attention mechanisms of the places of tokens, and distances on the grid, against loops."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from torch import Tensor, nn

from robench.attention.base import AttentionBase
from robench.attention.geometry import Geometry, TokenLayout
from robench.attention.state import ForwardState
from robench.models.base import ArchitectureBase
from robench.models.build import build
from robench.models.segmenter import Segmenter
from robench.models.series import Series
from robench.models.tokens import Tokens
from robench.models.vit import Vit
from robench.models.word_transformer import Language, TextClassifier

GIVEN: list[Geometry] = []
SIZES: dict[str, Any] = {"depth": 1, "dim": 8, "num_heads": 2}
IMAGE: dict[str, Any] = SIZES | {"image_size": 12, "patch_size": 4, "num_classes": 2}
SEQUENCE: dict[str, Any] = SIZES | {"num_steps": 5, "num_classes": 2, "feedforward": 8}
WORDS: dict[str, Any] = SIZES | {"vocabulary_size": 9, "context": 5, "feedforward": 8}
GRID = (3, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(AttentionBase):
    """Attention that notes its geometry and mixes nothing."""

    kind: ClassVar[str] = "noted"
    implementation: ClassVar[str] = "test_attention_geometry:NotedLayer"
    has_causal_form: ClassVar[bool] = True


class NotedLayer(nn.Module):
    def __init__(self, declaration: Noted, geometry: Geometry) -> None:
        super().__init__()
        GIVEN.append(geometry)

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        return x_BNC


@pytest.mark.parametrize(
    ("architecture", "num_tokens", "layout", "is_causal"),
    [
        (Vit(**IMAGE, attention=Noted()), 10, TokenLayout(num_special=1, grid=GRID), False),
        (Vit(**IMAGE, attention=Noted(), distilled=True), 11, TokenLayout(num_special=2, grid=GRID), False),
        (Vit(**IMAGE, attention=Noted(), pooling="mean"), 9, TokenLayout(grid=GRID), False),
        (Segmenter(**IMAGE, attention=Noted(), decoder="linear"), 10, TokenLayout(num_special=1, grid=GRID), False),
        (Series(**SEQUENCE, num_channels=2, attention=Noted()), 5, TokenLayout(), False),
        (Series(**SEQUENCE, num_channels=2, attention=Noted(), padding="keys"), 5, TokenLayout(is_padded=True), False),
        (Tokens(**SEQUENCE, vocabulary_size=9, attention=Noted()), 5, TokenLayout(is_padded=True), False),
        (TextClassifier(**WORDS, num_classes=2, attention=Noted()), 6, TokenLayout(num_special=1), False),
        (TextClassifier(**WORDS, num_classes=2, attention=Noted(), is_causal=True), 6, TokenLayout(), True),
        (Language(**WORDS, attention=Noted()), 5, TokenLayout(), True),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_a_mechanism_is_told_the_places_of_its_tokens(
    architecture: ArchitectureBase, num_tokens: int, layout: TokenLayout, is_causal: bool
) -> None:
    GIVEN.clear()
    build(architecture)
    (geometry,) = GIVEN
    assert (geometry.num_tokens, geometry.layout, geometry.is_causal) == (num_tokens, layout, is_causal)


@pytest.mark.parametrize(
    ("num_tokens", "layout"),
    [
        (12, TokenLayout(grid=(3, 4))),
        (8, TokenLayout(num_special=2, grid=(2, 3))),
        # Behind the patches, as the classes of a segmenter's decoder.
        (9, TokenLayout(grid=(3, 2))),
        (4, TokenLayout()),
        (5, TokenLayout(num_special=1)),
        (1, TokenLayout(num_special=1)),
    ],
)
def test_distances_are_those_of_a_loop(num_tokens: int, layout: TokenLayout) -> None:
    rows, columns = layout.grid or (1, num_tokens - layout.num_special)
    places = {layout.num_special + i: place for i, place in enumerate(product(range(rows), range(columns)))}
    wanted = [
        [math.dist(places[i], places[j]) if i in places and j in places else 0.0 for j in range(num_tokens)]
        for i in range(num_tokens)
    ]
    geometry = Geometry(dim=4, num_heads=2, num_tokens=num_tokens, depth=1, layer=0, layout=layout)
    # Square roots differ in the last bit between kinds of CPU.
    np.testing.assert_allclose(geometry.distances(), wanted, rtol=1e-14, atol=0)
