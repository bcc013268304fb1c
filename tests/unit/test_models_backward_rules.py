"""Backward rules of transfer attacks: outputs to the bit, gradients against references without any hook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from tiny_models import Tiny
from torch import Tensor, nn

from robench.attacks.transfer_pgd import TransferPgd
from robench.attention import ATTENTIONS
from robench.attention.seen import ShowsInside
from robench.attention.state import ForwardState
from robench.core.errors import ContractError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.backward_rules_impl import following
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.vit import Vit

FIELDS: dict[str, dict[str, Any]] = {
    "linformer": {"projection_length": 4},
    "nystrom": {"num_landmarks": 2},
    "performer": {"num_features": 8},
    "primal": {"num_directions": 4},
}
PIXELS = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def tiny(kind: str = "softmax", depth: int = 2) -> nn.Module:
    """A vision transformer of 5 tokens whose biases, norms and learned scales all count."""
    architecture = Vit(
        image_size=8, patch_size=4, num_classes=5, depth=depth, dim=16, num_heads=2, mlp_ratio=2.0,
        attention=ATTENTIONS[kind](**FIELDS.get(kind, {})),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = build(architecture).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return module.requires_grad_(False)


def images(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def score(logits: Tensor) -> Tensor:
    """A function of logits (B, 5) that is not linear."""
    return (logits * torch.arange(1, 6, dtype=logits.dtype)).tanh().sum()


def slope(run: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    leaves = inputs.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(score(run(leaves)), leaves)
    return gradient


def ruled(module: nn.Module, rule: str, inputs: Tensor) -> Tensor:
    def run(given: Tensor) -> Tensor:
        with following(module, rule):
            logits: Tensor = module(given, (0, 1))
        return logits

    return slope(run, inputs)


@pytest.mark.parametrize("kind", list(ATTENTIONS.builtin))
def test_every_mechanism_keeps_its_outputs_and_changes_its_gradient(kind: str) -> None:
    model, inputs = LoadedModel(tiny(kind), PIXELS), images(torch.float32)
    plain, gradient = model.outputs(inputs, (0, 1)), slope(lambda given: model.outputs(given, (0, 1)), inputs)
    found = {}
    for rule in ("pna", "tgr"):
        follower = model.with_backward(rule)
        assert torch.equal(follower.outputs(inputs.clone().requires_grad_(True), (0, 1)), plain)
        found[rule] = slope(partial(follower.outputs, seeds=(0, 1)), inputs)
        assert torch.isfinite(found[rule]).all()
        assert float((found[rule] - gradient).abs().max()) > 1e-3 * float(gradient.abs().max())
    assert not torch.equal(found["pna"], found["tgr"])
    # Nothing of a rule is left on the module that is shared.
    assert torch.equal(slope(lambda given: model.outputs(given, (0, 1)), inputs), gradient)


@contextmanager
def frozen(module: nn.Module, inputs: Tensor) -> Iterator[None]:
    """Let a module mix values, and rest, by the weights that it shows at these inputs."""
    layers: list[Any] = [each for each in module.modules() if isinstance(each, ShowsInside)]
    shown: list[Tensor] = []

    def look(layer: Any, given: tuple[Any, ...]) -> None:
        shown.append(layer.seen(*given).weights_BHNM)

    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    module(inputs, (0, 1))
    for hook in hooks:
        hook.remove()

    def mixing(layer: Any, weights: Tensor) -> Callable[..., Tensor]:
        own = layer.mix

        def mix(heads: tuple[Tensor, ...], state: Any) -> Tensor:
            own(heads, state)  # which publishes values
            rest = layer.rest(heads[-1], state)
            return weights @ heads[-1] + (0 if rest is None else rest)

        return mix

    for layer, weights in zip(layers, shown, strict=True):
        layer.mix = mixing(layer, weights)
    try:
        yield
    finally:
        for layer in layers:
            del layer.mix


@pytest.mark.parametrize("kind", ["softmax", "rpc", "rkde", "neutreno"])
def test_pna_is_the_derivative_with_frozen_weights(kind: str) -> None:
    module, inputs = tiny(kind).double(), images()
    found = ruled(module, "pna", inputs)
    step, places = 1e-5, [(0, 0, 1, 2), (0, 2, 7, 0), (1, 1, 4, 4), (1, 0, 0, 7)]
    with frozen(module, inputs):
        for place in places:
            change = torch.zeros_like(inputs)
            change[place] = step
            ends = [float(score(module(inputs + sign * change, (0, 1)))) for sign in (1, -1)]
            assert float(found[place]) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-8)


def without_extremes(gradient: Tensor) -> Tensor:
    """Loop over examples and channels of (B, N, C)."""
    kept = gradient.clone()
    for b in range(gradient.shape[0]):
        for c in range(gradient.shape[2]):
            column = gradient[b, :, c].tolist()
            for extreme in (max(column), min(column)):
                kept[b, column.index(extreme), c] = 0
    return kept


def without_extreme_rows_and_columns(gradient: Tensor) -> Tensor:
    """Loop over examples and heads of (B, H, N, M)."""
    kept = gradient.clone()
    for b in range(gradient.shape[0]):
        for h in range(gradient.shape[1]):
            pairs = product(range(gradient.shape[2]), range(gradient.shape[3]))
            entries = {(n, m): float(gradient[b, h, n, m]) for n, m in pairs}
            for place in (max(entries, key=entries.__getitem__), min(entries, key=entries.__getitem__)):
                kept[b, h, place[0], :] = 0
                kept[b, h, :, place[1]] = 0
    return kept


def pulled(function: Callable[..., Tensor], at: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient by the argument of one piece of the model."""
    leaf = at.detach().requires_grad_(True)
    (found,) = torch.autograd.grad(function(leaf), leaf, gradient)
    return found


def heads_of(qkv: Tensor, place: int) -> Tensor:
    heads: Tensor = qkv.unflatten(2, (3, 2, -1))[:, :, place].transpose(1, 2)  # type: ignore[no-untyped-call]
    return heads


def weights_of(qk: Tensor) -> Tensor:
    scores: Tensor = qk[0] @ qk[1].transpose(-1, -2) / qk.shape[-1] ** 0.5
    return scores.softmax(-1)


def pulled_through(block: Any, x: Tensor, gradient: Tensor) -> Tensor:
    """Return the regularised gradient by the tokens that enter a block, piece by piece."""
    q, k, v = (heads_of(block.attn.qkv(block.norm1(x)), place) for place in range(3))
    weights = weights_of(torch.stack([q, k]))
    merged = (weights @ v).transpose(1, 2).flatten(2)
    by_mlp = 0.5 * without_extremes(gradient)
    gradient = gradient + pulled(lambda y: block.mlp(block.norm2(y)), x + block.attn.proj(merged), by_mlp)
    by_heads = pulled(block.attn.proj, merged, gradient).unflatten(2, (2, -1)).transpose(1, 2)
    by_weights = 0.25 * without_extreme_rows_and_columns(by_heads @ v.transpose(-1, -2))
    by_q, by_k = pulled(weights_of, torch.stack([q, k]), by_weights)
    by_v = weights.transpose(-1, -2) @ by_heads
    by_qkv = torch.stack([by_q, by_k, by_v]).permute(1, 3, 0, 2, 4).flatten(2)
    return gradient + pulled(lambda x: block.attn.qkv(block.norm1(x)), x, 0.75 * without_extremes(by_qkv))


def test_tgr_is_the_chain_of_regularised_pieces() -> None:
    module: Any = tiny("softmax").double()
    inputs = images()
    tokens = [module.first_tokens(inputs)]
    for block in module.blocks:
        tokens.append(block(tokens[-1], tokens[0], ForwardState()))
    gradient = pulled(lambda last: score(module.read_out(last)), tokens[-1], torch.ones((), dtype=torch.float64))
    for block, x in zip(reversed(module.blocks), reversed(tokens[:-1]), strict=True):
        gradient = pulled_through(block, x, gradient)
    wanted = pulled(module.first_tokens, inputs, gradient)
    assert torch.allclose(ruled(module, "tgr", inputs), wanted, rtol=0, atol=1e-8 * float(wanted.abs().max()))


class TestRefusals:
    ATTACK = TransferPgd(epsilon=Fraction(1, 10), relative_step=Fraction(1, 2), num_steps=2, backward="tgr")

    def test_a_model_without_attention_is_told_what_else_there_is(self) -> None:
        with pytest.raises(ContractError, match="leave out backward, and take input_diversity, translation or scale"):
            self.ATTACK.check_model(LoadedModel(Tiny(), PIXELS), images())

    def test_compiled_passes_have_no_hooks(self) -> None:
        model = LoadedModel(tiny(), PIXELS).in_precision("float32-compiled")
        with pytest.raises(ContractError, match="compiled passes leave out: take another precision"):
            self.ATTACK.check_model(model, images())

    def test_more_patches_than_the_model_has(self) -> None:
        attack = TransferPgd(epsilon=Fraction(1, 10), relative_step=Fraction(1, 2), num_steps=2, patch_out=5)
        with pytest.raises(ContractError, match=r"model's patches 2 x 2 .*, got 5"):
            attack.check_model(LoadedModel(tiny(), PIXELS), images())
