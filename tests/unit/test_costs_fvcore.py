"""Counts of one layer of every mechanism beside those of fvcore and of torch."""

import logging
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from robench.attention import ATTENTIONS
from robench.costs.counting import CPU, counts_of, subject_of
from robench.models.single_layer import SingleLayer
from robench.runs.growth import attention_named

with warnings.catch_warnings():
    # It imports a deprecated part of torch.
    warnings.simplefilter("ignore")
    from fvcore.nn import FlopCountAnalysis

TOKENS, DIM, NUM_HEADS = 66, 12, 3
# A CPU multiplies the kernel by the masks of five subsets; counts are those of a GPU.
WITH_MASKS = {"mom", "fourier-mom"}
# Its code divides the number of tokens, which is a tensor while fvcore traces.
UNTRACEABLE = {"nystrom"}
# Its solver goes on until it has converged, and fvcore's trace of that lacks one product.
SOLVED = {"spkde"}


class WithSeeds(nn.Module):
    """Layer of tokens alone, since fvcore traces tensors."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Return (B, N, C)."""
        mixed_BNC: Tensor = self.layer(x_BNC, (0,))
        return mixed_BNC


@pytest.mark.parametrize("kind", sorted(ATTENTIONS.builtin))
def test_counts_of_a_layer_are_those_of_torch_and_fvcore(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    declared = SingleLayer(attention=attention_named(kind, {}), num_tokens=TOKENS, dim=DIM, num_heads=NUM_HEADS)
    counts = counts_of(kind, declared, None)
    subject = subject_of(kind, declared, None, CPU)
    layer = subject.module.requires_grad_(False)
    torch.manual_seed(0)
    x_BNC, seeds = subject.batch(1)
    layer(x_BNC, seeds)
    masks = 5 * NUM_HEADS * TOKENS**2 if kind in WITH_MASKS else 0
    with FlopCounterMode(display=False) as counter:
        layer(x_BNC, seeds)
    assert counter.get_total_flops() == 2 * (counts.multiply_adds("products") + masks)
    analysis = FlopCountAnalysis(WithSeeds(layer), x_BNC)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    if kind in UNTRACEABLE:
        with pytest.raises(TypeError, match="divmod"):
            analysis.total()
        return
    if kind not in SOLVED:
        assert analysis.total() == counts.multiply_adds("fvcore") + masks
