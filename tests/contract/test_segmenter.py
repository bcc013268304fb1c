"""Segmenters against a reference in numpy loops, written from the paper and the description of the released code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric
from robench.models.build import build
from robench.models.segmenter import Segmenter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    State = dict[str, Array]

WINDOW, PATCH, DIM, HEADS, CLASSES = 8, 4, 6, 2, 3
GRID = WINDOW // PATCH


def linear(x: Array, state: State, name: str) -> Array:
    return np.asarray(x @ state[f"{name}.weight"].T + state[f"{name}.bias"])


def normed(x: Array, state: State, name: str) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + 1e-5) * state[f"{name}.weight"] + state[f"{name}.bias"])


def mixed(x: Array, state: State, name: str) -> Array:
    """Return attention of tokens (N, C), token by token; two projections are of symmetric attention."""
    projections = np.split(linear(x, state, f"{name}.qkv"), len(state[f"{name}.qkv.bias"]) // DIM, axis=1)
    queries, keys, values = projections[0], projections[-2], projections[-1]
    width = DIM // HEADS
    outputs = np.zeros_like(x)
    for head in range(HEADS):
        axes = slice(head * width, (head + 1) * width)
        for token in range(len(x)):
            kernels = [math.exp(queries[token, axes] @ key[axes] / math.sqrt(width)) for key in keys]
            outputs[token, axes] = sum(
                kernel * value[axes] for kernel, value in zip(kernels, values, strict=True)
            ) / sum(kernels)
    return linear(outputs, state, f"{name}.proj")


def through_block(x: Array, state: State, name: str) -> Array:
    x = x + mixed(normed(x, state, f"{name}.norm1"), state, f"{name}.attn")
    hidden = linear(normed(x, state, f"{name}.norm2"), state, f"{name}.mlp.fc1")
    hidden = np.vectorize(lambda value: value * (1 + math.erf(value / math.sqrt(2))) / 2)(hidden)
    return x + linear(hidden, state, f"{name}.mlp.fc2")


def encoded(window: Array, state: State) -> Array:
    """Return the tokens (P, C) of the patches of a window, row by row, after the last norm."""
    weight, bias = state["encoder.patch_embed.proj.weight"], state["encoder.patch_embed.proj.bias"]
    tokens = [state["encoder.cls_token"][0, 0]]
    for row in range(GRID):
        for column in range(GRID):
            patch = window[:, row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
            tokens.append(np.array([(weight[axis] * patch).sum() for axis in range(DIM)]) + bias)
    x = np.stack(tokens) + state["encoder.pos_embed"][0]
    for layer in range(2):
        x = through_block(x, state, f"encoder.blocks.{layer}")
    return normed(x, state, "encoder.norm")[1:]


def decoded(patches: Array, state: State) -> Array:
    """Return logits (P, K) of patches."""
    if "decoder.head.weight" in state:
        return linear(patches, state, "decoder.head")
    x = np.concatenate([linear(patches, state, "decoder.proj_dec"), state["decoder.cls_emb"][0]])
    for layer in range(2):
        x = through_block(x, state, f"decoder.blocks.{layer}")
    x = normed(x, state, "decoder.decoder_norm")
    logits = np.zeros((len(patches), CLASSES))
    for place, patch in enumerate(x[: len(patches)] @ state["decoder.proj_patch"]):
        for kind, vector in enumerate(x[len(patches) :] @ state["decoder.proj_classes"]):
            logits[place, kind] = patch @ vector / math.sqrt(patch @ patch) / math.sqrt(vector @ vector)
    return normed(logits, state, "decoder.mask_norm")


def enlarged(small: Array, height: int, width: int) -> Array:
    """Return (K, height, width) of (K, h, w), bilinearly; pixels are squares, whose centres are compared."""

    def neighbours(place: int, length: int, before: int) -> list[tuple[int, float]]:
        source = min(max((place + 0.5) * before / length - 0.5, 0.0), before - 1.0)
        low = int(source)
        return [(low, 1 - (source - low)), (min(low + 1, before - 1), source - low)]

    large = np.zeros((len(small), height, width))
    for y in range(height):
        for x in range(width):
            for row, of_row in neighbours(y, height, small.shape[1]):
                for column, of_column in neighbours(x, width, small.shape[2]):
                    large[:, y, x] += of_row * of_column * small[:, row, column]
    return large


def firsts(length: int, stride: int) -> list[int]:
    found = []
    while not found or found[-1] + WINDOW < length:
        found.append(min(found[-1] + stride, length - WINDOW) if found else 0)
    return found


def segmented(image: Array, state: State, stride: int) -> Array:
    """Return logits (K, H, W) of an image (D, H, W)."""
    channels, height, width = image.shape
    padded = np.zeros((channels, max(height, WINDOW), max(width, WINDOW)))
    padded[:, :height, :width] = image
    total, hits = np.zeros((CLASSES, *padded.shape[1:])), np.zeros(padded.shape[1:])
    for top in firsts(padded.shape[1], stride):
        for left in firsts(padded.shape[2], stride):
            place = slice(top, top + WINDOW), slice(left, left + WINDOW)
            patches = decoded(encoded(padded[:, *place], state), state).T.reshape(CLASSES, GRID, GRID)
            total[:, *place] += enlarged(patches, WINDOW, WINDOW)
            hits[place] += 1
    return (total / hits)[:, :height, :width]


def built(**fields: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"image_size": WINDOW, "patch_size": PATCH, "num_classes": CLASSES, "num_channels": 2, "mlp_ratio": 2.0}
    fields = {"decoder_heads": HEADS} | fields if fields.get("decoder") != "linear" else fields
    model = build(Segmenter(**sizes, depth=2, dim=DIM, num_heads=HEADS, **fields)).eval()
    with torch.no_grad():
        # Larger than at the start, where logits hardly depend on anything. Classes differ much, since the last norm
        # divides by their deviation, and so multiplies float32's rounding.
        for name, parameter in model.named_parameters():
            parameter.mul_(1.5).add_((4.0 if name == "decoder.cls_emb" else 0.2) * torch.randn_like(parameter))
    return model


FORMS: dict[str, dict[str, Any]] = {
    "linear": {"decoder": "linear", "attention": Softmax()},
    "mask transformer": {"attention": Symmetric(), "windows_per_pass": 3},
    "overlap": {"attention": Softmax(), "stride": 5},
    "symmetric decoder": {"attention": Symmetric(), "decoder_attention": "encoder"},
}
# One window; smaller than one, in one direction and in both; several in one and in both.
SIZES = [(8, 8), (5, 8), (6, 3), (8, 11), (4, 20), (17, 13)]


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_logits_are_those_of_the_reference(form: dict[str, Any]) -> None:
    model = built(**form)
    state = {name: value.detach().numpy().astype(np.float64) for name, value in model.state_dict().items()}
    for height, width in SIZES:
        images = torch.randn(2, 2, height, width, generator=torch.Generator().manual_seed(height * width))
        wanted = np.stack([segmented(image.double().numpy(), state, form.get("stride", WINDOW)) for image in images])
        with torch.no_grad():
            single, double = model.float()(images), model.double()(images.double())
        assert single.shape == (2, CLASSES, height, width)
        np.testing.assert_allclose(double.numpy(), wanted, rtol=0, atol=1e-10)
        np.testing.assert_allclose(single.numpy(), wanted, rtol=0, atol=1e-5)


def test_gradients_flow_through_all_windows_of_an_image() -> None:
    model = built(**FORMS["overlap"]).double()
    images = torch.randn(1, 2, 11, 13, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(1, CLASSES, 11, 13, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((model(images) * weights).sum(), images)
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    change = 1e-6 * np.random.default_rng(0).standard_normal((2, 11, 13))
    above, below = (segmented(images[0].detach().numpy() + sign * change, state, 5) for sign in (1, -1))
    found = ((above - below) * weights[0].numpy()).sum() / 2
    assert found == pytest.approx((gradient[0].numpy() * change).sum(), rel=1e-6)
    assert bool((gradient != 0).all())
