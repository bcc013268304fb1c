"""Contract of attention mechanisms: ``check_attention(MyAttention())``."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from robench.attention.base import AttentionBase
from robench.attention.build import build_attention
from robench.attention.geometry import Geometry, TokenLayout
from robench.attention.seen import ShowsInside
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.models.build import build
from robench.models.vit import Vit
from robench.testing.expectations import DECLARATION_CHECKS, require, run_checks, subject_of, watched_generators

__all__ = ["ATTENTION_CHECKS", "StandaloneLayer", "check_attention", "layer_of", "tokens"]

# One seed per example, so that neighbours and order change no draw.
SEED = 7
PATCHES = TokenLayout(num_special=1, grid=(4, 4))
GEOMETRY = Geometry(dim=16, num_heads=2, num_tokens=17, depth=4, layer=3, layout=PATCHES)
SCALES = (0.0, 1e-30, 1e-4, 1e-2, 1.0, 1e3)
BFLOAT16_SCALES = (1e-4, 1e-2, 1.0, 1e3)
# Tolerance of the number of parameters, which is declared for refusing models too large for memory.
MOST_UNDECLARED = 0.25
INSIDE_TOLERANCE = 1e-9

Check = Callable[[AttentionBase, Geometry], None]


def check_attention(declaration: AttentionBase, geometry: Geometry = GEOMETRY) -> None:
    """Check that a mechanism fulfils all contracts of robench's own mechanisms.

    Args:
        declaration: an instance, built as one layer.
        geometry: sizes and index of the layer, which must have the mechanism; all earlier layers publish values.
    """
    subject = subject_of("attention", declaration, AttentionBase)
    run_checks(subject, DECLARATION_CHECKS, declaration)
    run_checks(subject, (fits_the_geometry, *ATTENTION_CHECKS), declaration, geometry)


def fits_the_geometry(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that the layer of a geometry has the mechanism, which fits its sizes."""
    has_it = declaration.layers == "all" or geometry.layer in declaration.layers
    require(has_it, f"has layers {declaration.layers}", f"layer {geometry.layer} of the geometry among them")
    problems = declaration.problems_in(num_tokens=geometry.num_tokens, depth=geometry.depth)
    found = "; ".join(" ".join(problem) for problem in problems)
    require(not problems, f"does not fit {geometry}: {found}", "a geometry that fits")


class StandaloneLayer(nn.Module):
    """Layer called with the state of a forward pass, whose earlier values are functions of the tokens alone.

    Args:
        geometry: sizes and place of the layer.
        earlier: layers whose values it receives; None for all before its own.
    """

    def __init__(self, declaration: AttentionBase, geometry: Geometry, earlier: Collection[int] | None = None) -> None:
        super().__init__()
        self.layer = build_attention(declaration, geometry)
        self.earlier = tuple(range(geometry.layer) if earlier is None else earlier)
        self.num_heads = geometry.num_heads

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Return (B, N, C)."""
        mixed_BNC: Tensor = self.layer(x_BNC, self.state_for(x_BNC))
        return mixed_BNC

    def state_for(self, x_BNC: Tensor) -> ForwardState:
        """Return the state of a pass after the earlier layers."""
        values_BHND = earlier_values(x_BNC, self.earlier, self.num_heads)
        places_NC = positions(*x_BNC.shape[1:]).to(x_BNC)
        return ForwardState(seeds=(SEED,) * len(x_BNC), values_BHND=values_BHND, positions_NC=places_NC)

    # The module's own names of parameters, as a checkpoint has them.
    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Return the state of the layer."""
        return self.layer.state_dict(*arguments, **options)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Load the state of the layer."""
        return self.layer.load_state_dict(*arguments, **options)

    def get_parameter(self, target: str) -> nn.Parameter:
        """Return a parameter of the layer."""
        return self.layer.get_parameter(target)

    def get_submodule(self, target: str) -> nn.Module:
        """Return a module of the layer."""
        return self.layer.get_submodule(target)


def layer_of(
    declaration: AttentionBase,
    geometry: Geometry = GEOMETRY,
    *,
    seed: int = 0,
    spread: float = 0.5,
    earlier: Collection[int] | None = None,
) -> StandaloneLayer:
    """Return a layer in float64 whose parameters, biases included, are all of size ``spread``."""
    module = StandaloneLayer(declaration, geometry, earlier).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.layer.parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def earlier_values(x_BNC: Tensor, layers: Sequence[int], num_heads: int) -> dict[int, Tensor]:
    """Return the values published by earlier layers, (B, H, N, D) each, by layer: functions of the tokens."""
    heads_BHND = x_BNC.reshape(*x_BNC.shape[:2], num_heads, -1).transpose(1, 2)
    return {layer: (0.3 + 0.5 * layer) * heads_BHND + 0.1 * (layer + 1) for layer in layers}


def positions(num_tokens: int, dim: int) -> Tensor:
    """Return position vectors (N, C), the same for every input."""
    return 0.8 * tokens(batch=1, num_tokens=num_tokens, dim=dim, seed=11)[0]


def tokens(*, batch: int = 2, num_tokens: int = 5, dim: int = 6, seed: int = 1) -> Tensor:
    """Return normal random tokens (B, N, C) in float64."""
    return torch.randn(batch, num_tokens, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tokens_for(geometry: Geometry, *, batch: int = 2, seed: int = 1) -> Tensor:
    """Return tokens (B, N, C) of a geometry."""
    return tokens(batch=batch, num_tokens=geometry.num_tokens, dim=geometry.dim, seed=seed)


def keeps_shape_and_dtype_for_any_number_of_tokens(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check shapes and dtypes for several batches, and for layers built for several numbers of tokens."""
    for batch, num_tokens in ((1, geometry.num_tokens), (3, geometry.num_tokens), (2, 1), (2, 5), (2, 26)):
        if declaration.problems_in(num_tokens=num_tokens, depth=geometry.depth):
            continue
        module = StandaloneLayer(declaration, replace(geometry, num_tokens=num_tokens, layout=TokenLayout()))
        x_BNC = tokens(batch=batch, num_tokens=num_tokens, dim=geometry.dim)
        for dtype in (torch.float32, torch.float64):
            output_BNC = module.to(dtype)(x_BNC.to(dtype))
            require(
                isinstance(output_BNC, Tensor) and output_BNC.shape == x_BNC.shape,
                f"returns {tuple(output_BNC.shape)} for tokens of shape {tuple(x_BNC.shape)}",
                "the shape of the tokens",
            )
            require(output_BNC.dtype == dtype, f"returns {output_BNC.dtype} for {dtype}", str(dtype))


def rows_influence_each_other_only_where_declared(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that outputs depend on the neighbours in the batch if ``is_coupled``, and only then."""
    module, x_BNC = layer_of(declaration, geometry), tokens_for(geometry, batch=4)
    unmoved = []
    for place in range(4):
        others_BNC = 10 * tokens_for(geometry, batch=4, seed=9)
        others_BNC[place] = x_BNC[place]
        unmoved.append(torch.equal(module(x_BNC)[place], module(others_BNC)[place]))
    _require_coupling(declaration, not all(unmoved), "rows of a batch change each other's outputs")
    alone_BNC = torch.cat([module(x_NC.unsqueeze(0)) for x_NC in x_BNC])
    is_same = torch.allclose(module(x_BNC), alone_BNC, rtol=0, atol=INSIDE_TOLERANCE)
    _require_coupling(declaration, not is_same, "outputs of a row alone and among others differ")


def gradients_leak_only_where_declared(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that the gradient of one row's output reaches other rows if ``is_coupled``, and only then."""
    leaked = []
    for place in range(3):
        x_BNC = tokens_for(geometry, batch=3).requires_grad_()
        layer_of(declaration, geometry)(x_BNC)[place].sum().backward()
        assert x_BNC.grad is not None
        sizes_B = x_BNC.grad.abs().amax(dim=(1, 2))
        require(bool(sizes_B[place] > 0), "gives a row's tokens no gradient of its own output", "a gradient")
        leaked.append(bool(sizes_B.sum() > sizes_B[place]))
    _require_coupling(declaration, any(leaked), "gradients leak from one row of a batch to another")


def every_parameter_gets_a_gradient(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that each trainable parameter affects the output, or an auxiliary training loss."""
    module, x_BNC = layer_of(declaration, geometry), tokens_for(geometry)
    state = module.state_for(x_BNC)
    state.losses_B = []
    output_BNC: Tensor = module.layer(x_BNC, state)
    torch.stack([output_BNC.square().sum(), *(loss_B.sum() for loss_B in state.losses_B)]).sum().backward()
    for name, parameter in module.layer.named_parameters():
        moves = not parameter.requires_grad or (parameter.grad is not None and bool(parameter.grad.any()))
        require(moves, f"has parameter {name} without a gradient", "a gradient, or a buffer")


def values_and_gradients_are_finite(declaration: AttentionBase, geometry: Geometry, zeroed: str = "qkv.bias") -> None:
    """Check outputs and gradients in float32 for tokens of all scales, 0 included.

    The bias named ``zeroed`` is set to zero, if there is one, so that projections can be zero.
    """
    for scale in SCALES:
        module = layer_of(declaration, geometry).float()
        with torch.no_grad():
            for name, parameter in module.layer.named_parameters():
                if name == zeroed:
                    parameter.zero_()
        x_BNC = (scale * tokens_for(geometry).float()).requires_grad_()
        output_BNC = module(x_BNC)
        output_BNC.sum().backward()
        where = f"at scale {scale:g} in float32"
        _require_finite(declaration, f"outputs {where}", output_BNC)
        _require_finite(declaration, f"gradients of the tokens {where}", x_BNC.grad)
        for name, parameter in module.layer.named_parameters():
            if parameter.grad is not None:
                _require_finite(declaration, f"gradients of {name} {where}", parameter.grad)


def bfloat16_is_finite(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check outputs and gradients in bfloat16 for tokens of several scales."""
    for scale in BFLOAT16_SCALES:
        module = layer_of(declaration, geometry).bfloat16()
        x_BNC = (scale * tokens_for(geometry)).bfloat16().requires_grad_()
        output_BNC = module(x_BNC)
        where = f"at scale {scale:g} in bfloat16"
        require(output_BNC.dtype == torch.bfloat16, f"returns {output_BNC.dtype} {where}", "torch.bfloat16")
        output_BNC.sum().backward()
        _require_finite(declaration, f"outputs {where}", output_BNC)
        _require_finite(declaration, f"gradients of the tokens {where}", x_BNC.grad)


def is_deterministic_in_evaluation_mode(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that two passes in evaluation mode give the same bytes and move no global generator."""
    module, x_BNC = layer_of(declaration, geometry).eval(), tokens_for(geometry)
    with watched_generators():
        first, second = module(x_BNC), module(x_BNC)
    found = "returns other outputs when called again in evaluation mode"
    require(torch.equal(first, second), found, "the same bytes: draw from the seeds of the state alone")


def leaves_its_input_alone(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that the tokens are not written into."""
    x_BNC = tokens_for(geometry)
    layer_of(declaration, geometry)(x_BNC)
    require(torch.equal(x_BNC, tokens_for(geometry)), "writes into the tokens", "a copy first")


def its_state_survives_a_round_trip(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that another layer with the same state dict gives the same bytes, and that all entries are numbers."""
    module = layer_of(declaration, geometry, seed=1)
    other = layer_of(declaration, geometry, seed=2)
    state = module.state_dict()
    dense = all(isinstance(value, Tensor) and value.layout == torch.strided for value in state.values())
    require(dense, "has a state dict with more than dense tensors", "parameters and buffers alone")
    other.load_state_dict({name: value.clone() for name, value in state.items()}, strict=True)
    x_BNC = tokens_for(geometry)
    require(
        torch.equal(module.eval()(x_BNC), other.eval()(x_BNC)),
        "gives other outputs after its state dict was loaded into another layer",
        "the same bytes: all that outputs depend on is a parameter or a persistent buffer",
    )


def its_parameters_are_as_many_as_declared(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check ``parameters_in`` against the built layer; only far more parameters than declared are refused."""
    sizes = replace(geometry, dim=8 * geometry.num_heads, num_tokens=65, layout=TokenLayout())
    if declaration.problems_in(num_tokens=sizes.num_tokens, depth=sizes.depth):
        sizes = geometry
    built, plain = (num_parameters(each, sizes) for each in (declaration, Softmax()))
    declared = declaration.parameters_in(num_tokens=sizes.num_tokens, num_heads=sizes.num_heads, dim=sizes.dim)
    limit = (1 + MOST_UNDECLARED) * (plain + declared)
    require(
        declared >= 0 and built <= limit,
        f"has {built - plain} parameters beside those of softmax attention, and parameters_in returns {declared}",
        "their number, so that models too large for memory are refused before they are built",
    )


def shows_what_it_computes(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check what a module with a method ``seen`` shows: shapes, heads that are weighted values, and no side effects."""
    module, x_BNC = layer_of(declaration, geometry).eval(), tokens_for(geometry)
    if not isinstance(module.layer, ShowsInside):
        return
    state, B, N = module.state_for(x_BNC), *x_BNC.shape[:2]
    before_BNC = module(x_BNC)
    published = dict(state.values_BHND)
    shown = module.layer.seen(x_BNC, state)
    is_kept = state.values_BHND.keys() == published.keys() and state.losses_B is None
    require(is_kept, "publishes values or losses when it is seen", "a state that stays as it is (attention.seen.aside)")
    require(torch.equal(module(x_BNC), before_BNC), "gives other outputs after it was seen", "the same bytes")
    of_heads = (B, geometry.num_heads, N, geometry.head_dim)
    for name in ("heads_BHND", "queries_BHND"):
        value = getattr(shown, name)
        found = None if value is None else tuple(value.shape)
        require(found in (None, of_heads), f"shows {name} of shape {found}", str(of_heads))
    _require_finite(declaration, "seen heads", shown.heads_BHND)
    if shown.weights_BHNM is None:
        return
    require(shown.values_BHMD is not None, "shows weights and no values", "the values that they weigh")
    assert shown.values_BHMD is not None
    mixed_BHND = shown.weights_BHNM @ shown.values_BHMD
    if shown.rest_BHND is not None:
        mixed_BHND = mixed_BHND + shown.rest_BHND
    require(
        torch.allclose(mixed_BHND, shown.heads_BHND, rtol=INSIDE_TOLERANCE, atol=INSIDE_TOLERANCE),
        f"shows heads that differ from weights @ values + rest by {(mixed_BHND - shown.heads_BHND).abs().max():.2g}",
        "the weights of this pass",
    )


def builds_in_a_backbone(declaration: AttentionBase, geometry: Geometry) -> None:
    """Check that a small vision transformer with the mechanism can be built, scores images, and is differentiable."""
    side = round((geometry.num_tokens - 1) ** 0.5)
    if side < 1 or declaration.problems_in(num_tokens=side**2 + 1, depth=geometry.depth):
        return
    vit = Vit(
        image_size=2 * side,
        patch_size=2,
        num_classes=3,
        depth=geometry.depth,
        dim=geometry.dim,
        num_heads=geometry.num_heads,
        attention=declaration,
    )
    model = build(vit).eval()
    images = torch.rand(2, 3, 2 * side, 2 * side, generator=torch.Generator().manual_seed(1)).requires_grad_()
    logits = model(images, (SEED, SEED))
    logits.square().sum().backward()
    require(logits.shape == (2, 3), f"gives a backbone logits of shape {tuple(logits.shape)}", "(2, 3)")
    _require_finite(declaration, "logits of a backbone", logits)
    _require_finite(declaration, "gradients of a backbone's images", images.grad)


ATTENTION_CHECKS: tuple[Check, ...] = (
    keeps_shape_and_dtype_for_any_number_of_tokens,
    leaves_its_input_alone,
    is_deterministic_in_evaluation_mode,
    rows_influence_each_other_only_where_declared,
    gradients_leak_only_where_declared,
    every_parameter_gets_a_gradient,
    values_and_gradients_are_finite,
    bfloat16_is_finite,
    its_state_survives_a_round_trip,
    its_parameters_are_as_many_as_declared,
    shows_what_it_computes,
    builds_in_a_backbone,
)


def num_parameters(declaration: AttentionBase, geometry: Geometry) -> int:
    """Return the number of parameters of one layer."""
    return sum(parameter.numel() for parameter in build_attention(declaration, geometry).parameters())


def _require_coupling(declaration: AttentionBase, is_coupled: bool, found: str) -> None:
    says = f"is_coupled {declaration.is_coupled}"
    if is_coupled:
        require(declaration.is_coupled, f"declares {says}, but {found}", "each row to depend on itself alone")
    else:
        require(not declaration.is_coupled, f"declares {says}, and yet it is not so that {found}", "the truth")


def _require_finite(declaration: AttentionBase, what: str, values: Tensor | None) -> None:
    require(values is not None, f"has no {what}", "finite ones")
    assert values is not None
    require(bool(values.isfinite().all()), f"has NaN or infinite {what}", "finite ones")
