"""The adaptive softmax is torch's, and its likelihoods are probabilities."""

import pytest
import torch
from torch import nn

from robench.models.language_impl import AdaptiveSoftmax

VOCABULARY, DIM = 40, 6
CUTOFFS = (9, 20, 33)


def made(cutoffs: tuple[int, ...]) -> tuple[AdaptiveSoftmax, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    output = AdaptiveSoftmax(VOCABULARY, DIM, cutoffs).double()
    for parameter in output.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return output, torch.randn(VOCABULARY, DIM, generator=generator, dtype=torch.float64)


def test_equals_that_of_torch() -> None:
    output, embedding = made(CUTOFFS)
    # torch's clusters have no bias, and a projection, here the identity.
    output.bias.data[CUTOFFS[0] :] = 0
    wanted = nn.AdaptiveLogSoftmaxWithLoss(DIM, VOCABULARY, list(CUTOFFS), div_value=1.0, head_bias=True).double()
    assert output.cluster_weight is not None
    assert output.cluster_bias is not None
    wanted.head.weight.data = torch.cat([embedding[: CUTOFFS[0]], output.cluster_weight.data])
    wanted.head.bias.data = torch.cat([output.bias.data[: CUTOFFS[0]], output.cluster_bias.data])
    ends = (*CUTOFFS, VOCABULARY)
    for tail, start, stop in zip(wanted.tail, ends[:-1], ends[1:], strict=True):
        tail[0].weight.data = torch.eye(DIM, dtype=torch.float64)
        tail[1].weight.data = embedding[start:stop]
    hidden = torch.randn(VOCABULARY, DIM, dtype=torch.float64)
    targets = torch.arange(VOCABULARY)
    torch.testing.assert_close(output(hidden, targets, embedding), -wanted(hidden, targets).output)


@pytest.mark.parametrize("cutoffs", [(), (1,), (39,), CUTOFFS])
def test_probabilities_of_all_words_sum_to_one(cutoffs: tuple[int, ...]) -> None:
    output, embedding = made(cutoffs)
    hidden = torch.randn(3, DIM, dtype=torch.float64)
    losses = torch.stack([output(hidden, torch.full((3,), word), embedding) for word in range(VOCABULARY)])
    torch.testing.assert_close((-losses).exp().sum(0), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("cutoffs", [(), CUTOFFS])
def test_gradients_are_those_of_the_loss(cutoffs: tuple[int, ...]) -> None:
    output, embedding = made(cutoffs)
    targets = torch.tensor([0, 8, 9, 19, 20, 39, 33])
    hidden = torch.randn(len(targets), DIM, dtype=torch.float64, requires_grad=True)
    embedding.requires_grad_()
    assert torch.autograd.gradcheck(lambda *given: output(given[0], targets, given[1]), (hidden, embedding))


def test_a_cluster_without_targets_is_not_computed() -> None:
    output, embedding = made(CUTOFFS)
    embedding[CUTOFFS[1] : CUTOFFS[2]] = torch.nan
    losses = output(torch.randn(3, DIM, dtype=torch.float64), torch.tensor([0, 10, 39]), embedding)
    assert bool(losses.isfinite().all())
