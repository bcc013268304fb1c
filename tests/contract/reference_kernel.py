"""References of the kernel attentions: KDE, robust KDE, FourierFormer and mixtures of Gaussian keys.

In the papers' form: explicit kernels, square roots, sums and divisions, no logarithms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from reference_base import Matrix, Reference, Situation, Vector, mixed

from robench.attention.fourier import Fourier
from robench.attention.geometry import Geometry
from robench.attention.kde import Kde
from robench.attention.mgk import Mgk
from robench.attention.rkde import Rkde


def length(vector: Vector) -> float:
    return math.sqrt(sum(entry**2 for entry in vector))


def normalised(vectors: Matrix) -> Matrix:
    return [[entry / length(vector) for entry in vector] for vector in vectors]


def squared_distance(x: Vector, y: Vector) -> float:
    return sum((x[d] - y[d]) ** 2 for d in range(len(x)))


def gaussian(x: Vector, y: Vector, head_width: int, formula: str) -> float:
    """exp(-|x - y|^2 / (2 sigma^2)) with sigma^2 = sqrt(D); the released code has no 2."""
    return math.exp(-squared_distance(x, y) / ((2 if formula == "paper" else 1) * math.sqrt(head_width)))


def kde_head(declaration: Kde, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Equation 3 of the robust KDE paper."""
    queries, keys, values = projections
    keys, width = normalised(keys), len(keys[0])
    kernels = [[gaussian(query, key, width, declaration.formula) for key in keys] for query in queries]
    return mixed([[kernel / sum(row) for kernel in row] for row in kernels], values)


def psi(loss: str, formula: str, a: float, h: float) -> float:
    """rho'(h) / h of each loss."""
    b, c = 2 * a, 3 * a
    if loss == "huber":
        return 1.0 if h <= a else a / h
    if loss == "welsch":
        return math.exp(-((h / a) ** 2))
    if loss == "tukey":
        return (1 - (h / a) ** 2) ** 2 if h < a else 0.0
    if h < a:
        return 1.0
    if h < b:
        return a / h
    if h < c:
        return a * (c - h) / ((c - b) * h)
    return 0.0 if formula == "paper" else 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Reweighting:
    """One step of iteratively re-weighted least squares.

    Attributes:
        distances: h of each point; ``weights``: the new ones.
    """

    distances: Vector
    weights: Vector


def reweightings(declaration: Rkde, points: Matrix, head_width: int) -> list[Reweighting]:
    """Equations 25 and 26, from uniform weights; they are left alone where all would vanish."""
    tokens = range(len(points))
    kernels = [[gaussian(points[i], points[j], head_width, declaration.formula) for j in tokens] for i in tokens]
    weights = [1 / len(points) for _ in tokens]
    middle = -2 if declaration.formula == "paper" else 1
    steps = []
    for _ in range(declaration.num_iterations):
        last = sum(weights[m] * weights[n] * kernels[m][n] for m in tokens for n in tokens)
        squares = [kernels[j][j] + middle * sum(weights[m] * kernels[m][j] for m in tokens) + last for j in tokens]
        distances = [math.sqrt(max(square, 0.0)) for square in squares]
        psis = [psi(declaration.loss, declaration.formula, declaration.threshold, h) for h in distances]
        if sum(psis) > 0:
            weights = [each / sum(psis) for each in psis]
        steps.append(Reweighting(distances=distances, weights=weights))
    return steps


def densities(declaration: Rkde, keys: Matrix, values: Matrix) -> tuple[list[Reweighting], list[Reweighting]]:
    """Of the joint density of normalised keys and values, and of the marginal one of the keys."""
    keys = normalised(keys)
    both = [[*key, *value] for key, value in zip(keys, values, strict=True)]
    return reweightings(declaration, both, len(keys[0])), reweightings(declaration, keys, len(keys[0]))


def rkde_head(declaration: Rkde, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Line 8 of Algorithm 1 of the robust KDE paper."""
    queries, keys, values = projections
    steps_of_joint, steps_of_marginal = densities(declaration, keys, values)
    joint, marginal = steps_of_joint[-1].weights, steps_of_marginal[-1].weights
    keys, tokens, width = normalised(keys), range(len(keys)), len(keys[0])
    rows = []
    for query in queries:
        kernels = [gaussian(query, key, width, declaration.formula) for key in keys]
        total = sum(marginal[j] * kernels[j] for j in tokens)
        rows.append([joint[j] * kernels[j] / total for j in tokens])
    return mixed(rows, values)


def sinc(x: float) -> float:
    return math.sin(x) / x if x else 1.0


def fourier_head(declaration: Fourier, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """prod_d sinc(R (q_d - k_d))^power over its sum and 1e-6."""
    queries, keys, values = projections
    (radius,) = situation.parameters["paramR"]
    width = range(len(keys[0]))
    rows = []
    for query in queries:
        kernels = [math.prod(sinc(radius * (query[d] - key[d])) for d in width) ** declaration.power for key in keys]
        rows.append([kernel / (sum(kernels) + 1e-6) for kernel in kernels])
    return mixed(rows, values)


def mgk_head(declaration: Mgk, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """pi0 exp(-0.5 |q - k0|^2 / sqrt(D)) + pi1 exp(-1.5 |q - k1|^2 / sqrt(D)) + ... over its sum and 1e-6."""
    queries, *mixtures, values = projections
    queried = [[0.0 for _ in values] for _ in queries]
    for place, keys in enumerate(mixtures[: declaration.num_mixtures]):
        share = min(max(situation.parameters[f"pi{place}"][situation.head][0][0][0], 0.0), 1.0)
        factor = (0.5 + place) / math.sqrt(len(keys[0]))
        for i, j in product(range(len(queries)), range(len(keys))):
            queried[i][j] += share * math.exp(-factor * squared_distance(queries[i], keys[j]))
    return mixed([[kernel / (sum(row) + 1e-6) for kernel in row] for row in queried], values)


def fourier_shapes(geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {"paramR": (1,)}


def mgk_shapes(geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {f"pi{place}": (geometry.num_heads, 1, 1, 1) for place in range(2)}


# Thresholds at which some points lie on each side, in the formula's own range of h.
RKDE_SETTINGS = (
    *product(["paper"], ["huber"], [0.2, 0.6], [1, 3]),
    *product(["paper"], ["hampel"], [0.2, 0.3, 0.4], [1, 3]),
    *product(["paper"], ["welsch"], [0.5], [1, 3]),
    *product(["paper"], ["tukey"], [0.3, 0.7], [1, 3]),
    *product(["released"], ["huber"], [0.2, 1.3], [1, 3]),
    *product(["released"], ["hampel"], [0.2, 0.45, 0.65, 1.25], [1, 3]),
    *product(["released"], ["welsch"], [0.5], [1]),
    *product(["released"], ["tukey"], [0.5, 1.4], [1, 3]),
)
RKDE_DECLARATIONS = tuple(
    Rkde(formula=formula, loss=loss, threshold=threshold, num_iterations=num_iterations)  # type: ignore[arg-type]  # product widens the literals
    for formula, loss, threshold, num_iterations in RKDE_SETTINGS
)

REFERENCES: Mapping[str, Reference] = {
    "kde": Reference(head=kde_head, declarations=(Kde(), Kde(formula="released"))),
    "rkde": Reference(head=rkde_head, declarations=RKDE_DECLARATIONS),
    "fourier": Reference(
        head=fourier_head, declarations=(Fourier(), Fourier(power=2), Fourier(power=6)), more_shapes=fourier_shapes
    ),
    "mgk": Reference(head=mgk_head, declarations=(Mgk(),), projections=("q", "k0", "k1", "v"), more_shapes=mgk_shapes),
}
