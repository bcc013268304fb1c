"""Both forms of class attention in fully attentional networks: what they compute, and which weights fit which."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robench.attention.symmetric import Symmetric
from robench.core.errors import DeclarationError, WeightsError
from robench.core.identity import key_of, to_plain
from robench.declare import read_registry, shipped_registry
from robench.models.build import build
from robench.models.fan_impl import SymmetricClassAttention
from robench.models.loading import load_model, load_strictly
from robench.models.state_files import load_state
from robench.models.vit import Fan

if TYPE_CHECKING:
    from pathlib import Path

SOFTMAX = Fan(image_size=16, patch_size=8, num_classes=3, depth=2, dim=8, num_heads=2, mlp_ratio=1.5)
SYMMETRIC = replace(SOFTMAX, class_attention="symmetric")
ENTRIES = read_registry(shipped_registry())
FANS = {name: entry.architecture for name, entry in ENTRIES.items() if isinstance(entry.architecture, Fan)}
OF_RPC = {"sym-fan-tiny", "rpc-fan-tiny", "digits-sym-fan", "digits-rpc-fan", "digits-rpc-released-fan"}


def scattered(module: nn.Module) -> nn.Module:
    """The module in float64 and evaluation mode, with random parameters and statistics."""
    generator = torch.Generator().manual_seed(0)
    module.double().eval()
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                drawn = 0.3 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
                value.copy_(0.5 + drawn.abs() if name.endswith("running_var") else drawn)
    return module.requires_grad_(False)


def images(count: int = 2) -> Tensor:
    return torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def class_attention_by_loops(tokens: Any, weights: dict[str, Any], num_heads: int) -> Any:
    """The class token's output, from sums over single numbers; the class token is the first of ``tokens`` (N, C)."""
    num_tokens, dim = tokens.shape
    width = dim // num_heads

    def projected(name: str, token: int, channel: int) -> float:
        row, bias = weights[f"{name}.weight"][channel], weights[f"{name}.bias"][channel]
        return float(sum(row[c] * tokens[token, c] for c in range(dim)) + bias)

    merged = np.zeros(dim)
    for head in range(num_heads):
        channels = range(head * width, (head + 1) * width)
        scores = [
            sum(projected("k", 0, c) * projected("k", token, c) for c in channels) / math.sqrt(width)
            for token in range(num_tokens)
        ]
        total = sum(math.exp(score) for score in scores)
        for c in channels:
            merged[c] = sum(math.exp(score) / total * projected("v", n, c) for n, score in enumerate(scores))
    return weights["proj.weight"] @ merged + weights["proj.bias"]


class TestSymmetricForm:
    @pytest.mark.parametrize("num_heads", [1, 3])
    def test_it_equals_loops_in_float64(self, num_heads: int) -> None:
        layer = scattered(SymmetricClassAttention(6, num_heads))
        tokens = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        weights = {name: value.numpy() for name, value in layer.state_dict().items()}
        wanted = [class_attention_by_loops(example.numpy(), weights, num_heads) for example in tokens]
        np.testing.assert_allclose(layer(tokens)[:, 0].numpy(), np.array(wanted), rtol=0, atol=1e-12)
        assert layer(tokens).shape == (3, 1, 6)

    def test_gradients_equal_finite_differences(self) -> None:
        model, image = scattered(build(SYMMETRIC)), images(1).requires_grad_()
        (gradient,) = torch.autograd.grad(model(image)[0, 0], image)
        direction, step = torch.randn_like(image.detach()), 1e-6
        with torch.no_grad():
            difference = (model(image + step * direction) - model(image - step * direction))[0, 0] / (2 * step)
        torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-5, atol=1e-8)


class TestDeclaration:
    def test_the_default_is_the_form_with_queries_and_is_left_out_of_keys(self) -> None:
        assert SOFTMAX.class_attention == "softmax"
        assert "class_attention" not in to_plain(SOFTMAX)  # type: ignore[operator]  # a mapping
        assert to_plain(SYMMETRIC) == {**to_plain(SOFTMAX), "class_attention": "symmetric"}  # type: ignore[dict-item]  # likewise
        assert key_of(SYMMETRIC) != key_of(SOFTMAX)

    def test_another_value_is_refused_where_it_stands(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text(
            "checkpoints:\n  mine:\n    architecture: {backbone: fan, image_size: 16, patch_size: 8, num_classes: 3,\n"
            "      depth: 1, dim: 8, num_heads: 2, class_attention: symetric}\n"
            "    weights: {uri: mine.pth, sha256: null}\n"
            "    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}\n"
        )
        with pytest.raises(DeclarationError, match=r"class_attention: unknown value 'symetric'\. Did you mean 'symm"):
            read_registry(path)


def of_authors(architecture: Fan, position_name: str) -> dict[str, Tensor]:
    """A state dict with the names and shapes of rachtsy/FAN, models/fan_sym.py, fan_tiny_12_p16_224; random numbers."""
    dim, hidden = architecture.dim, int(architecture.dim * architecture.mlp_ratio)

    def linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}

    def normalised(name: str, width: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.{part}": (width,) for part in ("weight", "bias")}

    def batch_normalised(name: str, width: int) -> dict[str, tuple[int, ...]]:
        counted = {f"{name}.running_mean": (width,), f"{name}.running_var": (width,), f"{name}.num_batches_tracked": ()}
        return normalised(name, width) | counted

    shapes: dict[str, tuple[int, ...]] = {"cls_token": (1, 1, dim)}
    widths = [3, dim // 8, dim // 4, dim // 2, dim]
    for i, (into, out) in enumerate(pairwise(widths)):
        shapes[f"patch_embed.proj.{2 * i}.0.weight"] = (out, into, 3, 3)
        shapes |= batch_normalised(f"patch_embed.proj.{2 * i}.1", out)
    shapes[f"{position_name}.token_projection.weight"] = (dim, 64, 1, 1)
    shapes[f"{position_name}.token_projection.bias"] = (dim,)
    for i in range(architecture.depth):
        block, mlp = f"blocks.{i}", f"blocks.{i}.mlp"
        shapes |= {f"{block}.gamma1": (dim,), f"{block}.gamma2": (dim,)}
        shapes |= normalised(f"{block}.norm1", dim) | normalised(f"{block}.norm2", dim)
        shapes |= linear(f"{block}.attn.kv", 2 * dim, dim) | linear(f"{block}.attn.proj", dim, dim)
        shapes |= {f"{mlp}.temperature": (architecture.num_heads, 1, 1), f"{mlp}.mlp_v.gamma": (hidden,)}
        shapes |= linear(f"{mlp}.q", dim, dim) | normalised(f"{mlp}.norm_v", dim)
        shapes |= linear(f"{mlp}.mlp_v.fc1", hidden, dim) | linear(f"{mlp}.mlp_v.fc2", dim, hidden)
        for convolution in ("conv1", "conv2"):
            shapes[f"{mlp}.mlp_v.dwconv.{convolution}.weight"] = (hidden, 1, 3, 3)
            shapes[f"{mlp}.mlp_v.dwconv.{convolution}.bias"] = (hidden,)
        shapes |= batch_normalised(f"{mlp}.mlp_v.dwconv.bn", hidden)
    for i in range(2):
        block = f"cls_attn_blocks.{i}"
        shapes |= {f"{block}.gamma1": (dim,), f"{block}.gamma2": (dim,)}
        shapes |= normalised(f"{block}.norm1", dim) | normalised(f"{block}.norm2", dim)
        for name in ("k", "v", "proj"):
            shapes |= linear(f"{block}.attn.{name}", dim, dim)
        shapes |= linear(f"{block}.mlp.fc1", hidden, dim) | linear(f"{block}.mlp.fc2", dim, hidden)
    shapes |= normalised("norm", dim) | linear("head", architecture.num_classes, dim)
    generator = torch.Generator().manual_seed(3)
    state = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {
        name: torch.tensor(7)
        if name.endswith("num_batches_tracked")
        else value.abs()
        if "running_var" in name
        else value
        for name, value in state.items()
    }


def num_parameters(names_and_values: dict[str, Tensor]) -> int:
    return sum(value.numel() for name, value in names_and_values.items() if not is_statistic(name))


def is_statistic(name: str) -> bool:
    return "running_" in name or "num_batches" in name


class TestPublishedWeights:
    @pytest.mark.parametrize("name", ["sym-fan-tiny", "rpc-fan-tiny"])
    def test_entries_have_the_parameters_of_the_authors_code(self, name: str) -> None:
        with torch.device("meta"):
            model = build(FANS[name])
        assert sum(parameter.numel() for parameter in model.parameters()) == 6_801_136

    @pytest.mark.parametrize("name", ["sym-fan-tiny", "rpc-fan-tiny"])
    @pytest.mark.parametrize("position_name", ["pos_embed", "pos_embeder"])
    def test_a_file_in_the_authors_spelling_loads(self, tmp_path: Path, name: str, position_name: str) -> None:
        architecture = FANS[name]
        state = of_authors(architecture, position_name)
        assert num_parameters(state) == 6_801_136
        path = tmp_path / "model_best.pth.tar"
        torch.save({"epoch": 309, "arch": "fan_tiny_12_p16_224", "state_dict": state, "metric": 77.9}, path)
        weights = replace(ENTRIES[name].weights, uri=str(path))
        assert weights.layout == "fan"
        victim = load_model(replace(ENTRIES[name], weights=weights))
        assert victim.outputs(torch.full((1, 3, 224, 224), 0.5)).shape == (1, 1000)
        model = build(architecture)
        load_strictly(model, load_state(path, weights.layout), "a.pth")
        loaded = model.state_dict()
        renamed = {old.replace("pos_embeder.", "pos_embed."): value for old, value in state.items()}
        assert loaded.keys() == renamed.keys()
        assert all(torch.equal(loaded[new], value) for new, value in renamed.items())

    def test_exactly_the_entries_of_that_code_have_that_form(self) -> None:
        assert {name for name, fan in FANS.items() if fan.class_attention == "symmetric"} == OF_RPC
        assert len(FANS) == 13


class TestTheOtherForm:
    def message(self, architecture: Fan, state: dict[str, Tensor]) -> str:
        with pytest.raises(WeightsError) as caught:
            load_strictly(build(architecture), state, "a.pth")
        return str(caught.value)

    def test_weights_with_a_query_are_refused_where_there_is_none(self) -> None:
        assert self.message(SYMMETRIC, build(SOFTMAX).state_dict()) == (
            "a.pth does not fit the architecture: 4 unexpected: cls_attn_blocks.0.attn.q.weight,"
            " cls_attn_blocks.0.attn.q.bias, cls_attn_blocks.1.attn.q.weight and 1 more."
            " Class attention has a query in these weights: set class_attention: softmax in the architecture"
        )

    def test_weights_without_a_query_are_refused_where_there_is_one(self) -> None:
        message = self.message(SOFTMAX, build(SYMMETRIC).state_dict())
        assert "4 missing: cls_attn_blocks.0.attn.q.weight" in message
        assert message.endswith("has no query in these weights: set class_attention: symmetric in the architecture")

    def test_any_other_mismatch_has_the_usual_advice(self) -> None:
        for change in ({"attention": Symmetric()}, {"num_class_blocks": 3}, {"depth": 3}):
            other = build(replace(SYMMETRIC, **change)).state_dict()  # type: ignore[arg-type]  # fields of a Fan
            assert "Correct the architecture in the registry" in self.message(SOFTMAX, other)
        shrunk = build(replace(SOFTMAX, num_classes=4)).state_dict()
        assert "Correct the architecture in the registry" in self.message(SOFTMAX, shrunk)
