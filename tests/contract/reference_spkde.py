"""Reference of SPKDE attention: the quadratic program of each density is solved by trying every support."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from reference_base import Matrix, Reference, Situation, Vector, mixed
from reference_kernel import gaussian, normalised

from robench.attention.spkde import Spkde


def solved(matrix: Matrix, right: Vector) -> Vector:
    """Gaussian elimination with the largest pivot of each column."""
    rows = [[*row, entry] for row, entry in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(column + 1, size):
            share = rows[row][column] / rows[column][column]
            rows[row] = [rows[row][c] - share * rows[column][c] for c in range(size + 1)]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(rows[row][c] * solution[c] for c in range(row + 1, size))
        solution[row] = (rows[row][size] - known) / rows[row][row]
    return solution


def minimum_over(gram: Matrix, linear: Vector, support: Sequence[int]) -> Vector:
    """The minimum of w^T G w / 2 - b^T w with sum w = 1 and w zero outside the support, by its Lagrange multiplier."""
    conditions = [[*(gram[i][j] for j in support), 1.0] for i in support] + [[1.0] * len(support) + [0.0]]
    *inside, _ = solved(conditions, [*(linear[i] for i in support), 1.0])
    weights = [0.0] * len(linear)
    for place, weight in zip(support, inside, strict=True):
        weights[place] = weight
    return weights


def objective(gram: Matrix, linear: Vector, weights: Vector) -> float:
    points = range(len(linear))
    quadratic = sum(weights[i] * gram[i][j] * weights[j] for i in points for j in points)
    return quadratic / 2 - sum(linear[i] * weights[i] for i in points)


def simplex_minimum(gram: Matrix, linear: Vector) -> Vector:
    """The exact minimum over w >= 0, sum w = 1: the best of all supports whose own minimum is positive."""
    points = range(len(linear))
    supports = [support for size in points for support in combinations(points, size + 1)]
    candidates = [minimum_over(gram, linear, support) for support in supports]
    return min((w for w in candidates if min(w) >= 0), key=lambda w: objective(gram, linear, w))


def program(declaration: Spkde, points: Matrix, head_width: int) -> tuple[Matrix, Vector]:
    """G and half of q of equation 7, whose objective is twice the one here."""
    gram = [[gaussian(x, y, head_width, declaration.formula) for y in points] for x in points]
    return gram, [declaration.beta / len(points) * sum(row) for row in gram]


def densities(declaration: Spkde, keys: Matrix, values: Matrix) -> tuple[Vector, Vector]:
    """Weights of the joint density of normalised keys and values, and of the marginal one of the keys."""
    keys = normalised(keys)
    both = [[*key, *value] for key, value in zip(keys, values, strict=True)]
    joint, marginal = (simplex_minimum(*program(declaration, points, len(keys[0]))) for points in (both, keys))
    return joint, marginal


def spkde_head(declaration: Spkde, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Line 8 of Algorithm 1 of the robust KDE paper, equation 9."""
    queries, keys, values = projections
    joint, marginal = densities(declaration, keys, values)
    keys, tokens, width = normalised(keys), range(len(keys)), len(keys[0])
    rows = []
    for query in queries:
        kernels = [gaussian(query, key, width, declaration.formula) for key in keys]
        whole = sum(marginal[j] * kernels[j] for j in tokens)
        rows.append([joint[j] * kernels[j] / whole for j in tokens])
    return mixed(rows, values)


BETAS = (1.0, 1.4, 2.0, 8.0)
RELEASED = tuple(Spkde(beta=beta, formula="released") for beta in BETAS)
SPKDE_DECLARATIONS = (*(Spkde(beta=beta) for beta in BETAS), *RELEASED)

REFERENCES: Mapping[str, Reference] = {
    "spkde": Reference(
        head=spkde_head,
        declarations=SPKDE_DECLARATIONS,
        # With beta 1 all weights are 1 / N, and there is no gradient to stop.
        exceptions=(Reference(head=spkde_head, declarations=RELEASED[1:], stops_gradients=True),),
    )
}
