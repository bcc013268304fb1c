"""Reference of ProAttention: one query after the other, one step after the other, from the paper's equations."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

from reference_base import Matrix, Reference, Situation, Vector, dot_scores, softmax_row

from robench.attention.pro import Pro


def weight_of(declaration: Pro, r: float) -> float:
    """rho'(r) / r of each penalty, up to a common factor; released: of r + 0.01, and not below 0.01."""
    least, (delta, gamma) = 0.0, (declaration.delta, declaration.gamma)
    if declaration.formula == "released":
        r, least = r + 0.01, 0.01
    if declaration.penalty == "l1":
        return 1 / r
    if declaration.penalty == "huber":
        return 1.0 if r <= delta else delta / r
    if declaration.penalty == "huber-mcp" and r <= delta:
        return 1.0
    if r >= gamma:
        return least
    slope = 1 - r / gamma if declaration.penalty == "mcp" else delta * (gamma - r) / (gamma - delta)
    return max(slope / r, least)


def radius(value: Vector, estimate: Vector) -> float:
    """The distance, not below what float64 resolves, since the estimate may be the value itself."""
    square = sum((a - b) ** 2 for a, b in zip(value, estimate, strict=True))
    return math.sqrt(max(square, 4 * 2**-52 * sum(a**2 + b**2 for a, b in zip(value, estimate, strict=True))))


def robust_mean(declaration: Pro, shares: Vector, values: Matrix) -> Vector:
    """Newton-IRLS from the mean; where all weights vanish it stays."""

    def mean(weights: Vector) -> Vector:
        total = sum(weights)
        return [sum(w * v[d] for w, v in zip(weights, values, strict=True)) / total for d in range(len(values[0]))]

    estimate = mean(shares)
    for _ in range(declaration.num_steps):
        weights = [a * weight_of(declaration, radius(v, estimate)) for a, v in zip(shares, values, strict=True)]
        if sum(weights) > 0:
            estimate = mean(weights)
    return estimate


def pro_head(declaration: Pro, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    queries, keys, values = projections
    return [robust_mean(declaration, softmax_row(row), values) for row in dot_scores(queries, keys)]


# Constants between distances of the tests' values; at the least gamma all weights of some queries vanish.
CONSTANTS = (
    ("l1", {}),
    *(("huber", {"delta": delta}) for delta in (0.5, 1.5)),
    *(("mcp", {"gamma": gamma}) for gamma in (0.6, 1.2, 2.0)),
    *(("huber-mcp", {"delta": 0.7, "gamma": gamma}) for gamma in (1.2, 2.0)),
)
PRO_DECLARATIONS = tuple(
    Pro(penalty=penalty, formula=formula, num_steps=num_steps, **constants)  # type: ignore[arg-type]  # product widens the literals
    for formula, (penalty, constants), num_steps in product(("released", "paper"), CONSTANTS, (1, 3))
)

REFERENCES: Mapping[str, Reference] = {"pro": Reference(head=pro_head, declarations=PRO_DECLARATIONS)}
