"""The base of transformers: a backbone over time series needs its own embedding and head, and nothing else."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.attnscale import AttnScale
from robench.attention.mom import Mom
from robench.attention.nystrom import Nystrom
from robench.attention.primal import Primal
from robench.attention.rpc import Rpc
from robench.declarations.base import FieldsError
from robench.models import RESIDUALS
from robench.models.build import build
from robench.models.transformer import Count, FeatScale, Transformer
from robench.models.transformer_impl import TransformerModel, encoder_block, mlp_of

REQUIRED = {"num_directions": 2, "projection_length": 3, "num_landmarks": 4, "num_features": 7}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(Transformer):
    """Transformer over patches of a series of numbers.

    Attributes:
        length: numbers of a series; ``patch``: numbers of a token; ``num_classes``: number of logits.
        is_causal: whether the last token classifies, and no token reads later ones.
    """

    kind: ClassVar[str] = "series"
    implementation: ClassVar[str] = f"{__name__}:SeriesModel"

    length: Count
    patch: Count
    num_classes: Count
    is_causal: bool = False

    @property
    def reads_causally(self) -> bool:
        return self.is_causal

    @property
    def num_tokens(self) -> int:
        return self.length // self.patch

    @property
    def mlp_parameters(self) -> int:
        return 4 * self.dim**2

    @property
    def embedding_parameters(self) -> int:
        return (self.patch + self.num_tokens + self.num_classes) * self.dim


class SeriesModel(TransformerModel):
    def __init__(self, architecture: Series) -> None:
        super().__init__()
        dim = architecture.dim
        self.patch = architecture.patch
        self.embedding = nn.Linear(architecture.patch, dim)
        self.positions = nn.Parameter(0.1 * torch.randn(architecture.num_tokens, dim))
        self.blocks = nn.ModuleList(
            encoder_block(architecture, layer, lambda: mlp_of(dim, 2 * dim, nn.GELU()))
            for layer in range(architecture.depth)
        )
        self.head = nn.Linear(dim, architecture.num_classes)

    def first_tokens(self, inputs: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(inputs.unflatten(1, (-1, self.patch))) + self.positions
        return embedded

    def position_vectors(self) -> Tensor:
        return self.positions

    def read_out(self, x_BNC: Tensor) -> Tensor:
        logits: Tensor = self.head(x_BNC[:, -1])
        return logits


SERIES = Series(length=24, patch=3, num_classes=5, depth=2, dim=12, num_heads=3)
X = torch.randn(3, 24, generator=torch.Generator().manual_seed(1))


def with_attention(kind: str, **fields: Any) -> Series:
    declared: Any = ATTENTIONS[kind]
    names = declared.__dataclass_fields__
    return replace(SERIES, attention=declared(**{name: REQUIRED[name] for name in REQUIRED if name in names}), **fields)


def built(architecture: Series) -> TransformerModel:
    torch.manual_seed(0)
    model = build(architecture).eval()
    assert isinstance(model, SeriesModel)
    return model


@pytest.mark.parametrize("residual", RESIDUALS.builtin)
@pytest.mark.parametrize("kind", ATTENTIONS.builtin)
def test_any_mechanism_goes_with_any_residual_connection(kind: str, residual: str) -> None:
    x = X.clone().requires_grad_()
    logits = built(with_attention(kind, residual=RESIDUALS[residual]()))(x, seeds=(1, 2, 3))
    logits.sum().backward()
    assert logits.shape == (3, 5)
    assert x.grad is not None
    assert bool(x.grad.isfinite().all() and x.grad.any())


@pytest.mark.parametrize("kind", [kind for kind, each in ATTENTIONS.builtin.items() if each.has_causal_form])
def test_in_a_causal_backbone_no_token_reads_later_ones(kind: str) -> None:
    attention = Primal(num_directions=2, data_dependent=False) if kind == "primal" else with_attention(kind).attention
    model = built(replace(SERIES, attention=attention, is_causal=True))
    later = torch.cat([X[:, :12], 3 - X[:, 12:]], dim=1)
    before, after = (model.through_blocks(x, seeds=(1, 2, 3)) for x in (X, later))
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_heads": 5}, r"^dim must be a multiple of num_heads 5, got 12$"),
        ({"attention": Rpc(layers=(0, 7))}, r"^attention.layers must lie in 0..1 \(depth 2\), got \[7\]$"),
        (
            {"attention": Nystrom(num_landmarks=9)},
            r"^attention.num_landmarks must be at most the 8 tokens of the backbone, got 9$",
        ),
        (
            {"dim": 60_000, "num_heads": 1, "depth": 900},
            r"^dim must be so small, with the other sizes, that there are at most 2,000,000,000 parameters, got about",
        ),
        (
            {"is_causal": True, "attention": AttnScale(), "residual": FeatScale()},
            r"^attention must have a causal form; attnscale has none: .*; residual must have a causal form; featscale",
        ),
    ],
)
def test_attention_and_sizes_are_checked_against_the_backbone(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldsError, match=message):
        replace(SERIES, **fields)
    assert replace(SERIES, is_causal=True, attention=Mom()).attention == Mom()
