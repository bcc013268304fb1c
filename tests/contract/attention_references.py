"""Slow references of the attention mechanisms: the papers' equations in plain Python, one loop an index.

They share nothing with the code under test: no tensors, no broadcasting, the multiplier Y and mu kept as printed.
A new mechanism brings one line in ``REFERENCES``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robench.declarations.attentions import Rpc, Softmax, Symmetric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from robench.core.protocols import Declaration

Vector = list[float]
Matrix = list[Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """How a mechanism is checked.

    Attributes:
        head: (declaration, one head's projections, width of all heads) -> the head's output, tokens by width.
        projections: names of the blocks of ``qkv``, in order.
        declarations: settings at which the code must agree with ``head``.
    """

    head: Callable[[Any, Sequence[Matrix], int], Matrix]
    projections: tuple[str, ...]
    declarations: tuple[Declaration, ...]


def softmax_row(scores: Vector) -> Vector:
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    return [power / sum(powers) for power in powers]


def attention(queries: Matrix, keys: Matrix, values: Matrix) -> Matrix:
    """Equation 3 of the RPC paper: h_i = sum_j softmax_j(q_i . k_j / sqrt(D)) v_j."""
    width = len(keys[0])
    output = []
    for query in queries:
        scores = [sum(query[d] * key[d] for d in range(width)) / math.sqrt(width) for key in keys]
        weights = softmax_row(scores)
        output.append([sum(weights[j] * values[j][d] for j in range(len(values))) for d in range(len(values[0]))])
    return output


def softmax_head(declaration: Softmax, projections: Sequence[Matrix], full_width: int) -> Matrix:
    queries, keys, values = projections
    return attention(queries, keys, values)


def symmetric_head(declaration: Symmetric, projections: Sequence[Matrix], full_width: int) -> Matrix:
    keys, values = projections
    return attention(keys, keys, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pursuit:
    """What one iteration of principal attention pursuit did.

    Attributes:
        candidates: K - L + Y / mu, before the shrinkage; ``sparse``: S; ``low_rank``: L.
    """

    candidates: Matrix
    threshold: float
    sparse: Matrix
    low_rank: Matrix


def pursuits(declaration: Rpc, projections: Sequence[Matrix], full_width: int) -> list[Pursuit]:
    """Algorithm 1 of the RPC paper, iteration by iteration, with mu and the multiplier Y as printed."""
    keys, values = projections
    tokens, width = range(len(keys)), range(len(keys[0]))
    absolute_sum = sum(abs(keys[i][d]) for i in tokens for d in width)
    if declaration.formula == "paper":
        mu = len(keys) * len(keys[0]) / (4 * absolute_sum)
        threshold = declaration.sparsity / mu
    else:
        mu = len(keys) * full_width / 4 / absolute_sum
        threshold = declaration.sparsity * mu
    low_rank = [[0.0 for d in width] for i in tokens]
    multiplier = [[0.0 for d in width] for i in tokens]
    steps = []
    for _ in range(declaration.num_iterations):
        candidates = [[keys[i][d] - low_rank[i][d] + multiplier[i][d] / mu for d in width] for i in tokens]
        sparse = [[math.copysign(max(abs(x) - threshold, 0.0), x) for x in row] for row in candidates]
        cleaned = [[keys[i][d] - sparse[i][d] - multiplier[i][d] / mu for d in width] for i in tokens]
        low_rank = attention(cleaned, cleaned, values)
        multiplier = [
            [multiplier[i][d] + mu * (keys[i][d] - low_rank[i][d] - sparse[i][d]) for d in width] for i in tokens
        ]
        steps.append(Pursuit(candidates=candidates, threshold=threshold, sparse=sparse, low_rank=low_rank))
    return steps


def rpc_head(declaration: Rpc, projections: Sequence[Matrix], full_width: int) -> Matrix:
    return pursuits(declaration, projections, full_width)[-1].low_rank


RPC_DECLARATIONS = tuple(
    Rpc(num_iterations=num_iterations, sparsity=sparsity, layers="all", formula=formula)
    for formula in ("paper", "released")
    for num_iterations in (1, 2, 4)
    for sparsity in (0.1, 0.5, 4.0)
)

REFERENCES: Mapping[str, Reference] = {
    "softmax": Reference(head=softmax_head, projections=("q", "k", "v"), declarations=(Softmax(),)),
    "symmetric": Reference(head=symmetric_head, projections=("k", "v"), declarations=(Symmetric(),)),
    "rpc": Reference(head=rpc_head, projections=("k", "v"), declarations=RPC_DECLARATIONS),
}


def linear(token: Vector, weight: Matrix, bias: Vector) -> Vector:
    return [bias[row] + sum(weight[row][c] * token[c] for c in range(len(token))) for row in range(len(bias))]


def head_projections(
    reference: Reference, tokens: Matrix, weight: Matrix, bias: Vector, num_heads: int, head: int
) -> list[Matrix]:
    """One head's projections of one example: head ``head`` owns that slice of each block of ``qkv``."""
    projected = [linear(token, weight, bias) for token in tokens]
    full_width = len(bias) // len(reference.projections)
    width = full_width // num_heads
    starts = [block * full_width + head * width for block in range(len(reference.projections))]
    return [[row[start : start + width] for row in projected] for start in starts]


def layer(
    declaration: Declaration, examples: Sequence[Matrix], parameters: Mapping[str, Any], num_heads: int
) -> list[Matrix]:
    """A whole attention layer with timm's parameter names, example by example, head by head, token by token."""
    reference = REFERENCES[declaration.kind]
    outputs = []
    for tokens in examples:
        merged: Matrix = [[] for _ in tokens]
        for head in range(num_heads):
            projections = head_projections(
                reference, tokens, parameters["qkv.weight"], parameters["qkv.bias"], num_heads, head
            )
            mixed = reference.head(declaration, projections, len(tokens[0]))
            for row, part in zip(merged, mixed, strict=True):
                row.extend(part)
        outputs.append([linear(row, parameters["proj.weight"], parameters["proj.bias"]) for row in merged])
    return outputs
