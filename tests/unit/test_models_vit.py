"""Vision transformers with declared attention: timm's model in all but the attention."""

from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from timm.layers.config import set_fused_attn, use_fused_attn
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.bilateral import Bilateral
from robench.attention.bilateral_impl import BilateralAttention
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.attention.symmetric import Symmetric
from robench.core.errors import UnknownNameError
from robench.core.identity import key_of, to_plain
from robench.declarations.base import DeclarationBase, FieldsError
from robench.declare import read_registry
from robench.models import BACKBONES
from robench.models.build import build
from robench.models.transformer import Boost
from robench.models.vit import Vit

SMALL = Vit(image_size=8, patch_size=4, num_classes=5, depth=3, dim=12, num_heads=3, mlp_ratio=2.0)


def seeded(architecture: Vit, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(architecture)


def images(side: int = 8, channels: int = 3) -> Tensor:
    return torch.randn(2, channels, side, side, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def perturbed(module: nn.Module) -> nn.Module:
    """The module with biases and norms away from their initial zeros and ones, so that each of them counts."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module


def test_every_declared_backbone_has_a_builder() -> None:
    assert all(callable(declared.implemented()) for declared in BACKBONES.values())


class TestAgainstTimm:
    def test_softmax_logits_are_bit_equal_to_timms_in_float64(self) -> None:
        was = use_fused_attn()
        set_fused_attn(False)
        try:
            theirs = VisionTransformer(
                img_size=8, patch_size=4, num_classes=5, depth=3, embed_dim=12, num_heads=3, mlp_ratio=2.0
            )
        finally:
            set_fused_attn(bool(was))
        ours = perturbed(seeded(SMALL).double()).eval()
        theirs.double().eval().load_state_dict(ours.state_dict())
        assert torch.equal(ours(images()), theirs(images()))

    def test_deit_tiny_has_the_state_dict_of_timms(self) -> None:
        with torch.device("meta"):
            theirs = timm.create_model("deit_tiny_patch16_224").state_dict()
            ours = build(replace(DEIT_TINY, distilled=False)).state_dict()
        assert {name: each.shape for name, each in ours.items()} == {name: each.shape for name, each in theirs.items()}


class TestDeclaration:
    @pytest.mark.parametrize("attention", [Symmetric(), Rpc(), Rpc(layers="all"), Rpc(layers=(2,))])
    def test_symmetric_and_rpc_have_two_thirds_of_the_projections(self, attention: DeclarationBase) -> None:
        softmax, other = build(SMALL).state_dict(), build(replace(SMALL, attention=attention)).state_dict()
        assert set(softmax) == set(other)
        for name, value in other.items():
            rows = len(softmax[name]) * 2 // 3 if ".attn.qkv." in name else len(softmax[name])
            assert len(value) == rows, name

    def test_channels_classes_and_sizes_are_as_declared(self) -> None:
        module = build(replace(SMALL, num_channels=1, num_classes=7, image_size=12, patch_size=3)).double()
        assert module(images(side=12, channels=1)).shape == (2, 7)
        assert module.get_parameter("pos_embed").shape == (1, 17, 12)
        assert module.get_parameter("blocks.0.mlp.fc1.weight").shape == (24, 12)

    def test_what_is_no_residual_and_an_unknown_backbone_are_refused(self) -> None:
        class Unheard(DeclarationBase):
            kind = "unheard"

        with pytest.raises(FieldsError, match="residual must be a declaration of the type ResidualBase, got "):
            build(replace(SMALL, residual=Unheard()))
        with pytest.raises(
            UnknownNameError,
            match=r"unknown backbone 'unheard'\. Known: behaviour-cloning, decision-transformer, fan, language,",
        ):
            build(Unheard())


class TestInitialWeights:
    @pytest.mark.parametrize("attention", [Softmax(), Symmetric(), Rpc()])
    def test_they_are_timms_truncated_normals_in_the_replaced_attention_too(self, attention: DeclarationBase) -> None:
        wide = replace(SMALL, dim=192, num_heads=3, attention=attention)
        state = seeded(wide).state_dict()
        for name in ("blocks.0.attn.qkv.weight", "blocks.2.attn.proj.weight", "blocks.1.mlp.fc1.weight", "pos_embed"):
            assert state[name].std().item() == pytest.approx(0.02, rel=0.1), name
            assert state[name].abs().max() <= 2.0
        for name in ("blocks.0.attn.qkv.bias", "blocks.2.attn.proj.bias", "blocks.1.mlp.fc1.bias", "head.bias"):
            assert not state[name].any(), name
        for name in ("blocks.0.norm1.weight", "norm.weight"):
            assert bool((state[name] == 1).all()), name


class TestConvolutionsAndMean:
    DECLARED = replace(SMALL, dim=8, num_heads=2, embedding="convolutions", pooling="mean")

    def test_logits_are_those_of_the_definition(self) -> None:
        """Write the whole pass from state dict and equations, for the sizes of CIFAR-10's models in small."""
        model = perturbed(seeded(self.DECLARED).double().eval())
        state = {name: value.detach() for name, value in model.state_dict().items()}

        def linear(x: Tensor, name: str) -> Tensor:
            return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

        def norm(x: Tensor, name: str) -> Tensor:
            centred = x - x.mean(-1, keepdim=True)
            scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
            return scaled * state[f"{name}.weight"] + state[f"{name}.bias"]

        def convolved(x: Tensor, name: str) -> Tensor:
            columns = nn.functional.unfold(x, 3, padding=1, stride=2)
            values = state[f"{name}.weight"].flatten(1) @ columns + state[f"{name}.bias"][:, None]
            return values.unflatten(2, (x.shape[2] // 2, x.shape[3] // 2))

        x = nn.functional.gelu(convolved(images(), "patch_embed.layers.0"))
        assert x.shape[1] == 4
        x = convolved(x, "patch_embed.layers.2").flatten(2).mT + state["pos_embed"]
        assert x.shape[1:] == (4, 8)
        for block in range(3):
            q, k, v = (
                linear(norm(x, f"blocks.{block}.norm1"), f"blocks.{block}.attn.qkv").unflatten(2, (3, 2, 4)).unbind(2)
            )
            weights = torch.einsum("bnhd,bmhd->bhnm", q, k).div(2).softmax(-1)
            mixed = torch.einsum("bhnm,bmhd->bnhd", weights, v).flatten(2)
            x = x + linear(mixed, f"blocks.{block}.attn.proj")
            hidden = nn.functional.gelu(linear(norm(x, f"blocks.{block}.norm2"), f"blocks.{block}.mlp.fc1"))
            x = x + linear(hidden, f"blocks.{block}.mlp.fc2")
        wanted = linear(norm(x, "norm").mean(1), "head")
        assert torch.allclose(model(images()), wanted, atol=1e-12)
        assert not {"cls_token"} & state.keys()

    def test_entries_without_them_keep_their_keys_and_tokens(self) -> None:
        assert "embedding" not in to_plain(SMALL)
        assert "pooling" not in to_plain(SMALL)
        assert (SMALL.num_tokens, self.DECLARED.num_tokens) == (5, 4)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"distilled": True}, "distilled must be false with pooling mean"),
            ({"patch_size": 1}, "patch_size must be a power of two from 2 with embedding convolutions, got 1"),
            ({"image_size": 12, "patch_size": 6}, "patch_size must be a power of two from 2"),
            ({"image_size": 16, "patch_size": 16}, "dim must be a multiple of 8"),
        ],
    )
    def test_sizes_that_do_not_fit_are_refused(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(FieldsError, match=message):
            replace(self.DECLARED, dim=12, **changes)


DEIT_TINY = Vit(
    image_size=224, patch_size=16, num_classes=1000, depth=12, dim=192, num_heads=3, distilled=True
)  # fmt: skip
DISTILLED = Vit(image_size=8, patch_size=4, num_classes=5, depth=3, dim=12, num_heads=3, mlp_ratio=2.0, distilled=True)
# Fields of mechanisms that have no default.
REQUIRED: dict[str, int] = {"num_directions": 2, "projection_length": 3, "num_landmarks": 2, "num_features": 8}


def timms(name: str) -> nn.Module:
    was = use_fused_attn()
    set_fused_attn(False)
    try:
        return timm.create_model(name)
    finally:
        set_fused_attn(bool(was))


def declared(kind: str) -> Any:
    """A mechanism with its defaults, and something for the fields that have none."""
    mechanism = ATTENTIONS[kind]
    required = [field.name for field in fields(mechanism) if field.default is field.default_factory is MISSING]  # type: ignore[arg-type]  # declarations are dataclasses
    return mechanism(**{name: REQUIRED[name] for name in required})


class TestDistilled:
    def test_deit_tiny_has_timms_keys_in_timms_order_and_its_logits_bit_for_bit_in_float64(self) -> None:
        theirs, ours = timms("deit_tiny_distilled_patch16_224").double().eval(), seeded(DEIT_TINY).double().eval()
        assert list(ours.state_dict()) == list(theirs.state_dict())
        perturbed(ours)
        theirs.load_state_dict(ours.state_dict(), strict=True)
        with torch.no_grad():
            assert torch.equal(ours(images(224)), theirs(images(224)))

    @pytest.mark.parametrize(
        ("name", "dim", "num_heads", "num_parameters"),
        [("tiny", 192, 3, 5_910_800), ("small", 384, 6, 22_436_432), ("base", 768, 12, 87_338_192)],
    )
    def test_published_sizes_have_timms_shapes_and_their_number_of_parameters(
        self, name: str, dim: int, num_heads: int, num_parameters: int
    ) -> None:
        with torch.device("meta"):
            theirs = timm.create_model(f"deit_{name}_distilled_patch16_224").state_dict()
            ours = build(replace(DEIT_TINY, dim=dim, num_heads=num_heads)).state_dict()
        assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in theirs.items()}
        assert sum(value.numel() for value in ours.values()) == num_parameters


class TestHeads:
    @staticmethod
    def heads(module: nn.Module) -> tuple[Tensor, Tensor]:
        tokens_BNC = module.forward_features(images())  # type: ignore[operator]  # a method of the transformer
        return module.get_submodule("head")(tokens_BNC[:, 0]), module.get_submodule("head_dist")(tokens_BNC[:, 1])

    @pytest.mark.parametrize("training", [True, False])
    def test_logits_are_the_mean_of_both_in_training_too(self, training: bool) -> None:
        module = perturbed(seeded(DISTILLED).double()).train(training)
        one, other = self.heads(module)
        assert torch.equal(module(images()), (one + other) / 2)
        assert (one - other).abs().min() > 1e-6

    def test_told_so_a_model_in_training_gives_both_and_in_evaluation_still_their_mean(self) -> None:
        module = perturbed(seeded(DISTILLED).double())
        one, other = self.heads(module)
        module.set_distilled_training(True)  # type: ignore[operator]  # timm's own
        pair = module.train()(images())
        assert torch.equal(pair[0], one)
        assert torch.equal(pair[1], other)
        assert torch.equal(module.eval()(images()), (one + other) / 2)


class TestTokens:
    def test_learned_positions_reach_the_layers_with_the_rows_of_both(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = build(replace(DISTILLED, attention=Bilateral()))
        seen: list[Tensor | None] = []
        forward = BilateralAttention.forward

        def spied(self: BilateralAttention, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
            assert state is not None
            seen.append(state.positions_NC)
            return forward(self, x_BNC, state)

        monkeypatch.setattr(BilateralAttention, "forward", spied)
        module(images().float())
        assert len(seen) == DISTILLED.depth
        assert all(positions is not None and positions.shape == (DISTILLED.num_tokens, 12) for positions in seen)
        assert torch.equal(seen[0], module.get_parameter("pos_embed")[0])  # type: ignore[arg-type]  # none is None

    @pytest.mark.parametrize("kind", ATTENTIONS)
    def test_every_mechanism_works_with_both(self, kind: str) -> None:
        module = seeded(replace(DISTILLED, attention=declared(kind), residual=Boost())).double()
        inputs = images().requires_grad_()
        logits = module(inputs, (1, 2))
        assert logits.shape == (2, 5)
        logits.square().sum().backward()
        assert inputs.grad is not None
        assert bool(inputs.grad.isfinite().all())
        for name in ("dist_token", "head_dist.weight"):
            gradient = module.get_parameter(name).grad
            assert gradient is not None
            assert bool(gradient.abs().sum() > 0), name


class TestUndistilled:
    def test_it_is_the_default_and_leaves_keys_of_shards_as_they_were(self) -> None:
        plain = Vit(image_size=8, patch_size=4, num_classes=5, depth=3, dim=12, num_heads=3)
        assert not plain.distilled
        # As it was before `distilled` was declared.
        assert key_of(plain) == "041d8158d9b24d1e16ca09054db25e7a"
        assert key_of(replace(plain, distilled=True)) != key_of(plain)

    def test_its_names_and_initial_weights_are_timms_draw_for_draw(self) -> None:
        ours = seeded(replace(DISTILLED, distilled=False)).state_dict()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            theirs = VisionTransformer(
                img_size=8, patch_size=4, num_classes=5, depth=3, embed_dim=12, num_heads=3, mlp_ratio=2.0
            )
            # The attention that takes timm's place draws weights of its own before all are drawn again.
            for _ in range(DISTILLED.depth):
                nn.Linear(12, 36), nn.Linear(12, 12)
            theirs.init_weights()
        wanted = theirs.state_dict()
        assert list(ours) == list(wanted)
        assert all(torch.equal(value, wanted[name]) for name, value in ours.items())


class TestRegistry:
    ENTRIES = read_registry(Path(__file__).parents[2] / "checkpoints.yaml")

    @pytest.mark.parametrize(
        ("size", "dim", "num_heads", "sha256", "accuracy"),
        [
            ("tiny", 192, 3, "b40b3cf7", 0.7448),
            ("small", 384, 6, "649709d9", 0.8116),
            ("base", 768, 12, "df68dfff", 0.8337),
        ],
    )
    def test_published_are_declared(self, size: str, dim: int, num_heads: int, sha256: str, accuracy: float) -> None:
        entry = self.ENTRIES[f"deit-{size}-distilled"]
        assert entry.architecture == replace(DEIT_TINY, dim=dim, num_heads=num_heads)
        assert entry.weights.uri == f"weights/deit_{size}_distilled_patch16_224-{sha256}.pth"
        assert (entry.weights.sha256, entry.weights.layout) == (sha256, "deit")
        assert entry.expected == {"top1_accuracy": accuracy}

    def test_every_entry_at_the_scale_of_imagenet_says_its_layout(self) -> None:
        # Language models are converted to robench's own layout.
        of_images = {name: entry for name, entry in self.ENTRIES.items() if entry.preprocessing.domain == "images"}
        large = {name: entry for name, entry in of_images.items() if entry.weights.uri.startswith("weights/")}
        assert len(large) > 35
        assert [name for name, entry in large.items() if entry.weights.layout == "plain"] == []
        assert {entry.weights.layout for name, entry in self.ENTRIES.items() if name not in large} == {"plain"}
