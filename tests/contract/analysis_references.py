"""Slow references of all analyses, one example at a time: plain Python, one loop an index, no tensors.

They are written from the papers' equations, with exponentials and matrices as printed, and share nothing with the code
under test.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from statistics import fmean, median, pstdev
from typing import Any

Vector = list[float]
Matrix = list[Vector]
Numbers = dict[str, Any]  # nested lists by statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One example's matrices in a layer, by head."""

    heads: list[Matrix]
    queries: list[Matrix]
    keys: list[Matrix]
    values: list[Matrix]
    weights: list[Matrix]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """One example's pass."""

    layers: list[Layer]
    tokens: list[Matrix]
    num_special: int
    grid: tuple[int, int] | None


# Linear algebra.
def dot(x: Vector, y: Vector) -> float:
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def product(a: Matrix, b: Matrix) -> Matrix:
    return [[dot(row, [each[d] for each in b]) for d in range(len(b[0]))] for row in a]


def identity(size: int) -> Matrix:
    return [[float(i == j) for j in range(size)] for i in range(size)]


def softmax(scores: Vector) -> Vector:
    powers = [math.exp(each) for each in scores]
    return [each / math.fsum(powers) for each in powers]


def singular_values(matrix: Matrix) -> Vector:
    """One-sided Jacobi rotations of the columns, until these are orthogonal; their lengths."""
    columns = [list(column) for column in zip(*matrix, strict=True)]
    for _ in range(60):
        for p, q in combinations(range(len(columns)), 2):
            x, y = columns[p], columns[q]
            between = dot(x, y)
            if between == 0.0:
                continue
            zeta = (dot(y, y) - dot(x, x)) / (2 * between)
            t = math.copysign(1.0, zeta) / (abs(zeta) + math.hypot(1.0, zeta))
            c = 1 / math.hypot(1.0, t)
            columns[p] = [c * (a - t * b) for a, b in zip(x, y, strict=True)]
            columns[q] = [c * (b + t * a) for a, b in zip(x, y, strict=True)]
    return sorted((math.sqrt(dot(column, column)) for column in columns), reverse=True)


def eigenvalue_sizes(matrix: Matrix) -> Vector:
    """Roots of the characteristic polynomial, whose coefficients are exact, by Durand and Kerner's iteration."""
    size = len(matrix)
    a = [[Fraction(each) for each in row] for row in matrix]
    coefficients, m = [Fraction(1)], [[Fraction(0)] * size for _ in range(size)]
    for k in range(1, size + 1):
        m = [
            [sum(a[i][r] * m[r][j] for r in range(size)) + coefficients[-1] * (i == j) for j in range(size)]
            for i in range(size)
        ]
        coefficients.append(-sum(a[i][j] * m[j][i] for i in range(size) for j in range(size)) / k)
    powers = [float(each) for each in coefficients]
    roots = [complex(0.4, 0.9) ** i for i in range(size)]
    for _ in range(150):
        for i, root in enumerate(roots):
            value = complex(0)
            for each in powers:
                value = value * root + each
            roots[i] = root - value / math.prod((root - other for j, other in enumerate(roots) if j != i), start=1 + 0j)
    return sorted((abs(root) for root in roots), reverse=True)


# Parts of an analysis.
def shares(row: Vector) -> Vector:
    total = math.fsum(abs(each) for each in row)
    return [abs(each) / total for each in row]


def entropy_of(row: Vector) -> float:
    return -math.fsum(p * math.log(p) for p in shares(row) if p > 0)


def each_head(inside: Inside, number_of: Callable[[Layer, int], Any]) -> list[list[Any]]:
    return [[number_of(layer, head) for head in range(len(layer.heads))] for layer in inside.layers]


def mean_shares(layer: Layer) -> Matrix:
    """Mean over heads of each row's shares."""
    of_heads = [[shares(row) for row in weights] for weights in layer.weights]
    return [[fmean(cells) for cells in zip(*rows, strict=True)] for rows in zip(*of_heads, strict=True)]


def on_grid(numbers: Vector, inside: Inside) -> Matrix:
    assert inside.grid is not None
    rows, columns = inside.grid
    return [[numbers[inside.num_special + row * columns + column] for column in range(columns)] for row in range(rows)]


def class_row(matrix: Matrix, inside: Inside) -> Vector:
    return matrix[0] if inside.num_special else [fmean(column) for column in zip(*matrix, strict=True)]


# Weights.
def entropy(declaration: Any, inside: Inside) -> Numbers:
    return {"entropy": each_head(inside, lambda layer, head: fmean(map(entropy_of, layer.weights[head])))}


def attention_distance(declaration: Any, inside: Inside) -> Numbers:
    def of(layer: Layer, head: int) -> float:
        first = inside.num_special if inside.grid else 0
        found = []
        for i, row in enumerate(layer.weights[head][first:]):
            p = shares(row[first:])
            found.append(math.fsum(p[j] * apart(i, j) for j in range(len(p))))
        return fmean(found)

    def apart(i: int, j: int) -> float:
        if inside.grid is None:
            return abs(i - j)
        columns = inside.grid[1]
        return math.hypot(i // columns - j // columns, i % columns - j % columns)

    return {"distance": each_head(inside, of)}


def effective_rank(declaration: Any, inside: Inside) -> Numbers:
    return {
        "effective_rank": each_head(
            inside, lambda layer, head: math.exp(entropy_of(singular_values(layer.weights[head])))
        )
    }


def spectrum(declaration: Any, inside: Inside) -> Numbers:
    def left(layer: Layer, head: int) -> float:
        values = layer.values[head]
        return deviation(product(layer.weights[head], values)) / deviation(values)

    def deviation(matrix: Matrix) -> float:
        means = [fmean(column) for column in zip(*matrix, strict=True)]
        return math.sqrt(math.fsum((row[d] - means[d]) ** 2 for row in matrix for d in range(len(row))))

    sizes = [[eigenvalue_sizes(weights) for weights in layer.weights] for layer in inside.layers]
    return {
        "eigenvalue": [[fmean(each) for each in zip(*of_heads, strict=True)] for of_heads in sizes],
        "smoothing": each_head(inside, left),
    }


# Maps.
def attention_map(declaration: Any, inside: Inside) -> Numbers:
    maps = [on_grid(class_row(mean_shares(layer), inside), inside) for layer in inside.layers]
    return {"attention": [[[cell / max(map(max, each)) for cell in row] for row in each] for each in maps]}


def attention_received(declaration: Any, inside: Inside) -> Numbers:
    received = [[fmean(column) for column in zip(*mean_shares(layer), strict=True)] for layer in inside.layers]
    return {"received": [on_grid(each, inside) for each in received]}


def rollout(declaration: Any, inside: Inside) -> Numbers:
    size = len(inside.layers[0].weights[0])
    rolled, maps = identity(size), []
    for layer in inside.layers:
        mean = mean_shares(layer)
        rolled = product([[(mean[i][j] + (i == j)) / 2 for j in range(size)] for i in range(size)], rolled)
        maps.append(on_grid(class_row(rolled, inside), inside))
    return {"rollout": maps}


# Tokens.
def token_similarity(declaration: Any, inside: Inside) -> Numbers:
    def of(tokens: Matrix) -> float:
        kept = tokens if declaration.special else tokens[inside.num_special :]
        return fmean(dot(x, y) / math.sqrt(dot(x, x) * dot(y, y)) for x, y in combinations(kept, 2))

    return {"similarity": [of(tokens) for tokens in inside.tokens]}


# Kernel PCA.
def is_causal(weights: Matrix) -> bool:
    return all(weights[i][j] == 0 for i in range(len(weights)) for j in range(i + 1, len(weights)))


def projection_error(declaration: Any, inside: Inside) -> Numbers:
    return {"projection_error": each_head(inside, printed_error if declaration.formula == "paper" else released_error)}


def printed_error(layer: Layer, head: int) -> float:
    queries, keys, found = layer.queries[head], layer.keys[head], []
    root = math.sqrt(len(queries[0]))
    for i, (q, h) in enumerate(zip(queries, layer.heads[head], strict=True)):
        visible = keys[: i + 1] if is_causal(layer.weights[head]) else keys
        total = math.fsum(math.exp(dot(q, k) / root) for k in visible)
        found.append(math.exp(dot(q, q) / root) / total**2 - dot(h, h))
    return fmean(found)


def released_error(layer: Layer, head: int) -> float:
    queries, keys = (
        [[(each - fmean(x)) / math.sqrt(variance(x)) for each in x] for x in part[head]]
        for part in (layer.queries, layer.keys)
    )
    root, found = math.sqrt(len(queries[0])), []
    for i, q in enumerate(queries):
        visible = keys[: i + 1] if is_causal(layer.weights[head]) else keys
        attention = softmax([dot(q, k) / root for k in visible])
        h = product([attention], layer.values[head][: len(visible)])[0]
        denominator = math.exp(2 * dot(q, keys[0]) - math.log(attention[0] ** 2))
        found.append(math.exp(dot(q, q)) / denominator - dot(h, h))
    return fmean(found)


def variance(x: Vector) -> float:
    return math.fsum((each - fmean(x)) ** 2 for each in x) / (len(x) - 1)


def eigenvectors(declaration: Any, inside: Inside) -> Numbers:
    found = each_head(inside, gammas)

    def of_pairs(number: Callable[[Vector], float]) -> Any:
        return [
            [[number([abs(x - y) for x, y in combinations(gamma, 2)]) for gamma in head] for head in layer]
            for layer in found
        ]

    def of_axes(number: Callable[[Vector], float]) -> Any:
        return [[number([abs(fmean(gamma)) for gamma in head]) for head in layer] for layer in found]

    return {
        "difference_mean": of_pairs(fmean), "difference_deviation": of_pairs(pstdev), "eigenvalue_max": of_axes(max),
        "eigenvalue_min": of_axes(min), "eigenvalue_mean": of_axes(fmean), "eigenvalue_median": of_axes(median),
    }  # fmt: skip


def gammas(layer: Layer, head: int) -> Matrix:
    """Vectors gamma of each axis of the values."""
    keys, values = layer.keys[head], layer.values[head]
    size, root = len(keys), math.sqrt(len(keys[0]))
    kernel = [[math.exp(dot(x, y) / root) for y in keys] for x in keys]
    g = [math.fsum(row) for row in kernel]
    gram = [[kernel[i][j] / (g[i] * g[j]) for j in range(size)] for i in range(size)]
    ones = [[1 / size] * size for _ in range(size)]
    # The pseudo-inverse of the projection I - 1_N is itself.
    projection = [[(i == j) - 1 / size for j in range(size)] for i in range(size)]
    left, right, both = product(ones, gram), product(gram, ones), product(product(ones, gram), ones)
    of_centred = [[gram[i][j] - left[i][j] - right[i][j] + both[i][j] for j in range(size)] for i in range(size)]
    a = product(projection, [[g[j] * each for each in values[j]] for j in range(size)])
    products = product(of_centred, a)
    return [[products[i][d] / (size * a[i][d]) for i in range(size)] for d in range(len(a[0]))]


# Change.
def attention_change(declaration: Any, clean: Inside, perturbed: Inside) -> Numbers:
    def moved(before: Matrix, after: Matrix) -> float:
        return fmean(
            math.fsum(abs(x - y) for x, y in zip(shares(row), shares(other), strict=True)) / 2
            for row, other in zip(before, after, strict=True)
        )

    def length(matrix: Matrix) -> float:
        return math.sqrt(math.fsum(each**2 for row in matrix for each in row))

    def minus(x: Matrix, y: Matrix) -> Matrix:
        return [[a - b for a, b in zip(row, other, strict=True)] for row, other in zip(x, y, strict=True)]

    return {
        "attention_change": [
            [moved(*pair) for pair in zip(layer.weights, other.weights, strict=True)]
            for layer, other in zip(clean.layers, perturbed.layers, strict=True)
        ],
        "token_change": [
            length(minus(after, before)) / length(before)
            for before, after in zip(clean.tokens, perturbed.tokens, strict=True)
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Numbers of an analysis by loops, from one example's pass, and its clean one before it if it is of changes.

    Attributes:
        settings: fields of the declarations to compare.
    """

    compute: Callable[..., Numbers]
    settings: Sequence[Mapping[str, Any]] = ({},)


REFERENCES: Mapping[str, Reference] = {
    "entropy": Reference(compute=entropy),
    "attention-distance": Reference(compute=attention_distance),
    "effective-rank": Reference(compute=effective_rank),
    "spectrum": Reference(compute=spectrum),
    "attention-map": Reference(compute=attention_map),
    "attention-received": Reference(compute=attention_received),
    "rollout": Reference(compute=rollout),
    "token-similarity": Reference(compute=token_similarity, settings=({}, {"special": False})),
    "projection-error": Reference(compute=projection_error, settings=({}, {"formula": "released"})),
    "eigenvectors": Reference(compute=eigenvectors),
    "attention-change": Reference(compute=attention_change),
}
