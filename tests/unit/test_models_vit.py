"""Vision transformers with declared attention: timm's model in all but the attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
from timm.layers.config import set_fused_attn, use_fused_attn
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric
from robench.core.errors import UnknownNameError
from robench.core.identity import to_plain
from robench.declarations.base import DeclarationBase, FieldsError
from robench.models import BACKBONES
from robench.models.build import build
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
            ours = build(
                Vit(image_size=224, patch_size=16, num_classes=1000, depth=12, dim=192, num_heads=3)
            ).state_dict()
        assert {name: value.shape for name, value in ours.items()} == {
            name: value.shape for name, value in theirs.items()
        }


class TestDeclaration:
    @pytest.mark.parametrize("attention", [Symmetric(), Rpc(), Rpc(layers="all"), Rpc(layers=(2,))])
    def test_symmetric_and_rpc_have_two_thirds_of_the_projections_and_else_the_same_keys(
        self, attention: DeclarationBase
    ) -> None:
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
            match=r"unknown backbone 'unheard'\. Known: fan, language, python, quantized-vit, segmenter, series,",
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
