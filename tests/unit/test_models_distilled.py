"""DeiT's distilled form: timm's model in all but the attention, and the undistilled form as it was."""

from __future__ import annotations

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
from robench.attention.state import ForwardState
from robench.core.identity import key_of
from robench.declare import read_registry
from robench.models.build import build
from robench.models.transformer import Boost
from robench.models.vit import Vit

DEIT_TINY = Vit(
    image_size=224, patch_size=16, num_classes=1000, depth=12, dim=192, num_heads=3, distilled=True
)  # fmt: skip
SMALL = Vit(image_size=8, patch_size=4, num_classes=5, depth=3, dim=12, num_heads=3, mlp_ratio=2.0, distilled=True)
# Fields of mechanisms that have no default.
REQUIRED: dict[str, int] = {"num_directions": 2, "projection_length": 3, "num_landmarks": 2, "num_features": 8}


def seeded(architecture: Vit, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(architecture)


def perturbed(module: nn.Module) -> nn.Module:
    """The module with tokens, biases and norms away from their initial values, so that each of them counts."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module


def images(side: int = 8) -> Tensor:
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


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


class TestAgainstTimm:
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
        module = perturbed(seeded(SMALL).double()).train(training)
        one, other = self.heads(module)
        assert torch.equal(module(images()), (one + other) / 2)
        assert (one - other).abs().min() > 1e-6

    def test_told_so_a_model_in_training_gives_both_and_in_evaluation_still_their_mean(self) -> None:
        module = perturbed(seeded(SMALL).double())
        one, other = self.heads(module)
        module.set_distilled_training(True)  # type: ignore[operator]  # timm's own
        pair = module.train()(images())
        assert torch.equal(pair[0], one)
        assert torch.equal(pair[1], other)
        assert torch.equal(module.eval()(images()), (one + other) / 2)


class TestTokens:
    def test_learned_positions_reach_the_layers_with_the_rows_of_both(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = build(replace(SMALL, attention=Bilateral()))
        seen: list[Tensor | None] = []
        forward = BilateralAttention.forward

        def spied(self: BilateralAttention, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
            assert state is not None
            seen.append(state.positions_NC)
            return forward(self, x_BNC, state)

        monkeypatch.setattr(BilateralAttention, "forward", spied)
        module(images().float())
        assert len(seen) == SMALL.depth
        assert all(positions is not None and positions.shape == (SMALL.num_tokens, 12) for positions in seen)
        assert torch.equal(seen[0], module.get_parameter("pos_embed")[0])  # type: ignore[arg-type]  # none is None

    @pytest.mark.parametrize("kind", ATTENTIONS)
    def test_every_mechanism_works_with_both(self, kind: str) -> None:
        module = seeded(replace(SMALL, attention=declared(kind), residual=Boost())).double()
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
        ours = seeded(replace(SMALL, distilled=False)).state_dict()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            theirs = VisionTransformer(
                img_size=8, patch_size=4, num_classes=5, depth=3, embed_dim=12, num_heads=3, mlp_ratio=2.0
            )
            # The attention that takes timm's place draws weights of its own before all are drawn again.
            for _ in range(SMALL.depth):
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
    def test_the_published_ones_are_declared(
        self, size: str, dim: int, num_heads: int, sha256: str, accuracy: float
    ) -> None:
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
