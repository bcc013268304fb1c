"""What every causal form of an attention mechanism promises, run over the whole registry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from attention_references import REFERENCES

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.core.errors import DeclarationError
from robench.testing.attention import layer_of, tokens_for

if TYPE_CHECKING:
    from torch import nn

GEOMETRY = Geometry(dim=8, num_heads=2, num_tokens=12, depth=3, layer=0, is_causal=True)
DECLARATIONS = [
    declaration
    for reference in REFERENCES.values()
    for declaration in reference.declarations
    if isinstance(declaration, AttentionBase) and declaration.causal_implementation
]


def geometry_of(declaration: AttentionBase) -> Geometry:
    own_layer = REFERENCES[declaration.kind].at(declaration).own_layer
    return replace(GEOMETRY, layer=own_layer, depth=max(GEOMETRY.depth, own_layer + 1))


def made(declaration: AttentionBase, *, seed: int = 0) -> nn.Module:
    return layer_of(declaration, geometry_of(declaration), seed=seed, spread=0.5)


def test_every_mechanism_has_a_causal_form_or_a_reason() -> None:
    for kind, declared in ATTENTIONS.items():
        assert bool(declared.causal_implementation) != bool(declared.not_causal), kind


@pytest.mark.parametrize("kind", [kind for kind, each in ATTENTIONS.items() if not each.causal_implementation])
def test_a_mechanism_without_a_causal_form_is_refused_with_the_reason(kind: str) -> None:
    declaration = REFERENCES[kind].declarations[0]
    assert isinstance(declaration, AttentionBase)
    with pytest.raises(DeclarationError, match=f"attention {kind} has no causal form, which language models need: "):
        build_attention(declaration, geometry_of(declaration))


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=str)
def test_parameters_are_those_of_the_other_form(declaration: AttentionBase) -> None:
    geometry = geometry_of(declaration)
    shapes = [
        {name: value.shape for name, value in build_attention(declaration, each).state_dict().items()}
        for each in (geometry, replace(geometry, is_causal=False))
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=str)
def test_a_later_token_changes_nothing_before_it(declaration: AttentionBase) -> None:
    layer = made(declaration)
    x_BNC = tokens_for(GEOMETRY)
    output_BNC = layer(x_BNC)
    for place in range(1, GEOMETRY.num_tokens):
        changed_BNC = x_BNC.clone()
        changed_BNC[:, place:] = 3 * changed_BNC[:, place:].flip(0) + 1
        assert torch.equal(layer(changed_BNC)[:, :place], output_BNC[:, :place])


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=str)
def test_a_later_token_has_no_gradient(declaration: AttentionBase) -> None:
    layer = made(declaration)
    x_BNC = tokens_for(GEOMETRY).requires_grad_()
    output_BNC = layer(x_BNC)
    for place in range(GEOMETRY.num_tokens):
        (gradient_BNC,) = torch.autograd.grad(output_BNC[:, place].sin().sum(), x_BNC, retain_graph=True)
        assert bool((gradient_BNC[:, place + 1 :] == 0).all())
        assert bool(gradient_BNC.isfinite().all())


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=str)
def test_a_shorter_text_gives_the_same_outputs(declaration: AttentionBase) -> None:
    layer = made(declaration)
    x_BNC = tokens_for(GEOMETRY)
    output_BNC = layer(x_BNC)
    for length in range(1, GEOMETRY.num_tokens):
        assert torch.allclose(layer(x_BNC[:, :length]), output_BNC[:, :length], rtol=0, atol=1e-12)
