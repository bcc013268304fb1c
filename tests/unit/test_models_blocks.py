"""Blocks of transformers: residual connections, any attention inside, and a base for other inputs than images."""

import dataclasses
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import pytest
import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.attnscale import AttnScale
from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.mom import Mom
from robench.attention.nystrom import Nystrom
from robench.attention.primal import Primal
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.core.identity import to_plain
from robench.declarations.base import DeclarationBase, FieldsError
from robench.models import RESIDUALS
from robench.models.build import build
from robench.models.transformer import Boost, Count, FeatScale, PlainResidual, Transformer
from robench.models.transformer_impl import (
    BoostBlock,
    FeatScaleBlock,
    PlainBlock,
    TransformerModel,
    build_block,
    encoder_block,
    mlp_of,
    parts_of,
)
from robench.models.vit import Vit

SMALL = Vit(image_size=8, patch_size=4, num_classes=5, depth=3, dim=12, num_heads=3, mlp_ratio=2.0)
ADDED: list[DeclarationBase] = [Boost(), FeatScale(), FeatScale(formula="released")]
PAPER, RELEASED = FeatScale(formula="paper"), FeatScale(formula="released")


def title(declaration: DeclarationBase) -> str:
    fields = to_plain(declaration)
    assert isinstance(fields, dict)
    return "-".join(map(str, fields.values()))


def declared_without_choice(kind: str) -> DeclarationBase:
    """The attention of a kind at its defaults, with 1 for every field that has none."""
    declaration: Any = ATTENTIONS[kind]
    required = [field.name for field in dataclasses.fields(declaration) if field.default is dataclasses.MISSING]
    declared: DeclarationBase = declaration(**dict.fromkeys(required, 1))
    return declared


def block_of(residual: DeclarationBase) -> Any:
    """A block of two heads of width 3, in float64, whose parameters, but those of the connection, are random."""
    geometry = Geometry(dim=6, num_heads=2, num_tokens=5, depth=1, layer=0)
    block = build_block(residual, parts_of(Block(dim=6, num_heads=2), build_attention(Softmax(), geometry)))
    return scattered(block.double(), leave=("t", "lamb1", "lamb2"))


def scattered(module: nn.Module, *, leave: tuple[str, ...] = (), spread: float = 0.3) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.rpartition(".")[2] not in leave:
                parameter.copy_(spread * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module


def tokens(seed: int = 1, batch: int = 2) -> Tensor:
    return torch.randn(batch, 5, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def images() -> Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def set_to(parameter: nn.Parameter, value: float | Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(torch.as_tensor(value).expand(parameter.shape))


def model_of(residual: DeclarationBase, *, leave: tuple[str, ...] = ()) -> Any:
    return scattered(build(replace(SMALL, residual=residual)).double(), leave=leave).eval()


def test_every_declared_residual_has_a_block() -> None:
    assert all(callable(declared.implemented()) for declared in RESIDUALS.values())
    assert [type(block_of(each)) for each in (PlainResidual(), *ADDED[:2])] == [PlainBlock, BoostBlock, FeatScaleBlock]


@pytest.mark.parametrize("residual", ADDED, ids=title)
class TestEveryResidual:
    def test_a_new_block_is_the_plain_one_bit_for_bit(self, residual: DeclarationBase) -> None:
        for scale, dtype in product((1e-30, 1.0, 1e3), (torch.float32, torch.float64)):
            x_BNC, first_BNC = (scale * tokens()).to(dtype), (scale * tokens(seed=2)).to(dtype)
            plain, other = block_of(PlainResidual()).to(dtype), block_of(residual).to(dtype)
            assert torch.equal(other(x_BNC, first_BNC, ForwardState()), plain(x_BNC, first_BNC, ForwardState()))

    def test_its_parameters_count_when_they_are_not_zero(self, residual: DeclarationBase) -> None:
        added = [name for name, _ in block_of(residual).named_parameters() if "." not in name]
        for name in added:
            block = block_of(residual)
            before_BNC = block(tokens(), tokens(seed=2), ForwardState())
            set_to(block.get_parameter(name), 0.3)
            assert (block(tokens(), tokens(seed=2), ForwardState()) - before_BNC).abs().max() > 1e-3, name

    def test_its_gradients_agree_with_finite_differences(self, residual: DeclarationBase) -> None:
        block: Any = scattered(block_of(residual))
        own = {name: value for name, value in block.named_parameters() if "." not in name}

        def output(x: Tensor, branch: Tensor, first: Tensor, *parameters: Tensor) -> Tensor:
            for name, value in zip(own, parameters, strict=True):
                delattr(block, name)
                setattr(block, name, value)
            connected: Tensor = block.connected(x, branch, first)
            return connected

        inputs = [tokens(seed=seed)[:1].requires_grad_() for seed in range(3)]
        assert torch.autograd.gradcheck(output, (*inputs, *(value.detach().requires_grad_() for value in own.values())))

    def test_its_outputs_and_gradients_are_finite_in_float32_at_every_scale(self, residual: DeclarationBase) -> None:
        for scale in (0.0, 1e-30, 1e-4, 1.0, 1e3):
            block = scattered(block_of(residual)).float()
            x_BNC, first_BNC = (scale * tokens()).float().requires_grad_(), (scale * tokens(seed=2)).float()
            output_BNC = block(x_BNC, first_BNC, ForwardState())
            output_BNC.sum().backward()
            assert output_BNC.isfinite().all()
            assert x_BNC.grad is not None
            assert x_BNC.grad.isfinite().all()


class TestStateDict:
    def added_by(self, residual: DeclarationBase) -> dict[str, tuple[int, ...]]:
        plain = build(SMALL).state_dict()
        other = build(replace(SMALL, residual=residual)).state_dict()
        assert set(plain) <= set(other)
        assert all(plain[name].shape == other[name].shape for name in plain)
        assert not any(other[name].any() for name in set(other) - set(plain))
        return {name: tuple(value.shape) for name, value in other.items() if name not in plain}

    def test_boost_adds_a_scalar_to_each_block_zero_at_start(self) -> None:
        assert self.added_by(Boost()) == {f"blocks.{layer}.t": () for layer in range(3)}

    @pytest.mark.parametrize("residual", [PAPER, RELEASED], ids=title)
    def test_featscale_adds_two_factors_a_channel_to_each_block_zero_at_start(self, residual: FeatScale) -> None:
        names = [f"blocks.{layer}.{name}" for layer in range(3) for name in ("lamb1", "lamb2")]
        assert self.added_by(residual) == dict.fromkeys(names, (12,))

    @pytest.mark.parametrize(("residual", "added"), [(PlainResidual(), 0), (Boost(), 12), (PAPER, 12 * 2 * 192)])
    def test_deit_tiny_has_the_published_parameters_and_those(self, residual: DeclarationBase, added: int) -> None:
        tiny = Vit(image_size=224, patch_size=16, num_classes=1000, depth=12, dim=192, num_heads=3, residual=residual)
        with torch.device("meta"):
            assert sum(parameter.numel() for parameter in build(tiny).parameters()) == 5_717_416 + added


class TestBoost:
    def test_the_mlps_own_connection_stays_plain(self) -> None:
        block = block_of(Boost())
        set_to(block.t, 1.0)
        with torch.no_grad():
            for name in ("attn.proj", "mlp.fc2"):
                block.get_parameter(f"{name}.weight").zero_()
                block.get_parameter(f"{name}.bias").zero_()
        assert torch.equal(block(tokens(), tokens(seed=2), ForwardState()), tokens(seed=2))

    def test_the_first_tokens_are_those_that_enter_the_first_block_for_all_blocks(self) -> None:
        model, entered = model_of(Boost()), []
        for block in model.blocks:
            block.register_forward_pre_hook(lambda _, arguments: entered.append(arguments))
        model(images())
        embedded_BNC = model._pos_embed(model.patch_embed(images()))
        assert torch.equal(entered[0][0], embedded_BNC)
        assert all(torch.equal(first_BNC, embedded_BNC) for _, first_BNC, _ in entered)
        assert not torch.equal(entered[1][0], embedded_BNC)

    def test_a_whole_model_is_equation_31_block_by_block(self) -> None:
        model = model_of(Boost())
        first_BNC = x_BNC = model._pos_embed(model.patch_embed(images()))
        for layer, block in enumerate(model.blocks):
            t = model.state_dict()[f"blocks.{layer}.t"].item()
            x_BNC = block.attn(block.norm1(x_BNC), ForwardState()) + t * first_BNC + (1 - t) * x_BNC
            x_BNC = x_BNC + block.mlp(block.norm2(x_BNC))
        assert torch.allclose(model(images()), model.head(model.norm(x_BNC)[:, 0]), rtol=0, atol=1e-12)


class TestFeatScale:
    @pytest.mark.parametrize(("residual", "removing"), [(PAPER, -1.0), (RELEASED, -0.5)])
    def test_factors_of_zero_leave_the_input_alone(self, residual: FeatScale, removing: float) -> None:
        block = block_of(residual)
        set_to(block.lamb1, removing)
        set_to(block.lamb2, removing)
        connected_BNC = block.connected(tokens(), tokens(seed=4), tokens(seed=2))
        assert torch.allclose(connected_BNC, tokens(), rtol=0, atol=1e-12)

    def test_released_is_paper_with_twice_the_parameters(self) -> None:
        paper, released = scattered(block_of(PAPER)), scattered(block_of(RELEASED))
        given = (tokens(), tokens(), ForwardState())
        assert not torch.equal(paper(*given), released(*given))
        for name in ("lamb1", "lamb2"):
            set_to(paper.get_parameter(name), 2 * released.get_parameter(name))
        assert torch.equal(paper(*given), released(*given))

    def test_lamb1_scales_the_mean_over_the_tokens_and_lamb2_what_is_left(self) -> None:
        branch_BNC, factors = tokens(seed=4), torch.linspace(-2, 2, 6, dtype=torch.float64)
        mean_B1C = branch_BNC.mean(dim=1, keepdim=True)
        for name, scaled_BNC in (("lamb1", mean_B1C.expand_as(branch_BNC)), ("lamb2", branch_BNC - mean_B1C)):
            block = block_of(PAPER)
            set_to(block.get_parameter(name), factors)
            added_BNC = block.connected(tokens(), branch_BNC, tokens(seed=2)) - tokens() - branch_BNC
            assert torch.allclose(added_BNC, factors * scaled_BNC, rtol=0, atol=1e-12), name


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_any_attention_takes_any_residual(kind: str) -> None:
    attention = declared_without_choice(kind)
    plain = build(replace(SMALL, attention=attention)).state_dict()
    added = {name for residual in ADDED for name in build(replace(SMALL, residual=residual)).state_dict()}
    for residual in (PlainResidual(), *ADDED):
        model = scattered(build(replace(SMALL, attention=attention, residual=residual)), spread=0.1)
        assert set(plain) <= set(model.state_dict()) <= set(plain) | added
        pixels = images().float().requires_grad_()
        logits = model(pixels, seeds=(1, 2))
        logits.square().sum().backward()
        assert logits.shape == (2, 5)
        assert logits.isfinite().all()
        assert pixels.grad is not None
        assert pixels.grad.isfinite().all()
        assert pixels.grad.abs().max() > 0


class Dropped(nn.Module):
    """A branch that is always left out."""

    def forward(self, branch_BNC: Tensor) -> Tensor:
        return torch.zeros_like(branch_BNC)


class TestDropPath:
    """What is dropped is the branch f(Y), never what a residual connection takes from elsewhere."""

    def without(self, residual: DeclarationBase, *dropped: str) -> Any:
        block = scattered(block_of(residual))
        for name in dropped:
            setattr(block, name, Dropped())
        return block

    @pytest.mark.parametrize("residual", [PlainResidual(), PAPER, RELEASED], ids=title)
    def test_without_both_branches_a_block_is_the_identity(self, residual: DeclarationBase) -> None:
        block = self.without(residual, "drop_path1", "drop_path2")
        assert torch.equal(block(tokens(), tokens(seed=2), ForwardState()), tokens())

    @pytest.mark.parametrize("residual", [PlainResidual(), *ADDED], ids=title)
    def test_the_branches_are_dropped_apart(self, residual: DeclarationBase) -> None:
        outputs = [
            self.without(residual, *dropped)(tokens(), tokens(seed=2), ForwardState())
            for dropped in ((), ("drop_path1",), ("drop_path2",))
        ]
        assert all(not torch.equal(*pair) for pair in product(outputs, outputs) if pair[0] is not pair[1])


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
