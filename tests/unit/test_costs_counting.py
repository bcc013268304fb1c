"""Counts of parameters and multiply-adds: those that are published, torch's counter, and operations counted by hand."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from robench.attention import ATTENTIONS
from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError
from robench.costs import RULES, Counts
from robench.costs.counting import CPU, _Trace, counts_of, subject_of
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import read_registries
from robench.models.foreign import Python
from robench.models.transformer import Transformer

GREY = ImagePreprocessing(mean=(0.5,), std=(0.5,))
registry: Callable[[], Mapping[str, Checkpoint]] = cache(read_registries)


def counted(name: str, *, is_training: bool = False) -> Counts:
    entry = registry()[name]
    return counts_of(name, entry.architecture, entry.preprocessing, is_training=is_training)


@pytest.mark.parametrize(
    ("name", "rule", "giga"),
    [
        # Teo & Nguyen 2024, table 13, where M stands for G.
        ("symvit", "fvcore", 1.1713),
        ("rpc-symvit-4iter-layer1", "fvcore", 1.2160),
        ("rpc-symvit-5iter-layer1", "fvcore", 1.2309),
        ("rpc-symvit", "fvcore", 1.2458),
        ("rpc-symvit-2iter-all-layer", "fvcore", 1.3501),
        # Abdullaev & Nguyen 2025, table 5.
        ("deit-tiny-baseline-twicing", "products", 1.2537),
        ("twicing-deit-tiny", "products", 1.3431),
        ("twicing-deit-tiny-layers10-12", "products", 1.2760),
        # Abdullaev, Tkachenko & Nguyen 2025, table 5.
        ("deit-tiny-baseline-bilateral", "linear", 1.0749),
        ("boost-deit-tiny", "linear", 1.0749),
        ("bilateral-deit-tiny", "linear", 1.0749),
        # By the layers' biases, of 1,728 features of each token in a block: 1.08 as printed.
        ("deit-tiny-baseline-bilateral", "biases", 1.0749 + (12 * 197 * 1728 + 196 * 192 + 1000) / 1e9),
    ],
)
def test_multiply_adds_are_those_of_the_papers_architectures(name: str, rule: str, giga: float) -> None:
    assert counted(name).multiply_adds(rule) / 1e9 == pytest.approx(giga, abs=5e-5)


def test_training_projects_positions_in_each_pass_of_bilateral_attention() -> None:
    counts = counted("bilateral-deit-tiny", is_training=True)
    # Queries, keys and values of 197 positions, in 12 layers.
    assert counts.linear == counted("bilateral-deit-tiny").linear + 12 * 197 * 192 * 3 * 192


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("deit-tiny-baseline-twicing", 5_717_416),
        ("twicing-deit-tiny", 5_717_416),
        # Touvron et al. count 5.7 million; without the queries' projections there are 12 x (192 x 192 + 192) fewer.
        ("symvit", 5_717_416 - 12 * (192 * 192 + 192)),
        ("rpc-symvit", 5_717_416 - 12 * (192 * 192 + 192)),
        ("boost-deit-tiny", 5_717_416 + 12),
        ("rvt-vit-tiny", 5_717_416 + 12 * 3 * 197 * 197),
        # Han et al. 2023, figure 4: Small (22 M) and Base (86 M).
        ("rkde-huber-vit-small", 22_050_664),
        *(
            pytest.param(f"{name}-vit-{size}", number, marks=pytest.mark.slow)
            for size, number in (("small", 22_050_664), ("base", 86_567_656))
            for name in ("rkde-huber", "rkde-hampel", "mom")
            if (name, size) != ("rkde-huber", "small")
        ),
    ],
)
def test_numbers_of_parameters_are_the_published_ones(name: str, parameters: int) -> None:
    assert counted(name).parameters == parameters


def smallest_with(kind: str) -> Checkpoint:
    """Return the smallest entry of the registry with a mechanism."""
    entries = [
        each
        for each in registry().values()
        if isinstance(each.architecture, Transformer) and each.architecture.attention.kind == kind
    ]
    return min(entries, key=lambda each: (each.architecture.num_parameters, each.name))  # type: ignore[attr-defined]  # they are Transformers


@pytest.mark.parametrize("kind", sorted(ATTENTIONS.builtin))
def test_counts_are_half_of_torchs_of_every_mechanism(kind: str) -> None:
    entry = smallest_with(kind)
    counts = counts_of(entry.name, entry.architecture, entry.preprocessing)
    subject = subject_of(entry.name, entry.architecture, entry.preprocessing, CPU)
    subject.module.requires_grad_(False)
    torch.manual_seed(0)
    arguments = subject.batch(1)
    subject.forward(*arguments)
    with FlopCounterMode(display=False) as counter:
        subject.forward(*arguments)
    assert 2 * counts.multiply_adds("products") == counter.get_total_flops()
    assert 0 < counts.linear <= counts.multiply_adds("products") < counts.multiply_adds("fvcore")


def traced(module: nn.Module, *inputs: Tensor) -> Counts:
    trace = _Trace(list(module.parameters()))
    with torch.no_grad(), trace:
        module(*inputs)
    counted = {name: getattr(trace, name) for name in ("linear", "products", "biases", "norm_elements")}
    return Counts(parameters=0, **counted)


class Products(nn.Module):
    """Products of activations of each kind."""

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Return what nothing reads."""
        x_BHNC = x_BNC[:, None]
        nn.functional.scaled_dot_product_attention(x_BHNC, x_BHNC, x_BHNC)  # 2 x 5 x 5 x 4 for each of 3 examples
        torch.einsum("bnc,bmc->bnm", x_BNC, x_BNC)  # 3 x 5 x 5 x 4
        torch.addbmm(torch.zeros(5, 5), x_BNC, x_BNC.mT)  # the same
        torch.baddbmm(torch.zeros(5, 5), x_BNC, x_BNC.mT)  # the same
        return x_BNC @ torch.ones(4)  # 3 x 5 x 4


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_products_are_counted_fused_ones_as_two(device: str) -> None:
    with torch.device(device):
        found = traced(Products(), torch.rand(3, 5, 4))
    assert (found.linear, found.products) == (0, 2 * 300 + 3 * 300 + 60)


class Weighted(nn.Module):
    """Parameter that multiplies batches from the left, as Linformer's does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 5))

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Return (B, 2, C)."""
        return self.weight @ x_BNC


@pytest.mark.parametrize(
    ("module", "shape", "linear", "biases"),
    [
        (nn.Linear(4, 7), (3, 5, 4), 3 * 5 * 4 * 7, 3 * 5 * 7),
        (nn.Linear(4, 7, bias=False), (3, 5, 4), 3 * 5 * 4 * 7, 0),
        (Weighted(), (3, 5, 4), 3 * 2 * 5 * 4, 0),
        (nn.Conv2d(4, 6, 3, stride=2, groups=2), (3, 4, 9, 9), 3 * 6 * 4 * 4 * 2 * 9, 3 * 6 * 4 * 4),
        (nn.ConvTranspose2d(4, 6, 2, stride=2, bias=False), (3, 4, 5, 5), 3 * 4 * 5 * 5 * 6 * 4, 0),
    ],
)
def test_linear_maps_and_biases_are_counted(
    module: nn.Module, shape: tuple[int, ...], linear: int, biases: int
) -> None:
    found = traced(module, torch.rand(shape))
    assert (found.linear, found.products, found.biases) == (linear, 0, biases)


def test_a_layer_norm_has_five_operations_an_element_by_the_rule_of_fvcore() -> None:
    found = traced(nn.LayerNorm(4), torch.rand(3, 5, 4))
    assert [found.multiply_adds(rule) for rule in RULES] == [0, 0, 0, 5 * 60]


def grey_model(**arguments: Any) -> Python:
    return Python(target=f"{__name__}:users_model", arguments=arguments)


class ReadsValues(nn.Module):
    """Model whose path depends on its input, which has no value on the meta device."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 3)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        flat = images.flatten(1)
        return self.layer(flat) if flat.sum() >= 0 else self.layer(flat) + self.layer(flat)


def users_model() -> nn.Module:
    return ReadsValues()


def test_a_users_model_that_reads_values_is_counted_on_the_cpu() -> None:
    counts = counts_of("mine", grey_model(), GREY, (1, 8, 8))
    assert (counts.parameters, counts.linear) == (64 * 3 + 3, 64 * 3)


def test_inputs_of_unknown_or_wrong_size_are_refused_with_the_option() -> None:
    with pytest.raises(DeclarationError, match=r"size of the inputs of mine.*--input-shape, such as 3,32,32"):
        counts_of("mine", grey_model(), GREY)
    with pytest.raises(DeclarationError, match=r"mine fails on one example of the shape \(1, 9, 9\)"):
        counts_of("mine", grey_model(), GREY, (1, 9, 9))


def test_counting_draws_nothing_from_the_callers_generator() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    counted("digits-vit")
    assert torch.equal(torch.rand(1), wanted)
