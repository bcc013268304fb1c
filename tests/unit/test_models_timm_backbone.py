"""Any model of timm, by its name: with its arguments, without its weights, and without fused attention."""

from typing import Any

import pytest
import timm
import torch
from torch import nn

from robench.core.errors import DeclarationError, UnknownNameError
from robench.models.build import build
from robench.models.foreign import Timm

TINY: dict[str, Any] = {"img_size": 32, "num_classes": 5, "depth": 2, "embed_dim": 12, "num_heads": 3}


def fused(module: nn.Module) -> list[bool]:
    return [bool(part.fused_attn) for part in module.modules() if hasattr(part, "fused_attn")]


def test_the_model_is_timms_with_the_declared_arguments() -> None:
    module = build(Timm(name="vit_tiny_patch16_224", arguments=TINY))
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 5)
    assert set(module.state_dict()) == set(timm.create_model("vit_tiny_patch16_224", **TINY).state_dict())


def test_fused_attention_is_off_in_every_layer_and_in_this_model_alone() -> None:
    assert fused(timm.create_model("vit_tiny_patch16_224", **TINY)) == [True, True]
    assert fused(build(Timm(name="vit_tiny_patch16_224", arguments=TINY))) == [False, False]
    assert fused(timm.create_model("vit_tiny_patch16_224", **TINY)) == [True, True]


def test_the_unfused_model_computes_what_the_fused_one_does() -> None:
    theirs = timm.create_model("vit_tiny_patch16_224", **TINY).double().eval()
    ours = build(Timm(name="vit_tiny_patch16_224", arguments=TINY)).double().eval()
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(ours(images), theirs(images), rtol=0, atol=1e-12)


def test_initial_weights_come_from_torchs_global_generator() -> None:
    states = []
    with torch.random.fork_rng():
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            states.append(build(Timm(name="vit_tiny_patch16_224", arguments=TINY)).state_dict()["pos_embed"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_a_tag_of_pretrained_weights_is_part_of_timms_names() -> None:
    module = build(Timm(name="vit_tiny_patch16_224.augreg_in21k_ft_in1k", arguments=TINY))
    assert module(torch.zeros(1, 3, 32, 32)).shape == (1, 5)


def test_an_unknown_name_gets_the_nearest_of_timms() -> None:
    with pytest.raises(UnknownNameError) as caught:
        build(Timm(name="vit_tiny_patch16_242"))
    message = str(caught.value)
    assert "unknown timm model 'vit_tiny_patch16_242'. Did you mean 'vit_tiny_patch16_224'?" in message
    assert f"the nearest of the {len(timm.list_models())} names" in message
    assert len(message) < 600


@pytest.mark.parametrize("name", ["hf-hub:timm/resnet18.a1_in1k", "local-dir:/tmp", "", "../resnet18", "zzzzzz"])
def test_names_that_would_lead_elsewhere_are_unknown(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown timm model"):
        build(Timm(name=name))


@pytest.mark.parametrize("argument", ["pretrained", "checkpoint_path", "pretrained_cfg", "cache_dir"])
def test_arguments_by_which_timm_would_load_weights_itself_are_refused(argument: str) -> None:
    with pytest.raises(DeclarationError, match=rf"must not name {argument}, because weights come from"):
        build(Timm(name="vit_tiny_patch16_224", arguments={argument: True}))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vit_tiny_patch16_224", {"no_such_argument": 1}),
        ("vit_tiny_patch16_224", {"num_heads": 5}),
        ("vit_tiny_patch16_224.no_such_tag", {}),
    ],
)
def test_what_timm_refuses_becomes_a_declaration_error_with_its_cause(name: str, arguments: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match=r"cannot be built with arguments .*Check them") as caught:
        build(Timm(name=name, arguments=arguments))
    assert caught.value.__cause__ is not None
