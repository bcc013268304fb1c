"""The spectral penalty: it is of the singular values that a decomposition finds, and so is its gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.primal import Primal
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.core.errors import DeclarationError
from robench.models.build import build
from robench.models.vit import Vit
from robench.training import epochs
from robench.training.base import Host
from robench.training.images import OneCycleTraining
from robench.training.spectral import SpectralPenalty

NUM_HEADS, DIM = 2, 8
WEIGHTS = (0.7, 0.2, 0.05)


def vit(attention: Any) -> nn.Module:
    sizes: dict[str, Any] = {"image_size": 8, "patch_size": 4, "num_classes": 3, "depth": 2, "dim": DIM}
    torch.manual_seed(0)
    return build(Vit(**sizes, num_heads=NUM_HEADS, mlp_ratio=1.0, attention=attention)).double()


def largest_squared(rows: Tensor) -> Tensor:
    """The sum over heads, each of which has its own rows."""
    return sum((torch.linalg.svdvals(head)[0] ** 2 for head in rows.chunk(NUM_HEADS)), torch.zeros(()))


def expected(model: nn.Module, weights: tuple[float, ...]) -> Tensor:
    """From the decomposition of each head's rows in each projection, in the order of the file of weights."""
    total = torch.zeros((), dtype=torch.float64)
    for name, weight in model.named_parameters():
        if name.endswith("attn.qkv.weight"):
            for factor, rows in zip(weights, weight.split(DIM), strict=True):
                total = total + factor * largest_squared(rows)
    return total


@pytest.mark.parametrize(
    ("attention", "weights"),
    [(Softmax(), WEIGHTS), (Rpc(layers=(0, 1)), (WEIGHTS[0] + WEIGHTS[1], WEIGHTS[2]))],
    ids=["queries, keys and values", "keys that are queries"],
)
def test_it_converges_to_the_decomposition_and_its_gradient(attention: Any, weights: tuple[float, ...]) -> None:
    model = vit(attention)
    penalty = SpectralPenalty(model, WEIGHTS, seed=3)
    found = [penalty() for _ in range(400)]
    wanted = float(expected(model, weights).detach())
    assert float(found[-1].detach()) == pytest.approx(wanted, rel=1e-10)
    assert float(found[0].detach()) < 0.95 * wanted
    found[-1].backward()
    for name, weight in model.named_parameters():
        if not name.endswith("attn.qkv.weight"):
            assert weight.grad is None
            continue
        assert weight.grad is not None
        for place in range(0, weight.numel(), 61):
            around = []
            for step in (1e-6, -1e-6):
                with torch.no_grad():
                    weight.view(-1)[place] += step
                    around.append(float(expected(model, weights)))
                    weight.view(-1)[place] -= step
            assert float(weight.grad.view(-1)[place]) == pytest.approx((around[0] - around[1]) / 2e-6, abs=1e-7)


def test_projections_apart_are_those_of_one() -> None:
    """FAN keeps the queries' projection apart from that of keys and values."""
    geometry = Geometry(dim=DIM, num_heads=NUM_HEADS, num_tokens=5, depth=1, layer=0, separate_queries=True)
    torch.manual_seed(0)
    layer = build_attention(Softmax(), geometry).double()
    penalty = SpectralPenalty(layer, WEIGHTS, seed=0)
    found = [float(penalty().detach()) for _ in range(400)][-1]
    rows = [layer.get_parameter(name).detach() for name in ("q.weight", "kv.weight")]
    parts = torch.cat(rows).split(DIM)
    assert len(parts) == 3
    wanted = sum(factor * float(largest_squared(each)) for factor, each in zip(WEIGHTS, parts, strict=True))
    assert found == pytest.approx(wanted, rel=1e-9)


class Linear(epochs.Learner):
    """A model in training by plain gradient descent."""

    def epoch(self, epoch: int) -> tuple[float, int]:
        raise NotImplementedError


def step_of(weights: tuple[float, float, float], micro: int | None = None) -> tuple[nn.Module, float]:
    model = vit(Softmax())
    training = OneCycleTraining(
        dataset="digits", seed=1, num_epochs=1, batch_size=4, learning_rate=1.0, spectral_penalty=weights
    )
    learner = Linear(
        model, training, torch.optim.SGD(model.parameters(), lr=1.0), Host(data_root=None, micro_batch_size=micro)
    )
    generator = torch.Generator().manual_seed(2)
    images = torch.rand(4, 3, 8, 8, generator=generator, dtype=torch.float64)
    return model, float(learner.step(model, images, torch.tensor([0, 1, 2, 0]), cross_entropy))


def test_a_step_is_that_of_the_loss_and_the_penalty_in_parts_of_a_batch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    start, plain, whole, parts = vit(Softmax()), step_of((0, 0, 0)), step_of(WEIGHTS), step_of(WEIGHTS, micro=1)
    penalty = SpectralPenalty(start, WEIGHTS, seed=1)()
    penalty.backward()
    assert whole[1] - plain[1] == pytest.approx(float(penalty.detach()), rel=1e-6)
    assert parts[1] == pytest.approx(whole[1], rel=1e-6)
    of_start = dict(start.named_parameters())
    for name, with_penalty in whole[0].named_parameters():
        gradient = of_start[name].grad
        without = plain[0].get_parameter(name) - (0 if gradient is None else gradient)
        assert torch.allclose(with_penalty, without, rtol=0, atol=1e-6), name
        assert torch.allclose(with_penalty, parts[0].get_parameter(name), rtol=0, atol=1e-6), name
    # Without weights nothing of it is made.
    monkeypatch.setattr(epochs, "SpectralPenalty", None)
    again = step_of((0, 0, 0))
    assert all(torch.equal(each, plain[0].get_parameter(name)) for name, each in again[0].named_parameters())


def test_a_model_without_projections_is_refused() -> None:
    with pytest.raises(DeclarationError, match="spectral_penalty is 1, 0, 0, but no layer of the model projects"):
        SpectralPenalty(vit(Primal(num_directions=2)), (1.0, 0.0, 0.0), seed=0)
