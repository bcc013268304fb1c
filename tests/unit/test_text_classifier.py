"""Classifiers of texts: logits equal a forward pass written out, and depend on a text's first words alone."""

from dataclasses import replace
from math import erf, exp, sqrt

import pytest
import torch

from robench.attention.bilateral import Bilateral
from robench.attention.linformer import Linformer
from robench.attention.mom import Mom
from robench.attention.performer import Performer
from robench.attention.primal import Primal
from robench.attention.rpc import Rpc
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.core.errors import DeclarationError
from robench.declare import parse_architecture
from robench.domains.code_points import encoded_batch
from robench.models.build import build
from robench.models.transformer import Boost
from robench.models.word_transformer import TextClassifier
from robench.models.word_transformer_impl import TextClassifierModel

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
