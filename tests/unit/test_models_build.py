"""Drop path is a matter of training: a rate of zero is the model as it was, and evaluation never drops."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from timm.layers import DropPath
from torch import Tensor, nn
from training_examples import ARCHITECTURE

from robench.attention.mom import Mom
from robench.attention.rpc import Rpc
from robench.core.errors import DeclarationError, UnknownNameError
from robench.models.build import build
from robench.models.foreign import Python, Timm
from robench.models.transformer import Boost, FeatScale
from robench.models.vit import Fan

FAN = Fan(image_size=32, patch_size=8, num_classes=10, depth=4, dim=16, num_heads=2)
TIMM = Timm(name="vit_tiny_patch16_224", arguments={"img_size": 32, "depth": 4, "embed_dim": 24})
FOUR = replace(ARCHITECTURE, depth=4)
EVERY: dict[str, Any] = {
    "softmax": FOUR,
    "rpc": replace(FOUR, attention=Rpc()),
    "mom": replace(FOUR, attention=Mom()),
    "boost": replace(FOUR, residual=Boost()),
    "featscale": replace(FOUR, residual=FeatScale()),
    "fan": FAN,
    "timm": TIMM,
}


def built(architecture: Any, *rate: float) -> nn.Module:
    torch.manual_seed(0)
    return build(architecture, *rate)


def output(model: nn.Module, seed: int = 1) -> Tensor:
    images = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(9))
    torch.manual_seed(seed)
    with torch.no_grad():
        found: Tensor = model(images)
    return found


def rates(model: nn.Module) -> list[float]:
    return [float(module.drop_prob or 0) for module in model.modules() if isinstance(module, DropPath)]


@pytest.mark.parametrize("architecture", EVERY.values(), ids=EVERY)
class TestEveryBackbone:
    def test_a_rate_of_zero_is_the_model_without_one_bit_for_bit(self, architecture: Any) -> None:
        plain, zero = built(architecture), built(architecture, 0.0)
        after = float(torch.rand(()))
        assert rates(zero) == []
        assert [(name, value.tolist()) for name, value in plain.state_dict().items()] == [
            (name, value.tolist()) for name, value in zero.state_dict().items()
        ]
        assert torch.equal(output(plain.train()), output(zero.train()))
        built(architecture)
        assert float(torch.rand(())) == after

    def test_a_rate_changes_neither_weights_nor_evaluation(self, architecture: Any) -> None:
        plain, dropping = built(architecture), built(architecture, 0.5)
        assert list(plain.state_dict()) == list(dropping.state_dict())
        assert all(torch.equal(value, dropping.state_dict()[name]) for name, value in plain.state_dict().items())
        assert torch.equal(output(plain.eval()), output(dropping.eval()))

    def test_in_training_branches_are_dropped_anew_each_time(self, architecture: Any) -> None:
        model = built(architecture, 0.5).train()
        assert torch.equal(output(model, 1), output(model, 1))
        assert not torch.equal(output(model, 1), output(model, 2))


def test_the_rate_rises_linearly_with_depth_as_in_timm() -> None:
    assert rates(built(FOUR, 0.3)) == pytest.approx([rate for rate in (0.1, 0.2, 0.3) for _ in range(2)])
    assert rates(built(FOUR, 0.3)) == rates(built(TIMM, 0.3))


def test_what_an_entry_says_of_a_timm_model_counts_more() -> None:
    own = replace(TIMM, arguments={**TIMM.arguments, "drop_path_rate": 0.6})
    assert (
        rates(built(own, 0.3))
        == rates(built(own))
        == pytest.approx([rate for rate in (0.2, 0.4, 0.6) for _ in range(2)])
    )


def test_a_model_of_the_users_own_takes_none() -> None:
    with pytest.raises(DeclarationError, match=r"takes no drop path, got drop_path_rate 0\.1"):
        build(Python(target="package.module:function"), 0.1)


def test_a_declaration_of_no_backbone_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown backbone 'rpc'"):
        build(Rpc(), 0.1)


@pytest.mark.parametrize(
    "raised",
    [
        RuntimeError("[enforce fail] not enough memory\nframe 1"),
        MemoryError(),
        OverflowError("too large"),
        ValueError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_building_name_the_declared_sizes(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(architecture: object) -> nn.Module:
        raise raised

    monkeypatch.setattr("robench.models.vit_impl.build_vit", fail)
    with pytest.raises(DeclarationError) as caught:
        build(FOUR)
    message = str(caught.value)
    assert message.startswith("backbone 'vit' cannot be built with depth 4, dim 12, num_heads 2, image_size 32")
    assert type(raised).__name__ in message
    assert message.isprintable()
    assert caught.value.exit_code == 2
