"""Gradients through batch norms are right for batches of one, in whatever order they arrive in memory."""

import pytest
import torch
from torch import Tensor, nn

from robench.models.build import build, guard_batch_norms
from robench.models.vit import Fan


class Tokens(nn.Module):
    """A batch norm below the usual way from the output of a convolution, (B, C, H, W), to tokens, (B, H W, C)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x).flatten(2).transpose(1, 2)


def scattered(model: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.double().eval().state_dict().items():
            if value.is_floating_point():
                drawn = torch.rand(value.shape, generator=generator, dtype=value.dtype)
                value.copy_(0.5 + drawn if "var" in name else drawn - 0.5)
    return model.requires_grad_(False)


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradient(model: nn.Module, x: Tensor, weights: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model(x), x, weights)[0]


@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_gradient_is_that_of_an_affine_function(batch_size: int) -> None:
    model = scattered(Tokens())
    guard_batch_norms(model)
    norm = model.norm
    assert isinstance(norm, nn.BatchNorm2d)
    weights = drawn(batch_size, 4, 8, seed=2)
    slope = norm.weight / (norm.get_buffer("running_var") + norm.eps).sqrt()
    wanted = (weights * slope).transpose(1, 2).reshape(batch_size, 8, 2, 2)
    found = gradient(model, drawn(batch_size, 8, 2, 2), weights)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)


def test_outputs_are_bit_equal_with_the_guard() -> None:
    plain, guarded = scattered(Tokens()), scattered(Tokens())
    guard_batch_norms(guarded)
    assert torch.equal(plain(drawn(1, 8, 2, 2)), guarded(drawn(1, 8, 2, 2)))


def test_models_are_built_with_the_guard() -> None:
    """A single image's gradient is that which it has in a batch of two."""
    model = scattered(build(Fan(image_size=16, patch_size=8, num_classes=3, depth=1, dim=8, num_heads=2)))
    images, weights = drawn(2, 3, 16, 16), drawn(2, 3, seed=2)
    both = gradient(model, images, weights)
    alone = gradient(model, images[:1], weights[:1])
    torch.testing.assert_close(alone, both[:1], rtol=1e-9, atol=1e-12)
