"""Mixtures of experts equal a loop over tokens, and no text's outputs depend on another's."""

from math import erf, exp, sqrt

import pytest
import torch
from torch import nn

from robench.attention.state import ForwardState
from robench.models.word_transformer import Experts
from robench.models.word_transformer_impl import ExpertMlp, balance_loss

DIM, HIDDEN = 5, 7
MIXTURES = [
    Experts(num_experts=4),
    Experts(num_experts=4, num_chosen=3),
    Experts(num_experts=3, num_chosen=3),
    Experts(num_experts=6, num_chosen=1, weights="all"),
    Experts(num_experts=4, num_chosen=2, weights="all"),
]
Vector = list[float]


def mixture_of(declaration: Experts) -> ExpertMlp:
    torch.manual_seed(0)
    made = ExpertMlp(declaration, DIM, lambda: nn.Sequential(nn.Linear(DIM, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, DIM)))
    for parameter in made.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return made.double().eval()


def tokens_of(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def product(matrix: list[Vector], x: Vector) -> Vector:
    return [sum(a * b for a, b in zip(row, x, strict=True)) for row in matrix]


def softmax(logits: Vector) -> Vector:
    total = sum(exp(each) for each in logits)
    return [exp(each) / total for each in logits]


def written_out(mixture: ExpertMlp, declaration: Experts, x: Vector) -> Vector:
    """One token through the definition, in plain Python."""
    state = {name: value.tolist() for name, value in mixture.state_dict().items()}
    logits = product(state["gate.weight"], x)
    best = sorted(range(len(logits)), key=lambda each: (-logits[each], each))[: declaration.num_chosen]
    if declaration.weights == "all":
        shares = softmax(logits)
        weights = [shares[each] for each in best]
    else:
        weights = softmax([logits[each] for each in best])
    output = [0.0] * DIM
    for weight, each in zip(weights, best, strict=True):
        name = f"experts.{each}"
        hidden = product(state[f"{name}.0.weight"], x)
        hidden = [v + b for v, b in zip(hidden, state[f"{name}.0.bias"], strict=True)]
        active = [v * 0.5 * (1 + erf(v / sqrt(2))) for v in hidden]
        last = product(state[f"{name}.2.weight"], active)
        for at, (v, b) in enumerate(zip(last, state[f"{name}.2.bias"], strict=True)):
            output[at] += weight * (v + b)
    return output


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("declaration", MIXTURES, ids=str)
def test_outputs_are_those_of_a_loop_over_tokens(declaration: Experts, is_training: bool) -> None:
    mixture, x_BNC = mixture_of(declaration).train(is_training), tokens_of(3, 8)
    found = mixture(x_BNC)
    assert found.shape == x_BNC.shape
    for row, tokens in enumerate(x_BNC.tolist()):
        for place, token in enumerate(tokens):
            wanted = written_out(mixture, declaration, token)
            assert found[row, place].tolist() == pytest.approx(wanted, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("declaration", MIXTURES, ids=str)
def test_gradients_are_those_of_differences(declaration: Experts) -> None:
    mixture, x_BNC = mixture_of(declaration), tokens_of(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(mixture, (x_BNC,))
    weight = mixture.gate.weight.detach().clone().requires_grad_()

    def of_gate(values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(mixture, {"gate.weight": values}, (x_BNC.detach(),))

    assert torch.autograd.gradcheck(of_gate, (weight,))
    (slope,) = torch.autograd.grad(of_gate(weight).square().sum(), weight)
    assert bool((slope.abs().sum(dim=1) > 0).any())


@pytest.mark.parametrize("declaration", MIXTURES, ids=str)
def test_a_row_has_the_same_bits_whatever_the_others_are(declaration: Experts) -> None:
    mixture = mixture_of(declaration).float()
    rows, others = tokens_of(4, 9).float(), 3 * tokens_of(4, 9).float().flip(0)
    together = mixture(rows)
    for row in range(4):
        changed = others.clone()
        changed[row] = rows[row]
        assert torch.equal(mixture(changed)[row], together[row])


def test_equal_logits_choose_the_first_experts() -> None:
    mixture, x_BNC = mixture_of(Experts(num_experts=5)), tokens_of(1, 4)
    mixture.gate.weight.data.zero_()
    mean = (mixture.experts[0](x_BNC) + mixture.experts[1](x_BNC)) / 2
    torch.testing.assert_close(mixture(x_BNC), mean, rtol=1e-12, atol=1e-12)


def test_experts_without_a_token_have_a_gradient_of_zero() -> None:
    mixture, x_BNC = mixture_of(Experts(num_experts=5, num_chosen=1, weights="all")).train(), tokens_of(1, 2)
    mixture(x_BNC).sum().backward()
    norms = [each[0].weight.grad.norm().item() for each in mixture.experts]  # type: ignore[index]  # of a Sequential
    assert norms.count(0.0) >= 3
    assert max(norms) > 0


def test_the_balance_loss_by_hand() -> None:
    # Two texts of two tokens and three experts: choices {0, 1}, {0, 2} and {1, 2}, {1, 2}.
    shares = torch.tensor([[[0.5, 0.3, 0.2], [0.4, 0.2, 0.4]], [[0.0, 0.5, 0.5], [0.2, 0.4, 0.4]]], dtype=torch.float64)
    chosen = torch.tensor([[[0, 1], [0, 2]], [[1, 2], [2, 1]]])
    found = balance_loss((shares + 1e-300).log(), chosen)
    first = 3 * (0.5 * 0.45 + 0.25 * 0.25 + 0.25 * 0.3)
    second = 3 * (0.0 * 0.1 + 0.5 * 0.45 + 0.5 * 0.45)
    assert found.tolist() == pytest.approx([first, second], rel=1e-12)
    even = balance_loss(torch.zeros(1, 4, 4), torch.arange(4)[None, :, None])
    assert even.tolist() == pytest.approx([1.0])
    # All of one expert: as many times worse as there are experts.
    assert balance_loss(torch.tensor([[[50.0, 0, 0]] * 5]), torch.zeros(1, 5, 1).long()).item() == pytest.approx(3.0)


def test_the_balance_loss_is_computed_where_it_is_asked_for() -> None:
    mixture, x_BNC = mixture_of(Experts(num_experts=4)), tokens_of(3, 8)
    state = ForwardState(losses_B=[])
    with_losses = mixture(x_BNC, state)
    assert torch.equal(with_losses, mixture(x_BNC))
    assert torch.equal(with_losses, mixture(x_BNC, ForwardState()))
    assert state.losses_B is not None
    (loss_B,) = state.losses_B
    assert loss_B.shape == (3,)
    logits = mixture.gate(x_BNC)
    for row in range(3):
        best = logits[row].topk(2).indices
        shares = [float((best == each).double().mean()) for each in range(4)]
        means = logits[row].softmax(-1).mean(0).tolist()
        assert loss_B[row].item() == pytest.approx(4 * sum(f * p for f, p in zip(shares, means, strict=True)))
    loss_B.sum().backward()
    assert mixture.gate.weight.grad is not None
    assert mixture.gate.weight.grad.norm() > 0
