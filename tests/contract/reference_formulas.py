"""References of the analyses of formulas, in loops over Python's numbers; random draws are data here."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import torch

from robench.analyses.boost_bound import BoostBound
from robench.analyses.density_contours import DensityContours
from robench.analyses.density_contours_impl import drawn
from robench.analyses.smoothing_powers import SmoothingPowers
from robench.analyses.softmax_bounds import OverTokens, SoftmaxLipschitz, SoftmaxNoise
from robench.analyses.softmax_bounds_impl import blocks

Vector = list[float]
Matrix = list[Vector]


def softmax(x: Sequence[float]) -> Vector:
    sizes = [math.exp(each - max(x)) for each in x]
    return [size / math.fsum(sizes) for size in sizes]


def jacobian(p: Sequence[float]) -> Matrix:
    return [[(p[i] if i == j else 0.0) - p[i] * p[j] for j in range(len(p))] for i in range(len(p))]


def largest_eigenvalue(matrix: Matrix) -> float:
    """By bisection: A - z I has as many positive pivots in Gaussian elimination as A has eigenvalues above z."""
    low, high = 0.0, sum(matrix[i][i] for i in range(len(matrix)))
    for _ in range(100):
        z = (low + high) / 2
        if any(pivot > 0 for pivot in pivots(matrix, z)):
            low = z
        else:
            high = z
    return high


def pivots(matrix: Matrix, z: float) -> Vector:
    rows = [[entry - (z if i == j else 0.0) for j, entry in enumerate(row)] for i, row in enumerate(matrix)]
    found = []
    for i, row in enumerate(rows):
        row[i] = row[i] or -1e-300
        found.append(row[i])
        for below in rows[i + 1 :]:
            factor = below[i] / row[i]
            for j in range(i, len(row)):
                below[j] -= factor * row[j]
    return found


def straight(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope and intercept by the normal equations, solved in exact fractions."""
    xs, ys, n = [Fraction(each) for each in x], [Fraction(each) for each in y], len(x)
    products = sum(a * b for a, b in zip(xs, ys, strict=True))
    determinant = n * sum(each * each for each in xs) - sum(xs) ** 2
    slope = (n * products - sum(xs) * sum(ys)) / determinant
    return float(slope), float((sum(ys) - slope * sum(xs)) / n)


def draws(declaration: OverTokens, num_tokens: int, count: int) -> list[Matrix]:
    found: list[Matrix] = torch.cat(list(blocks(declaration, num_tokens, count))).tolist()
    return found


def softmax_lipschitz(declaration: SoftmaxLipschitz) -> Mapping[str, object]:
    sizes = declaration.sizes
    two_above = [[declaration.logit_range] * 2 + [0.0] * (size - 2) for size in sizes]
    largest = [largest_eigenvalue(jacobian(softmax(x))) for x in two_above]
    local = [
        [
            largest_eigenvalue(jacobian(softmax([declaration.scale * draw for draw in sample[0]])))
            for sample in draws(declaration, size, 1)
        ]
        for size in sizes
    ]
    found: dict[str, object] = {"lipschitz": largest, "local": [list(row) for row in zip(*local, strict=True)]}
    for prefix, values in (("", largest), ("local_", [sum(each) / len(each) for each in local])):
        a, b = straight([1 / math.sqrt(size) for size in sizes], values)
        found |= {f"{prefix}a": a, f"{prefix}b": b, f"{prefix}fit": [a / math.sqrt(size) + b for size in sizes]}
        found[f"{prefix}exponent"] = straight([math.log(size) for size in sizes], [math.log(v) for v in values])[0]
    return found


def softmax_noise(declaration: SoftmaxNoise) -> Mapping[str, object]:
    change: Matrix = [[] for _ in range(declaration.num_samples)]
    for size in declaration.sizes:
        for row, (logits, noise) in zip(change, draws(declaration, size, 2), strict=True):
            c = [declaration.scale * each for each in logits]
            before = softmax(c)
            after = softmax([each + declaration.noise * eta for each, eta in zip(c, noise, strict=True)])
            row.append(math.sqrt(sum((a - b) ** 2 for a, b in zip(after, before, strict=True))))
    s, r = declaration.scale, declaration.noise
    mean_square = math.exp(2 * s * s) * (math.exp(r * r) - 1) / math.exp(s * s)
    return {"change": change, "asymptote": [math.sqrt(min(2, mean_square / size)) for size in declaration.sizes]}


def boost_bound(declaration: BoostBound) -> Mapping[str, object]:
    t = Fraction(declaration.t)
    curves: tuple[Matrix, Matrix, Matrix] = ([], [], [])
    for constant in map(Fraction, declaration.lipschitz):
        plain = boosted = Fraction(1)
        rows: tuple[Vector, Vector, Vector] = ([], [], [])
        for n in range(1, declaration.num_layers + 1):
            plain, boosted = (constant + 1) * plain, (constant + 1 - t) * boosted + t
            power = (1 - t / (constant + 1)) ** n
            for row, number in zip(rows, (boosted / plain, power, boosted / plain / power), strict=True):
                row.append(float(number))
        for curve, row in zip(curves, rows, strict=True):
            curve.append(row)
    holds = [1.0 if constant > declaration.t else 0.0 for constant in declaration.lipschitz]
    return {"bound_ratio": curves[0], "printed": curves[1], "excess": curves[2], "holds": holds}


def smoothing_powers(declaration: SmoothingPowers) -> Mapping[str, object]:
    points = [i / (declaration.num_points - 1) for i in range(declaration.num_points)]
    shown = declaration.capacity_powers
    return {
        "powers": [[math.prod([x] * n) for x in points] for n in declaration.powers],
        "twicing_powers": [[math.prod([x * (2 - x)] * n) for x in points] for n in declaration.powers],
        "capacity": [float(integral([Fraction(0)] * n + [Fraction(1)])) for n in shown],
        "twicing_capacity": [float(integral(twicing_coefficients(n))) for n in shown],
        "capacity_asymptote": [1 / n for n in shown],
        "twicing_capacity_asymptote": [math.sqrt(math.pi / n) / 2 for n in shown],
    }


def twicing_coefficients(n: int) -> list[Fraction]:
    """Of (2x - x^2)^n, from the constant one, by the binomial theorem."""
    return [Fraction(0)] * n + [Fraction(math.comb(n, k) * 2 ** (n - k) * (-1) ** k) for k in range(n + 1)]


def integral(coefficients: Sequence[Fraction]) -> Fraction:
    """Over [0, 1]."""
    return sum((each / (power + 1) for power, each in enumerate(coefficients)), Fraction(0))


def density_contours(declaration: DensityContours) -> Mapping[str, object]:
    points_N2, blocks_LS = drawn(declaration)
    points: Matrix = points_N2.tolist()
    blocks_of_points: list[list[int]] = blocks_LS.tolist()
    sigma, size = declaration.bandwidth, declaration.grid_size
    low = min(min(point) for point in points) - 3 * sigma
    high = max(max(point) for point in points) + 3 * sigma
    grid = [low + (high - low) * i / (size - 1) for i in range(size)]
    cell = ((high - low) / (size - 1)) ** 2
    weights = huber_weights(points, declaration)

    def density(place: Vector, members: Sequence[int], weight: Sequence[float]) -> float:
        terms = (w * kernel(place, points[j], sigma) for j, w in zip(members, weight, strict=True))
        return sum(terms) / (2 * math.pi * sigma**2)

    def uniform(place: Vector, members: Sequence[int]) -> float:
        return density(place, members, [1 / len(members)] * len(members))

    def over_grid(number_at: object) -> Matrix:
        assert callable(number_at)
        return [[number_at([x, y]) for x in grid] for y in grid]

    everyone, samples = range(len(points)), range(declaration.num_samples)
    truth = over_grid(lambda at: math.exp(-(at[0] ** 2 + at[1] ** 2) / 2) / (2 * math.pi))
    median = over_grid(lambda at: sorted(uniform(at, block) for block in blocks_of_points)[len(blocks_of_points) // 2])
    total = sum(map(sum, median)) * cell
    estimates = {
        "kde": over_grid(lambda at: uniform(at, everyone)),
        "rkde": over_grid(lambda at: density(at, everyone, weights)),
        "mom": [[each / total for each in row] for row in median],
        "clean_kde": over_grid(lambda at: uniform(at, samples)),
    }
    found: dict[str, object] = {"truth": truth, "outlier_weight": sum(weights[declaration.num_samples :])}
    for name, estimate in estimates.items():
        differences = (
            abs(a - b) for row, true in zip(estimate, truth, strict=True) for a, b in zip(row, true, strict=True)
        )
        found[f"{name}_distance"] = sum(differences) * cell / 2
        if name != "clean_kde":
            found[name] = estimate
    return found


def kernel(a: Sequence[float], b: Sequence[float], sigma: float) -> float:
    return math.exp(-((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) / (2 * sigma**2))


def huber_weights(points: Matrix, declaration: DensityContours) -> Vector:
    """Equations 25 and 26."""
    n = len(points)
    gram = [[kernel(a, b, declaration.bandwidth) for b in points] for a in points]
    weights = [1 / n] * n
    for _ in range(declaration.num_iterations):
        of_mean = sum(weights[i] * weights[j] * gram[i][j] for i in range(n) for j in range(n))
        distances = [
            math.sqrt(gram[j][j] - 2 * sum(weights[m] * gram[m][j] for m in range(n)) + of_mean) for j in range(n)
        ]
        psi = [1.0 if h <= declaration.threshold else declaration.threshold / h for h in distances]
        weights = [each / sum(psi) for each in psi]
    return weights
