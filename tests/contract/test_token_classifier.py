"""The classifier of tokens against a reference in numpy, written from the description of the released code alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from robench.attention.linformer import Linformer
from robench.attention.nystrom import Nystrom
from robench.attention.primal import Primal
from robench.attention.softmax import Softmax
from robench.core.errors import ContractError
from robench.models.build import build
from robench.models.series import Series
from robench.models.tokens import Tokens
from robench.models.vit import Vit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robench.attention.base import AttentionBase

    Array = NDArray[np.float64]

PLACES, DIM, HEADS = 12, 8, 2
WIDTH = DIM // HEADS
SIZES = {"vocabulary_size": 7, "num_steps": PLACES, "num_classes": 3, "dim": DIM, "num_heads": HEADS, "feedforward": 10}
# Lengths 12, 5 and 8; the last two places are padding that the model adds.
INPUTS = torch.tensor([[1, 2, 3, 4, 5, 6, 1, 2, 3, 4], [3, 3, 1, 2, 6, 0, 0, 0, 0, 0], [5, 4, 3, 2, 1, 6, 6, 5, 0, 0]])


def softmax(scores: Array) -> Array:
    kernels = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(kernels / kernels.sum(-1, keepdims=True))


def normed(x: Array, state: dict[str, Array], name: str) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + 1e-5) * state[f"{name}.weight"] + state[f"{name}.bias"])


def linear(x: Array, state: dict[str, Array], name: str) -> Array:
    return np.asarray(x @ state[f"{name}.weight"].T + state[f"{name}.bias"])


def heads_of(x: Array, count: int) -> list[Array]:
    """Split (B, N, P) into projections (B, H, N, D)."""
    B, N, _ = x.shape
    return list(x.reshape(B, N, count, HEADS, WIDTH).transpose(2, 0, 3, 1, 4))


def softmax_heads(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(q @ k.swapaxes(-1, -2) / WIDTH**0.5 - 1e6 * (1 - mask[:, None, None, :])) @ v


def linformer_heads(q: Array, k: Array, v: Array, mask: Array, projection: Array) -> Array:
    valid = mask[:, None, :, None]
    return softmax(q @ (projection @ (k * valid)).swapaxes(-1, -2) / WIDTH**0.5) @ (projection @ (v * valid))


def nystrom_heads(q: Array, k: Array, v: Array, mask: Array, kernel: Array) -> Array:
    """The released form: three landmarks, one start of the inverse for the whole batch, a convolution over values."""
    valid = mask[:, None, :, None]
    q, k = q * valid / WIDTH**0.25, k * valid / WIDTH**0.25
    few_q, few_k = (x.reshape(*x.shape[:2], 3, PLACES // 3, WIDTH).mean(-2) for x in (q, k))
    first, second = softmax(q @ few_k.swapaxes(-1, -2)), softmax(few_q @ few_k.swapaxes(-1, -2))
    third = softmax(few_q @ k.swapaxes(-1, -2) - 1e9 * (1 - mask[:, None, None, :]))
    identity = np.eye(3)
    inverse = second.swapaxes(-1, -2) / second.sum(-2).max()
    for _ in range(6):
        product = second @ inverse
        inverse = inverse @ (13 * identity - product @ (15 * identity - product @ (7 * identity - product))) / 4
    padded = np.pad(v * valid, ((0, 0), (0, 0), (17, 17), (0, 0)))
    moved = [padded[:, :, step : step + PLACES] * kernel[:, 0, step][None, :, None, None] for step in range(35)]
    return np.asarray(first @ inverse @ (third @ v) + sum(moved))


def primal_heads(x: Array, state: dict[str, Array], name: str) -> Array:
    q, k = (each / np.linalg.norm(each, axis=-1, keepdims=True) for each in heads_of(linear(x, state, f"{name}.qk"), 2))
    (tokens,) = heads_of(x, 1)
    rows = [i * (PLACES - 1) // (state[f"{name}.we"].shape[1] - 1) for i in range(state[f"{name}.we"].shape[1])]
    sampled = tokens[:, :, rows].swapaxes(-1, -2)
    scores = np.concatenate([q @ (sampled @ state[f"{name}.we"]), k @ (sampled @ state[f"{name}.wr"])], axis=-1)
    return linear(scores, state, f"{name}.concate_weight")


def attended(attention: AttentionBase, x: Array, state: dict[str, Array], layer: int, mask: Array) -> Array:
    name = f"blocks.{layer}.attn"
    if isinstance(attention, Primal) and layer == 1:
        heads, zeroed = primal_heads(x, state, name), mask[..., None]
    else:
        q, k, v = heads_of(linear(x, state, f"{name}.qkv"), 3)
        zeroed = np.ones((1, 1, 1))
        if isinstance(attention, Linformer):
            # One projection for all layers.
            heads = linformer_heads(q, k, v, mask, state["blocks.0.attn.E"])
        elif isinstance(attention, Nystrom):
            heads = nystrom_heads(q, k, v, mask, state[f"{name}.conv.weight"][..., 0])
        else:
            heads = softmax_heads(q, k, v, mask)
    merged = heads.transpose(0, 2, 1, 3).reshape(len(x), PLACES, DIM)
    return np.asarray(linear(merged, state, f"{name}.proj") * zeroed)


def pooled(attention: AttentionBase, inputs: Array, state: dict[str, Array], scale: float) -> Array:
    """Return what the head reads of sequences (B, N), padded to all places."""
    inputs = np.pad(inputs, ((0, 0), (0, PLACES - inputs.shape[1])))
    mask = (inputs != 0).astype(float)
    x = state["embedding.weight"][inputs] + scale * state["pos_embed"]
    for layer in range(2):
        x = x + attended(attention, normed(x, state, f"blocks.{layer}.norm1"), state, layer, mask)
        hidden = linear(normed(x, state, f"blocks.{layer}.norm2"), state, f"blocks.{layer}.mlp.0")
        hidden = torch.nn.functional.gelu(torch.from_numpy(hidden)).numpy()
        x = x + linear(hidden, state, f"blocks.{layer}.mlp.3")
    return np.asarray((normed(x, state, "norm") * mask[..., None]).sum(1) / PLACES)


def head(x: Array, state: dict[str, Array]) -> Array:
    return linear(np.maximum(linear(x, state, "head.0"), 0), state, "head.2")


def built(**fields: Any) -> tuple[Any, dict[str, Array]]:
    torch.manual_seed(0)
    model: Any = build(Tokens(**SIZES, **fields)).double().eval()
    with torch.no_grad():
        # Larger than at the start, where logits hardly depend on anything.
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
    return model, {name: value.detach().numpy() for name, value in model.state_dict().items()}


FORMS: dict[str, dict[str, Any]] = {
    "softmax": {"attention": Softmax()},
    "scaled positions": {"attention": Softmax(), "position_scale": 0.3},
    "linformer": {"attention": Linformer(projection_length=4, is_shared=True)},
    "nystrom": {"attention": Nystrom(num_landmarks=3, formula="released")},
    "primal": {
        "attention": Primal(num_directions=2, rank_multiplier=3, formula="released", layers=(1,)),
        "padding": "branch",
    },
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_logits_are_those_of_the_reference(form: dict[str, Any]) -> None:
    model, state = built(**form)
    with torch.no_grad():
        logits = model(INPUTS).numpy()
    wanted = head(pooled(form["attention"], INPUTS.numpy(), state, form.get("position_scale", 1.0)), state)
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-10)


def test_losses_of_a_pair_are_the_means_of_both_sequences() -> None:
    attention = Primal(num_directions=2, formula="released")
    (pair, _), (single, _) = built(attention=attention, is_pair=True), built(attention=attention)
    single.load_state_dict(
        {name: value for name, value in pair.state_dict().items() if "head" not in name}, strict=False
    )
    of_pair: list[torch.Tensor] = []
    pair(torch.stack([INPUTS, INPUTS.flip(0)], dim=1), losses_B=of_pair)
    of_single: list[torch.Tensor] = []
    single(INPUTS, losses_B=of_single)
    for both, alone in zip(of_pair, of_single, strict=True):
        torch.testing.assert_close(both, (alone + alone.flip(0)) / 2, rtol=0, atol=1e-10)


@pytest.mark.parametrize("backbone", ["token-classifier", "series", "vit"])
def test_one_projection_serves_all_layers_in_training_too(backbone: str) -> None:
    attention = Linformer(projection_length=4, is_shared=True)
    common: dict[str, Any] = {"num_classes": 3, "depth": 2, "dim": DIM, "num_heads": HEADS, "attention": attention}
    of_series = Series(num_steps=PLACES, num_channels=1, feedforward=10, **common)
    others = {"series": of_series, "vit": Vit(image_size=8, patch_size=2, **common)}
    model: Any = build(others[backbone]) if backbone in others else built(attention=attention)[0]
    assert model.blocks[0].attn.E is model.blocks[1].attn.E
    assert sum(name.endswith(".E") for name, _ in model.named_parameters()) == 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.ones(1, 13, dtype=torch.int64), "takes sequences of up to 12 tokens, got inputs of the shape"),
        (torch.ones(1, 2, 10, dtype=torch.int64), "takes sequences of up to 12 tokens, got inputs of the shape"),
        (torch.full((1, 3), 7), "vocabulary has 7 tokens, got token 7"),
    ],
)
def test_other_inputs_are_refused(inputs: torch.Tensor, message: str) -> None:
    model, _ = built(attention=Softmax())
    with pytest.raises(ContractError, match=message):
        model(inputs)
