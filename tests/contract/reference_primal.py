"""Reference of Primal-Attention and of its KSVD loss, as the supplement prints them; matrices of weights are formed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from reference_base import Matrix, Reference, Situation, Vector, linear

from robench.attention.geometry import Geometry
from robench.attention.primal import Primal


def direction(x: Vector) -> Vector:
    """The feature map of the cosine kernel: x / |x|."""
    length = math.sqrt(sum(entry * entry for entry in x))
    return [entry / length for entry in x]


def sampled(declaration: Primal, tokens: Matrix) -> Matrix:
    """f(X): min(s * rank_multi, N) of the tokens, in even steps from the first to the last."""
    count = min(declaration.num_directions * declaration.rank_multiplier, len(tokens))
    if count == 1:
        return [tokens[0]]
    step = Fraction(len(tokens) - 1, count - 1)
    return [tokens[math.floor(number * step)] for number in range(count)]


def projection_weights(declaration: Primal, weight: Matrix, head_tokens: Matrix) -> Matrix:
    """f(X)^T W, of which a column is a direction; W itself in the data-independent case."""
    if not declaration.data_dependent:
        return weight
    chosen = sampled(declaration, head_tokens)
    return [
        [sum(chosen[m][p] * weight[m][s] for m in range(len(chosen))) for s in range(len(weight[0]))]
        for p in range(len(chosen[0]))
    ]


def scores(vectors: Matrix, weights: Matrix) -> Matrix:
    """(f(X)^T W)^T phi(x_i), for each of the vectors."""
    return [
        [sum(weights[p][s] * direction(x)[p] for p in range(len(x))) for s in range(len(weights[0]))] for x in vectors
    ]


def head_scores(declaration: Primal, projections: Sequence[Matrix], situation: Situation) -> tuple[Matrix, Matrix]:
    """The e-scores and r-scores of one head."""
    queries, keys = projections
    width = len(queries[0])
    head_tokens = [token[situation.head * width : (situation.head + 1) * width] for token in situation.tokens]
    of_queries, of_keys = (
        projection_weights(declaration, situation.parameters[name][situation.head], head_tokens)
        for name in ("we", "wr")
    )
    return scores(queries, of_queries), scores(keys, of_keys)


def primal_head(declaration: Primal, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Algorithm 1 of the supplement: o_i = W_o [e(x_i); r(x_i)]."""
    weight, bias = (situation.parameters[f"concate_weight.{part}"] for part in ("weight", "bias"))
    pairs = zip(*head_scores(declaration, projections, situation), strict=True)
    return [linear([*e, *r], weight, bias) for e, r in pairs]


def trace_of_product(left: Matrix, right: Matrix) -> float:
    """Tr(left^T right), with the product formed."""
    size, rows = range(len(left[0])), range(len(left))
    product = [[sum(left[m][a] * right[m][b] for m in rows) for b in size] for a in size]
    return sum(product[s][s] for s in size)


def diagonal(entries: Vector) -> Matrix:
    return [[entry if row == column else 0.0 for column in range(len(entries))] for row, entry in enumerate(entries)]


def printed_loss(heads: Sequence[tuple[Matrix, Matrix]], parameters: Mapping[str, Any]) -> float:
    """Equation 1 of the supplement, averaged over the heads."""
    objectives = []
    for head, (e, r) in enumerate(heads):
        matrix = diagonal(parameters["Lambda"][head])
        size = range(len(matrix))
        of_queries, of_keys = (
            sum(row[a] * matrix[a][b] * row[b] for row in rows for a in size for b in size) for rows in (e, r)
        )
        trace = trace_of_product(parameters["we"][head], parameters["wr"][head])
        objectives.append(0.5 * of_queries + 0.5 * of_keys - trace)
    return sum(objectives) / len(objectives)


def released_loss(heads: Sequence[tuple[Matrix, Matrix]], parameters: Mapping[str, Any]) -> float:
    """The loss of engine_primal.py for a batch of one: norms of e Lambda, all means taken first, then the square."""
    num_heads, num_tokens = len(heads), len(heads[0][0])
    energies = []
    for part in (0, 1):
        norms = [
            math.sqrt(sum((entry * weight) ** 2 for entry, weight in zip(row, parameters["Lambda"][head], strict=True)))
            for head in range(num_heads)
            for row in heads[head][part]
        ]
        energies.append(sum(norm**2 for norm in norms) / (num_heads * num_tokens) / 2)
    traces = [trace_of_product(parameters["we"][head], parameters["wr"][head]) for head in range(num_heads)]
    return (sum(energies) - sum(traces) / num_heads) ** 2


def primal_shapes(declaration: Primal, geometry: Geometry) -> dict[str, tuple[int, ...]]:
    num_heads, num_directions = geometry.num_heads, declaration.num_directions
    rows = geometry.head_dim
    if declaration.data_dependent:
        rows = min(geometry.num_tokens, num_directions * declaration.rank_multiplier)
    return {
        "we": (num_heads, rows, num_directions),
        "wr": (num_heads, rows, num_directions),
        "Lambda": (num_heads, num_directions),
        "concate_weight.weight": (geometry.head_dim, 2 * num_directions),
        "concate_weight.bias": (geometry.head_dim,),
    }


# Of five tokens these take all, 1 to 4 of them, or none.
PRIMAL_DECLARATIONS = (
    Primal(num_directions=2),
    Primal(num_directions=2, formula="released"),
    Primal(num_directions=5, rank_multiplier=1),
    Primal(num_directions=1, rank_multiplier=1),
    Primal(num_directions=2, rank_multiplier=1),
    Primal(num_directions=3, rank_multiplier=1, formula="released"),
    Primal(num_directions=1, rank_multiplier=4),
    Primal(num_directions=2, data_dependent=False),
    Primal(num_directions=4, data_dependent=False, formula="released"),
)
EVERY_SETTING = Reference(
    head=primal_head, projections=("q", "k"), projection_name="qk", declarations=PRIMAL_DECLARATIONS,
    of_losses=("Lambda",),
)  # fmt: skip
REFERENCES: Mapping[str, Reference] = {
    "primal": replace(
        EVERY_SETTING,
        exceptions=tuple(
            replace(
                EVERY_SETTING,
                declarations=(declaration,),
                more_shapes=partial(primal_shapes, declaration),
                treats_tokens_alike=not declaration.data_dependent,
            )
            for declaration in PRIMAL_DECLARATIONS
        ),
    )
}
