"""What all slow references of attention mechanisms share: plain Python, one loop an index, no tensors.

They are written from the papers' equations and share nothing with the code under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from robench.attention.geometry import Geometry
from robench.core.declared import Declaration

Vector = list[float]
Matrix = list[Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where one head of one example stands.

    Attributes:
        full_width: width of all heads together; ``head``: which one this is, of ``num_heads``.
        parameters: all parameters and buffers of the layer as nested lists, by name in its state dict.
        earlier: this head's values in earlier layers, by layer.
        positions: vectors of the tokens' places that the backbone has learned, tokens by full width.
        shared: what the heads of one example, or the examples of the batch, have in common.
        tokens: what entered the layer, tokens by full width.
    """

    full_width: int
    head: int
    num_heads: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    earlier: Mapping[int, Matrix] = field(default_factory=dict)
    positions: Matrix | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    tokens: Matrix = field(default_factory=list)


def nothing_shared(
    declaration: Any, projections: Sequence[Sequence[Matrix]], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    return {}


def nothing_more(geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {}


def no_batch(
    declaration: Any, projections: Sequence[Sequence[Sequence[Matrix]]], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """How a mechanism is checked.

    Attributes:
        head: (declaration, one head's projections, situation) -> the head's output, tokens by width.
        declarations: settings at which the code must agree with ``head``.
        projections: names of the blocks of the projection ``projection_name``, in order.
        more_shapes: what its state dict has beyond that projection and ``proj``, by name.
        of_losses: parameters that only its losses depend on, and no output.
        treats_tokens_alike: permuted tokens give permuted outputs (no positions, no landmarks).
        takes_any_length: works for another number of tokens than it was built for.
        needs_layers: earlier layers whose values it reads; its own layer is the one after the last of them.
        shared: (declaration, all heads' projections of one example, parameters) -> what its heads have in common.
        of_batch: (declaration, all heads' projections of every example, parameters) -> what all examples share.
        stops_gradients: by its source, no gradient flows through a part of it.
        exceptions: references of settings, ``declarations`` of this one too, of which other things are true.
    """

    head: Callable[[Any, Sequence[Matrix], Situation], Matrix]
    declarations: tuple[Declaration, ...]
    projections: tuple[str, ...] = ("q", "k", "v")
    projection_name: str = "qkv"
    more_shapes: Callable[[Geometry], dict[str, tuple[int, ...]]] = nothing_more
    of_losses: tuple[str, ...] = ()
    treats_tokens_alike: bool = True
    takes_any_length: bool = True
    needs_layers: tuple[int, ...] = ()
    shared: Callable[[Any, Sequence[Sequence[Matrix]], Mapping[str, Any]], dict[str, Any]] = nothing_shared
    of_batch: Callable[[Any, Sequence[Sequence[Sequence[Matrix]]], Mapping[str, Any]], dict[str, Any]] = no_batch
    stops_gradients: bool = False
    exceptions: tuple[Reference, ...] = ()

    def at(self, declaration: Declaration) -> Reference:
        """What is true of one setting."""
        return next((other for other in self.exceptions if declaration in other.declarations), self)

    @property
    def own_layer(self) -> int:
        return max(self.needs_layers, default=-1) + 1


def softmax_row(scores: Vector) -> Vector:
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    return [power / sum(powers) for power in powers]


def dot_scores(queries: Matrix, keys: Matrix) -> Matrix:
    """q_i . k_j / sqrt(D)."""
    width = len(keys[0])
    return [[sum(query[d] * key[d] for d in range(width)) / math.sqrt(width) for key in keys] for query in queries]


def mixed(weights: Matrix, values: Matrix) -> Matrix:
    """sum_j weights_ij v_j."""
    width, tokens = range(len(values[0])), range(len(values))
    return [[sum(row[j] * values[j][d] for j in tokens) for d in width] for row in weights]


def attention(queries: Matrix, keys: Matrix, values: Matrix) -> Matrix:
    """Equation 3 of the RPC paper: h_i = sum_j softmax_j(q_i . k_j / sqrt(D)) v_j."""
    return mixed([softmax_row(row) for row in dot_scores(queries, keys)], values)


def linear(token: Vector, weight: Matrix, bias: Vector) -> Vector:
    return [bias[row] + sum(weight[row][c] * token[c] for c in range(len(token))) for row in range(len(bias))]


def head_projections(
    reference: Reference, tokens: Matrix, weight: Matrix, bias: Vector, num_heads: int, head: int
) -> list[Matrix]:
    """One head's projections of one example: head ``head`` owns that slice of each block of the projection."""
    projected = [linear(token, weight, bias) for token in tokens]
    full_width = len(bias) // len(reference.projections)
    width = full_width // num_heads
    starts = [block * full_width + head * width for block in range(len(reference.projections))]
    return [[row[start : start + width] for row in projected] for start in starts]


def layer(
    reference: Reference,
    declaration: Declaration,
    examples: Sequence[Matrix],
    parameters: Mapping[str, Any],
    num_heads: int,
    earlier: Mapping[int, Sequence[Sequence[Matrix]]],
    positions: Matrix | None = None,
) -> list[Matrix]:
    """A whole attention layer, example by example, head by head, token by token.

    ``earlier`` has the values of earlier layers: by layer, then example, then head.
    """
    outputs = []
    weight, bias = (parameters[f"{reference.projection_name}.{part}"] for part in ("weight", "bias"))
    of_examples = [
        [head_projections(reference, tokens, weight, bias, num_heads, head) for head in range(num_heads)]
        for tokens in examples
    ]
    of_batch = reference.of_batch(declaration, of_examples, parameters)
    for number, (tokens, of_heads) in enumerate(zip(examples, of_examples, strict=True)):
        merged: Matrix = [[] for _ in tokens]
        shared = of_batch | reference.shared(declaration, of_heads, parameters)
        for head, projections in enumerate(of_heads):
            situation = Situation(
                full_width=len(tokens[0]),
                head=head,
                num_heads=num_heads,
                parameters=parameters,
                earlier={place: values[number][head] for place, values in earlier.items()},
                positions=positions,
                shared=shared,
                tokens=tokens,
            )
            part = reference.head(declaration, projections, situation)
            for row, of_head in zip(merged, part, strict=True):
                row.extend(of_head)
        outputs.append([linear(row, parameters["proj.weight"], parameters["proj.bias"]) for row in merged])
    return outputs
