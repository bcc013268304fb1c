"""Classifiers of texts equal a forward pass written out, and mixtures of experts a loop over tokens."""

from dataclasses import replace
from math import erf, exp, sqrt

import pytest
import torch
from torch import nn

from robench.attention.bilateral import Bilateral
from robench.attention.linformer import Linformer
from robench.attention.mom import Mom
from robench.attention.performer import Performer
from robench.attention.primal import Primal
from robench.attention.rpc import Rpc
from robench.attention.state import ForwardState
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.core.errors import DeclarationError
from robench.declare import parse_architecture
from robench.domains.code_points import encoded_batch
from robench.models.build import build
from robench.models.transformer import Boost
from robench.models.word_transformer import Experts, TextClassifier
from robench.models.word_transformer_impl import ExpertMlp, TextClassifierModel, balance_loss

SMALL = TextClassifier(
    vocabulary_size=8, num_classes=3, context=6, depth=2, dim=8, num_heads=2, feedforward=10, dropout=0.3
)
WORDS = ["\n", "<unk>", "we", "the", "people", "of", "union"]
TEXT = "we the people ,\nof the union\n"


def model_of(architecture: TextClassifier) -> TextClassifierModel:
    torch.manual_seed(0)
    model = build(architecture).double().eval()
    assert isinstance(model, TextClassifierModel)
    # Larger than at the beginning of training, so that every word matters.
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.set_vocabulary(WORDS)
    return model


def logits_of(model: TextClassifierModel, *texts: str) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(encoded_batch(texts), seeds=tuple(7 for _ in texts))
    return logits


Vector = list[float]


def linear(x: Vector, state: dict[str, torch.Tensor], name: str) -> Vector:
    weight, bias = state[f"{name}.weight"].tolist(), state[f"{name}.bias"].tolist()
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def normed(x: Vector, state: dict[str, torch.Tensor], name: str) -> Vector:
    mean = sum(x) / len(x)
    deviation = sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    scales, shifts = state[f"{name}.weight"].tolist(), state[f"{name}.bias"].tolist()
    return [(v - mean) / deviation * a + b for v, a, b in zip(x, scales, shifts, strict=True)]


def attended(x: list[Vector], state: dict[str, torch.Tensor], name: str, num_heads: int) -> list[Vector]:
    dim = len(x[0])
    width = dim // num_heads
    rows = [linear(row, state, f"{name}.qkv") for row in x]
    mixed = [[0.0] * dim for _ in x]
    for head in range(num_heads):
        at = head * width
        for place, row in enumerate(rows):
            query = row[at : at + width]
            keys = [other[dim + at : dim + at + width] for other in rows]
            scores = [exp(sum(a * b for a, b in zip(query, key, strict=True)) / sqrt(width)) for key in keys]
            for score, other in zip(scores, rows, strict=True):
                for each in range(width):
                    mixed[place][at + each] += score / sum(scores) * other[2 * dim + at + each]
    return [linear(row, state, f"{name}.proj") for row in mixed]


def written_out(model: TextClassifierModel, ids: list[int]) -> Vector:
    """The logits of one text in plain Python, softmax attention with plain connections."""
    state, dim = model.state_dict(), model.architecture.dim
    words = [[value * sqrt(dim) for value in state["embedding.weight"][each].tolist()] for each in ids]
    places = state["pos_embed"][0].tolist()
    first = [state["cls_token"][0, 0].tolist(), *words]
    x = [[a + b for a, b in zip(row, place, strict=True)] for row, place in zip(first, places, strict=True)]
    for layer in range(model.architecture.depth):
        name = f"blocks.{layer}"
        branch = attended([normed(row, state, f"{name}.norm1") for row in x], state, f"{name}.attn", 2)
        x = [[a + b for a, b in zip(row, other, strict=True)] for row, other in zip(x, branch, strict=True)]
        for row in x:
            hidden = linear(normed(row, state, f"{name}.norm2"), state, f"{name}.mlp.0")
            active = [value * 0.5 * (1 + erf(value / sqrt(2))) for value in hidden]
            row[:] = [a + b for a, b in zip(row, linear(active, state, f"{name}.mlp.2"), strict=True)]
    return linear(normed(x[0], state, "norm"), state, "head")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (TEXT, [2, 3, 4, 1, 0, 5]),
        ("we\n", [2, 0, 0, 0, 0, 0]),
        ("we", [2, 0, 0, 0, 0, 0]),
        ("", [0, 0, 0, 0, 0, 0]),
        ("union of we the people of union union\n", [6, 5, 2, 3, 4, 5]),
    ],
)
def test_logits_are_those_of_the_written_out_pass(text: str, ids: list[int]) -> None:
    model = model_of(SMALL)
    (found,) = logits_of(model, text).tolist()
    assert found == pytest.approx(written_out(model, ids), abs=1e-9)


ARCHITECTURES = [
    SMALL,
    *(
        replace(SMALL, attention=attention)
        for attention in (
            Symmetric(),
            Rpc(num_iterations=2),
            Twicing(layers=(1,)),
            Linformer(projection_length=3),
            Performer(num_features=5),
            Primal(num_directions=2),
            Mom(),
            Bilateral(),
        )
    ),
    replace(SMALL, residual=Boost()),
]


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda each: f"{each.attention.kind}-{each.residual.kind}")
def test_a_texts_logits_do_not_depend_on_others_nor_on_padding(architecture: TextClassifier) -> None:
    model = model_of(architecture)
    texts = [TEXT, "we\n", "union " * 50]
    together = logits_of(model, *texts)
    assert together.shape == (3, 3)
    for row, text in zip(together, texts, strict=True):
        torch.testing.assert_close(logits_of(model, text)[0], row, rtol=0, atol=1e-9)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda each: f"{each.attention.kind}-{each.residual.kind}")
def test_the_first_words_and_their_order_alone_matter(architecture: TextClassifier) -> None:
    model = model_of(architecture)
    words = "we the people of union the"
    first = logits_of(model, words)
    assert torch.equal(logits_of(model, f"{words} we we we"), first)
    for place in range(6):
        changed = words.split()
        changed[place] = "strangers"
        assert not torch.allclose(logits_of(model, " ".join(changed)), first, atol=1e-6)
    assert not torch.allclose(logits_of(model, "the we people of union the"), first, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attention": {"kind": "twicing", "layers": [2]}},
            r"attention.layers: must lie in 0..1 \(depth 2\), got \[2\]",
        ),
        ({"dim": 9}, "dim: must be a multiple of num_heads 2, got 9"),
        ({"num_classes": 1}, "num_classes: must be at least 2, got 1"),
        ({"vocabulary_size": 10**6, "dim": 4096}, "at most 2,000,000,000 parameters"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, object], message: str) -> None:
    fields = {
        "backbone": "text-classifier", "vocabulary_size": 8, "num_classes": 3, "context": 6, "depth": 2, "dim": 8,
        "num_heads": 2, "feedforward": 10,
    }  # fmt: skip
    parse_architecture(fields)
    with pytest.raises(DeclarationError, match=message):
        parse_architecture({**fields, **changes})


DIM, HIDDEN = 5, 7
MIXTURES = [
    Experts(num_experts=4),
    Experts(num_experts=4, num_chosen=3),
    Experts(num_experts=3, num_chosen=3),
    Experts(num_experts=6, num_chosen=1, weights="all"),
    Experts(num_experts=4, num_chosen=2, weights="all"),
]


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


def through_experts(mixture: ExpertMlp, declaration: Experts, x: Vector) -> Vector:
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
            wanted = through_experts(mixture, declaration, token)
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
