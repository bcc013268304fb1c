"""Fully attentional networks: equal to loops written from the equations, with the names and sizes of the published."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robench.attention.kde import Kde
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.core.errors import DeclarationError
from robench.core.identity import key_of, to_plain
from robench.declarations.base import DeclarationBase
from robench.declare import read_registry, shipped_registry
from robench.models.build import build
from robench.models.fan_impl import ChannelProcessing, SymmetricClassAttention
from robench.models.loading import load_model, load_strictly
from robench.models.state_files import load_state
from robench.models.transformer import Boost, FeatScale
from robench.models.vit import FAN_RESIDUALS, Fan

SMALL = Fan(image_size=16, patch_size=8, num_classes=3, depth=2, dim=8, num_heads=2, mlp_ratio=1.5)
SYMMETRIC = replace(SMALL, class_attention="symmetric")
MIXINGS: list[DeclarationBase] = [
    Softmax(), Symmetric(), Rpc(), Rpc(elsewhere="softmax", formula="released"), Twicing(),
]  # fmt: skip


def scattered(module: nn.Module, spread: float = 0.3) -> Any:
    """The module in float64 and evaluation mode, all that it has learned and all its running statistics random."""
    generator = torch.Generator().manual_seed(0)
    module.double().eval()
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                drawn = spread * torch.randn(value.shape, generator=generator, dtype=value.dtype)
                value.copy_(0.5 + drawn.abs() if name.endswith("running_var") else drawn)
    return module.requires_grad_(False)


def images(count: int = 2, side: int = 16) -> Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


# References: loops over numpy arrays of one example, from the equations in the docstrings.


def arrays_of(module: nn.Module) -> dict[str, Any]:
    return {name: value.numpy() for name, value in module.state_dict().items()}


def linear(x: Any, weights: dict[str, Any], name: str) -> Any:
    return np.array([[row @ x_n + b for row, b in zip(weights[f"{name}.weight"], weights[f"{name}.bias"], strict=True)]
                     for x_n in x])  # fmt: skip


def normed(x: Any, weights: dict[str, Any], name: str) -> Any:
    rows = [(row - row.mean()) / math.sqrt(row.var() + 1e-6) for row in x]
    return np.array([row * weights[f"{name}.weight"] + weights[f"{name}.bias"] for row in rows])


def soft(values: Any) -> Any:
    powers = np.exp(values - max(values))
    return powers / powers.sum()


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def attended(q: Any, k: Any, v: Any, num_heads: int, weigh: Any = lambda a, v: a @ v) -> Any:
    width = v.shape[1] // num_heads
    heads = []
    for head in range(num_heads):
        part = slice(head * width, (head + 1) * width)
        weights = np.array([soft([q_i[part] @ k_j[part] / math.sqrt(width) for k_j in k]) for q_i in q])
        heads.append(weigh(weights, v[:, part]))
    return np.concatenate(heads, axis=1)


def convolved(grid: Any, kernel: Any, bias: float) -> Any:
    """One channel's 3x3 convolution with zeros around it."""
    wide = np.pad(grid, 1)
    rows, columns = grid.shape
    return np.array([[(wide[i : i + 3, j : j + 3] * kernel).sum() + bias for j in range(columns)] for i in range(rows)])


def processed(x: Any, weights: dict[str, Any], num_heads: int) -> Any:
    """Channel attention, (N, C) -> (N, C)."""
    hidden = linear(x, weights, "mlp_v.fc1")
    side = math.isqrt(len(x))
    mixed = hidden.copy()
    for f in range(hidden.shape[1]):
        grid = convolved(hidden[:, f].reshape(side, side), weights["mlp_v.dwconv.conv1.weight"][f, 0],
                         weights["mlp_v.dwconv.conv1.bias"][f])  # fmt: skip
        grid = np.vectorize(gelu)(grid)
        mean, variance = (weights[f"mlp_v.dwconv.bn.running_{name}"][f] for name in ("mean", "var"))
        grid = (grid - mean) / math.sqrt(variance + 1e-5)
        grid = grid * weights["mlp_v.dwconv.bn.weight"][f] + weights["mlp_v.dwconv.bn.bias"][f]
        grid = convolved(grid, weights["mlp_v.dwconv.conv2.weight"][f, 0], weights["mlp_v.dwconv.conv2.bias"][f])
        mixed[:, f] += weights["mlp_v.gamma"][f] * grid.reshape(-1)
    values = normed(linear(mixed, weights, "mlp_v.fc2"), weights, "norm_v")
    queries = linear(x, weights, "q")
    width = x.shape[1] // num_heads
    output = np.empty_like(values)
    for head in range(num_heads):
        channels = range(head * width, (head + 1) * width)
        salience = sum(soft(x[:, c]) for c in channels) / width
        for c in channels:
            overlap = float(soft(queries[:, c]) @ salience)
            output[:, c] = weights["temperature"][head, 0, 0] / (1 + math.exp(-overlap)) * values[:, c]
    return output


def class_attended(x: Any, weights: dict[str, Any], num_heads: int) -> Any:
    """A class-attention block, class token first; all other tokens pass through both norms."""
    entered = normed(x, weights, "norm1")
    q = linear(entered[:1], weights, "attn.q")
    k, v = (linear(entered, weights, f"attn.{name}") for name in ("k", "v"))
    entered[0] = linear(attended(q, k, v, num_heads), weights, "attn.proj")[0]
    x = normed(x + weights["gamma1"] * entered, weights, "norm2")
    hidden = np.vectorize(gelu)(linear(x[:1], weights, "mlp.fc1"))
    # The other tokens are added to themselves: nothing but the class token goes through the MLP.
    return x + np.concatenate([weights["gamma2"] * linear(hidden, weights, "mlp.fc2"), x[1:]])


def below(weights: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def logits_by_loops(model: Any, architecture: Fan, image: Tensor) -> Any:
    """Logits of one image for softmax attention and plain connections; the embedding is the model's own."""
    patches, (rows, columns) = model.patch_embed(image[None])
    positions = model.pos_embed(1, rows, columns)[0]
    x = np.array([[float(patches[0, i * columns + j, c] + positions[c, i, j]) for c in range(architecture.dim)]
                  for i in range(rows) for j in range(columns)])  # fmt: skip
    for block in model.blocks:
        weights = arrays_of(block)
        entered = normed(x, weights, "norm1")
        pairs = linear(entered, weights, "attn.kv")
        k, v = pairs[:, : architecture.dim], pairs[:, architecture.dim :]
        mixed = attended(linear(entered, weights, "attn.q"), k, v, architecture.num_heads)
        x = x + weights["gamma1"] * linear(mixed, weights, "attn.proj")
        channels = processed(normed(x, weights, "norm2"), below(weights, "mlp."), architecture.num_heads)
        x = x + weights["gamma2"] * channels
    x = np.concatenate([model.cls_token[0].numpy(), x])
    for block in model.cls_attn_blocks:
        x = class_attended(x, arrays_of(block), architecture.num_heads)
    weights = arrays_of(model)
    return linear(normed(x[:1], weights, "norm"), weights, "head")[0]


class TestAgainstLoops:
    def test_logits_equal_loops_over_tokens_and_channels(self) -> None:
        model = scattered(build(SMALL))
        wanted = np.array([logits_by_loops(model, SMALL, image) for image in images()])
        np.testing.assert_allclose(model(images()).numpy(), wanted, rtol=0, atol=1e-10)

    def test_channel_attention_equals_loops(self) -> None:
        layer = scattered(ChannelProcessing(6, 3, 10, 3, nn.LayerNorm), spread=1.0)
        layer.norm_v.eps = 1e-6
        x_NC = torch.randn(9, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        np.testing.assert_allclose(
            layer(x_NC[None])[0].numpy(), processed(x_NC.numpy(), arrays_of(layer), 3), rtol=0, atol=1e-10
        )

    @pytest.mark.parametrize("side", [8, 16], ids=["patches of 8", "patches of 16"])
    def test_the_embedding_halves_the_sides_until_one_pixel_stands_for_a_patch(self, side: int) -> None:
        model = scattered(build(replace(SMALL, image_size=3 * side, patch_size=side)))
        tokens, grid = model.patch_embed(images(side=3 * side))
        assert tokens.shape == (2, 9, 8)
        assert grid == (3, 3)


class TestTokenMixing:
    def projections(self, model: Any, x_BNC: Tensor) -> Any:
        attention = model.blocks[0].attn
        k, v = attention.kv(x_BNC).chunk(2, dim=-1)
        return attention, k[0].numpy(), v[0].numpy()

    def tokens(self) -> Tensor:
        return torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def test_symmetric_attention_has_keys_for_queries(self) -> None:
        attention, k, v = self.projections(scattered(build(replace(SMALL, attention=Symmetric()))), self.tokens())
        wanted = linear(attended(k, k, v, 2), arrays_of(attention), "proj")
        np.testing.assert_allclose(attention(self.tokens())[0].numpy(), wanted, rtol=0, atol=1e-12)

    def test_twicing_smooths_again_what_smoothing_removed(self) -> None:
        attention, k, v = self.projections(scattered(build(replace(SMALL, attention=Twicing()))), self.tokens())
        q = linear(self.tokens()[0].numpy(), arrays_of(attention), "q")
        twice = attended(q, k, v, 2, weigh=lambda a, values: (2 * a - a @ a) @ values)
        wanted = linear(twice, arrays_of(attention), "proj")
        np.testing.assert_allclose(attention(self.tokens())[0].numpy(), wanted, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("attention", MIXINGS, ids=repr)
    def test_gradients_equal_finite_differences(self, attention: DeclarationBase) -> None:
        model = scattered(build(replace(SMALL, attention=attention)))
        image = images(1).requires_grad_()
        (gradient,) = torch.autograd.grad(model(image)[0, 0], image)
        direction, step = torch.randn_like(image.detach()), 1e-6
        with torch.no_grad():
            difference = (model(image + step * direction) - model(image - step * direction))[0, 0] / (2 * step)
        torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-5, atol=1e-8)


class TestBoost:
    def test_it_mixes_the_embedded_patches_in_beside_the_scaled_branch(self) -> None:
        block = scattered(build(replace(SMALL, residual=Boost()))).blocks[1]
        x, first = (
            torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in (1, 2)
        )
        branch = block.gamma1 * block.attn(block.norm1(x), ForwardState())
        middle = branch + block.t * first + (1 - block.t) * x
        wanted = middle + block.gamma2 * block.mlp(block.norm2(middle))
        torch.testing.assert_close(block(x, first, ForwardState()), wanted, rtol=0, atol=1e-12)


class TestPublished:
    @pytest.mark.parametrize(
        ("depth", "dim", "num_heads", "millions"),
        [(12, 192, 4, 7.3), (12, 384, 8, 28), (18, 448, 8, 54), (24, 480, 10, 80.5)],
    )
    def test_sizes_are_those_of_the_authors_table(self, depth: int, dim: int, num_heads: int, millions: float) -> None:
        with torch.device("meta"):
            model = build(
                Fan(image_size=224, patch_size=16, num_classes=1000, depth=depth, dim=dim, num_heads=num_heads)
            )
        count = sum(parameter.numel() for parameter in model.parameters()) / 1e6
        assert count == pytest.approx(millions, abs=0.5 if millions >= 28 else 0.05)

    def test_names_are_those_of_the_authors_code(self) -> None:
        names = set(build(SMALL).state_dict())
        block = {f"blocks.0.{name}" for name in ("gamma1", "gamma2", *both("norm1", "norm2"))}
        mixing = {f"blocks.0.attn.{name}" for name in both("q", "kv", "proj")}
        channels = {f"blocks.0.mlp.{name}" for name in ("temperature", "mlp_v.gamma", *both("q", "norm_v"))}
        inner = {
            f"blocks.0.mlp.mlp_v.{name}" for name in both("fc1", "fc2", "dwconv.conv1", "dwconv.conv2", "dwconv.bn")
        }
        counted = {
            f"blocks.0.mlp.mlp_v.dwconv.bn.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")
        }
        last = {f"cls_attn_blocks.1.{name}" for name in ("gamma1", "gamma2", *both(
            "norm1", "norm2", "attn.q", "attn.k", "attn.v", "attn.proj", "mlp.fc1", "mlp.fc2"))}  # fmt: skip
        rest = {"cls_token", "patch_embed.proj.0.0.weight", *both("pos_embed.token_projection", "norm", "head")}
        assert {name for name in names if name.startswith("blocks.0.")} == block | mixing | channels | inner | counted
        assert {name for name in names if name.startswith("cls_attn_blocks.1.")} == last
        assert rest <= names
        of_rpc = set(build(replace(SYMMETRIC, attention=Rpc())).state_dict())
        assert of_rpc == {name for name in names if ".attn.q." not in name}

    def test_no_fused_kernel_is_left_on(self) -> None:
        assert not any(getattr(module, "fused_attn", False) for module in build(SMALL).modules())


def both(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.{kind}" for name in names for kind in ("weight", "bias"))


class TestDeclared:
    def test_every_problem_is_named_at_once(self) -> None:
        with pytest.raises(ValueError, match="patch_size must be 8 or 16, got 4") as caught:
            replace(SMALL, patch_size=4, image_size=18, num_heads=3, attention=Kde(), residual=FeatScale())
        message = str(caught.value)
        assert "image_size must be a multiple of patch_size 4, got 18" in message
        assert "dim must be a multiple of num_heads 3, got 8" in message
        assert "attention must be one that backbone fan takes (rpc, softmax, symmetric, twicing), got kde" in message
        assert "residual must be one that backbone fan takes (boost, plain), got featscale" in message

    def test_what_is_declared_as_taken_has_implementations(self) -> None:
        for residual in FAN_RESIDUALS:
            assert isinstance(build(replace(SMALL, residual=residual())), nn.Module)


ENTRIES = read_registry(shipped_registry())
FANS = {name: entry.architecture for name, entry in ENTRIES.items() if isinstance(entry.architecture, Fan)}
OF_RPC = {"sym-fan-tiny", "rpc-fan-tiny", "digits-sym-fan", "digits-rpc-fan", "digits-rpc-released-fan"}


def symmetric_class_attended(x: Any, weights: dict[str, Any], num_heads: int) -> Any:
    keys, values = linear(x, weights, "k"), linear(x, weights, "v")
    return linear(attended(keys[:1], keys, values, num_heads), weights, "proj")[0]


class TestSymmetricForm:
    @pytest.mark.parametrize("num_heads", [1, 3])
    def test_it_equals_loops_in_float64(self, num_heads: int) -> None:
        layer = scattered(SymmetricClassAttention(6, num_heads))
        tokens = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        wanted = [symmetric_class_attended(each.numpy(), arrays_of(layer), num_heads) for each in tokens]
        np.testing.assert_allclose(layer(tokens)[:, 0].numpy(), np.array(wanted), rtol=0, atol=1e-12)
        assert layer(tokens).shape == (3, 1, 6)

    def test_gradients_equal_finite_differences(self) -> None:
        model, image = scattered(build(SYMMETRIC)), images(1).requires_grad_()
        (gradient,) = torch.autograd.grad(model(image)[0, 0], image)
        direction, step = torch.randn_like(image.detach()), 1e-6
        with torch.no_grad():
            difference = (model(image + step * direction) - model(image - step * direction))[0, 0] / (2 * step)
        torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-5, atol=1e-8)


class TestClassAttention:
    def test_the_default_is_the_form_with_queries_and_is_left_out_of_keys(self) -> None:
        assert SMALL.class_attention == "softmax"
        assert "class_attention" not in to_plain(SMALL)  # type: ignore[operator]  # a mapping
        assert to_plain(SYMMETRIC) == {**to_plain(SMALL), "class_attention": "symmetric"}  # type: ignore[dict-item]  # likewise
        assert key_of(SYMMETRIC) != key_of(SMALL)

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
        state = {
            named.replace("pos_embed.", f"{position_name}."): torch.rand(each.shape).to(each.dtype)
            for named, each in build(architecture).state_dict().items()
        }
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
