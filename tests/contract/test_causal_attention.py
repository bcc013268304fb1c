"""What every causal form of an attention mechanism promises, run over the whole registry."""

import re
from dataclasses import replace

import pytest
import torch
from attention_references import REFERENCES
from attention_settings import one_per_form, one_per_kind
from attention_settings import title as title
from causal_references import CAUSAL_REFERENCES
from reference_base import layer
from torch import Tensor

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.state import ForwardState
from robench.core.errors import DeclarationError
from robench.testing.attention import (
    ATTENTION_CHECKS,
    Check,
    StandaloneLayer,
    builds_in_a_backbone,
    earlier_values,
    layer_of,
    positions,
    tokens_for,
)

GEOMETRY = Geometry(dim=8, num_heads=2, num_tokens=12, depth=3, layer=0, is_causal=True)
DECLARATIONS = [declaration for reference in CAUSAL_REFERENCES.values() for declaration in reference.declarations]
SPREADS = (0.2, 0.5)
WITHOUT = {
    "linformer": "its projection mixes later tokens",
    "nystrom": "its landmarks are means over segments of tokens, later ones too",
    "attnscale": "the uniform weights that it scales around are over all tokens",
    "scaled": "S V mixes the values of all tokens",
    "rvt": "its learned matrix has a weight for each pair of places of an image",
}
SINGLE_TOLERANCE = 1e-5


def geometry_of(declaration: AttentionBase, geometry: Geometry = GEOMETRY) -> Geometry:
    own_layer = REFERENCES[declaration.kind].at(declaration).own_layer
    return replace(geometry, layer=own_layer, depth=max(geometry.depth, own_layer + 1))


class CausalLayer(StandaloneLayer):
    """A layer whose backbone has one table of positions for all lengths of text."""

    def state_for(self, x_BNC: Tensor) -> ForwardState:
        state = super().state_for(x_BNC)
        state.positions_NC = positions(GEOMETRY.num_tokens, x_BNC.shape[-1]).to(x_BNC)
        return state


def made(
    declaration: AttentionBase, *, seed: int = 0, spread: float = 0.5, geometry: Geometry = GEOMETRY
) -> StandaloneLayer:
    geometry = geometry_of(declaration, geometry)
    module = CausalLayer(declaration, geometry).double()
    module.load_state_dict(layer_of(declaration, geometry, seed=seed, spread=spread).state_dict())
    return module


def reference_output(declaration: AttentionBase, module: StandaloneLayer, x_BNC: Tensor) -> Tensor:
    reference = CAUSAL_REFERENCES[declaration.kind]
    parameters = {name: value.tolist() for name, value in module.state_dict().items()}
    needed = reference.at(declaration).needs_layers
    earlier = {place: values.tolist() for place, values in earlier_values(x_BNC, needed, GEOMETRY.num_heads).items()}
    places = positions(GEOMETRY.num_tokens, GEOMETRY.dim).tolist()
    output = layer(reference, declaration, x_BNC.tolist(), parameters, GEOMETRY.num_heads, earlier, places)
    return torch.tensor(output, dtype=torch.float64)


def tokens_of(declaration: AttentionBase) -> Tensor:
    """As many as its reference can take: that of spkde tries every support of every prefix."""
    return tokens_for(replace(GEOMETRY, num_tokens=6 if declaration.kind == "spkde" else GEOMETRY.num_tokens))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the settings at which laws are checked; tests/slow/test_causal_attention_sweep.py has all."""
    if "declaration" in metafunc.fixturenames:
        is_reference = "spread" in metafunc.fixturenames
        settings = one_per_form(DECLARATIONS) if is_reference else one_per_kind(DECLARATIONS)
        metafunc.parametrize("declaration", settings, ids=title)
        if is_reference:
            metafunc.parametrize("spread", SPREADS[-1:])


def test_every_mechanism_has_a_causal_form_or_a_reason() -> None:
    for kind, declared in ATTENTIONS.items():
        assert declared.has_causal_form != bool(declared.not_causal), kind
    causal = {kind for kind, declared in ATTENTIONS.items() if declared.has_causal_form}
    assert causal == set(CAUSAL_REFERENCES), "a causal form needs a line in tests/contract/causal_references.py"


@pytest.mark.parametrize("kind", [kind for kind, each in ATTENTIONS.items() if not each.has_causal_form])
def test_a_mechanism_without_a_causal_form_is_refused_with_the_reason(kind: str) -> None:
    declaration = REFERENCES[kind].declarations[0]
    assert isinstance(declaration, AttentionBase)
    reason = WITHOUT.get(kind, declaration.not_causal)
    message = f"attention {kind} has no causal form, which language models need: {reason}"
    with pytest.raises(DeclarationError, match=re.escape(message)):
        build_attention(declaration, geometry_of(declaration))


def test_parameters_are_those_of_the_other_form(declaration: AttentionBase) -> None:
    geometry = geometry_of(declaration)
    shapes = [
        {name: value.shape for name, value in build_attention(declaration, each).state_dict().items()}
        for each in (geometry, replace(geometry, is_causal=False))
    ]
    if declaration.kind == "mgk":
        expected = shapes[1] | {f"pi{place}": torch.Size([2, 1, 1, GEOMETRY.num_tokens]) for place in range(2)}
    else:
        expected = shapes[1]
    assert shapes[0] == expected


def test_a_later_token_changes_nothing_before_it(declaration: AttentionBase) -> None:
    layer = made(declaration)
    x_BNC = tokens_for(GEOMETRY)
    output_BNC = layer(x_BNC)
    for place in range(1, GEOMETRY.num_tokens):
        changed_BNC = x_BNC.clone()
        changed_BNC[:, place:] = 3 * changed_BNC[:, place:].flip(0) + 1
        assert torch.equal(layer(changed_BNC)[:, :place], output_BNC[:, :place])


def test_far_larger_later_tokens_change_nothing_in_float32(declaration: AttentionBase) -> None:
    layer = made(declaration).float()
    x_BNC = tokens_for(GEOMETRY).float()
    output_BNC = layer(x_BNC)
    for place in (1, 6, 11):
        changed_BNC = torch.cat([x_BNC[:, :place], 1000 * x_BNC[:, place:] + 1], dim=1)
        found_BNC = layer(changed_BNC)
        assert torch.equal(found_BNC[:, :place], output_BNC[:, :place])
        assert not torch.equal(found_BNC[:, place:], output_BNC[:, place:])


def test_a_later_token_has_no_gradient(declaration: AttentionBase) -> None:
    layer = made(declaration)
    x_BNC = tokens_for(GEOMETRY).requires_grad_()
    output_BNC = layer(x_BNC)
    for place in range(GEOMETRY.num_tokens):
        (gradient_BNC,) = torch.autograd.grad(output_BNC[:, place].sin().sum(), x_BNC, retain_graph=True)
        assert bool((gradient_BNC[:, place + 1 :] == 0).all())
        assert bool(gradient_BNC.isfinite().all())


def test_a_shorter_text_gives_the_same_outputs(declaration: AttentionBase) -> None:
    layer = made(declaration)
    x_BNC = tokens_for(GEOMETRY)
    output_BNC = layer(x_BNC)
    # Products of matrices of other sizes round differently on some CPUs, relative to their size.
    tolerance = 1e-12 * max(1.0, float(output_BNC.detach().abs().max()))
    for length in range(1, GEOMETRY.num_tokens):
        assert torch.allclose(layer(x_BNC[:, :length]), output_BNC[:, :length], rtol=0, atol=tolerance)


def test_it_equals_the_slow_reference(declaration: AttentionBase, spread: float) -> None:
    module, x_BNC = made(declaration, spread=spread), tokens_of(declaration)
    expected_BNC = reference_output(declaration, module, x_BNC)
    assert (module(x_BNC) - expected_BNC).abs().max() <= 1e-9
    # Relative where outputs are large: quotients of densities reach hundreds, in the two-sided form too.
    tolerance = SINGLE_TOLERANCE * max(1.0, float(expected_BNC.abs().max()))
    assert (module.float()(x_BNC.float()) - expected_BNC).abs().max() <= tolerance


@pytest.mark.parametrize("check", [each for each in ATTENTION_CHECKS if each is not builds_in_a_backbone])
def test_it_keeps_what_every_attention_promises(declaration: AttentionBase, check: Check) -> None:
    check(declaration, geometry_of(declaration))
