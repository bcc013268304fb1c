"""References of the attention mechanisms whose cost grows linearly with the number of tokens, as the papers print them.

Here every weight is formed, features are exponentials and quotients are divided out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reference_base import Matrix, Reference, Situation, Vector, dot_scores, mixed, softmax_row
from reference_dot import position_logits

from robench.attention.bilateral import Bilateral
from robench.attention.geometry import Geometry
from robench.attention.linear import Linear
from robench.attention.linear_twicing import LinearTwicing
from robench.attention.linformer import Linformer
from robench.attention.nystrom import Nystrom
from robench.attention.performer import Performer

NUM_FEATURES = 7
PROJECTION_LENGTH = 3
KERNEL = 35


def dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def product(left: Matrix, right: Matrix) -> Matrix:
    columns = list(zip(*right, strict=True))
    return [[dot(row, list(column)) for column in columns] for row in left]


def transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def kernel_weights(queries: Matrix, keys: Matrix, feature_map: Callable[[Vector], Vector]) -> Matrix:
    """Equation 3 of Katharopoulos et al. with sim(q, k) = phi(q) . phi(k)."""
    weights = []
    for query in queries:
        similarities = [dot(feature_map(query), feature_map(key)) for key in keys]
        weights.append([similarity / sum(similarities) for similarity in similarities])
    return weights


def elu_features(x: Vector) -> Vector:
    """Equation 7 of Katharopoulos et al.: phi(x) = elu(x) + 1, elu(x) = x above zero, e^x - 1 below."""
    return [(entry if entry > 0 else math.exp(entry) - 1) + 1 for entry in x]


def linear_head(declaration: Linear, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    queries, keys, values = projections
    return mixed(kernel_weights(queries, keys, elu_features), values)


def linear_twicing_head(declaration: LinearTwicing, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """(2A - A^2) V with A and its square formed, as appendix B.1 of the Twicing paper says of its experiments."""
    queries, keys, values = projections
    weights = kernel_weights(queries, keys, elu_features)
    squared = product(weights, weights)
    return mixed(
        [[2 * a - b for a, b in zip(*rows, strict=True)] for rows in zip(weights, squared, strict=True)], values
    )


def random_features(x: Vector, projection: Matrix) -> Vector:
    """Positive random features of the softmax kernel, lemma 1 of Choromanski et al.; x is divided by D^(1/4) first."""
    scaled = [entry / math.sqrt(math.sqrt(len(x))) for entry in x]
    norm = math.exp(-dot(scaled, scaled) / 2) / math.sqrt(len(projection))
    return [norm * math.exp(dot(row, scaled)) for row in projection]


def released_features(tokens: Matrix, projection: Matrix, epsilon: float, together: bool) -> Matrix:
    """The authors' code: exp(w . x - |x|^2 / 2 - maximum) + epsilon, the maximum of w . x of the token or of all."""
    root = math.sqrt(math.sqrt(len(tokens[0])))
    scaled = [[entry / root for entry in x] for x in tokens]
    products = [[dot(row, x) for row in projection] for x in scaled]
    largest = [max(map(max, products)) if together else max(row) for row in products]
    return [
        [(math.exp(product - dot(x, x) / 2 - maximum) + epsilon) / math.sqrt(len(projection)) for product in of_token]
        for of_token, x, maximum in zip(products, scaled, largest, strict=True)
    ]


def performer_head(declaration: Performer, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    queries, keys, values = projections
    projection = situation.parameters["projection"]
    if declaration.formula == "paper":
        return mixed(kernel_weights(queries, keys, lambda x: random_features(x, projection)), values)
    of_queries = released_features(queries, projection, declaration.epsilon, together=False)
    of_keys = released_features(keys, projection, declaration.epsilon, together=True)
    return mixed(kernel_weights(of_queries, of_keys, list), values)


def linformer_head(declaration: Linformer, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Equation 7 of Wang et al. with E = F: attention to E K and E V; logits of positions are mixed as the keys are."""
    queries, keys, values = projections
    projection = situation.parameters["E"][situation.head]
    scores = dot_scores(queries, product(projection, keys))
    of_places = product(place_logits(declaration, situation, len(keys)), transposed(projection))
    return mixed(
        [softmax_row(added(*rows)) for rows in zip(scores, of_places, strict=True)], product(projection, values)
    )


def added(left: Vector, right: Vector) -> Vector:
    return [a + b for a, b in zip(left, right, strict=True)]


def place_logits(declaration: Linformer | Nystrom, situation: Situation, num_tokens: int) -> Matrix:
    """Logits of positions of all pairs of tokens, those of ALiBi and of the Bilateral paper."""
    of_bilateral = {"none": "none", "alibi": "alibi", "bilateral": "learned"}[declaration.positions]
    return position_logits(Bilateral(positions=of_bilateral), situation, num_tokens)  # type: ignore[arg-type]  # by name


def landmark_logits(declaration: Nystrom, situation: Situation, num_tokens: int) -> tuple[Matrix, Matrix, Matrix]:
    """Logits of positions of tokens by landmarks, among landmarks, and of landmarks by tokens.

    ALiBi's are those of the distance from a segment's centre, the others means over a segment's tokens.
    """
    parts = segments(num_tokens, declaration.num_landmarks)
    if declaration.positions == "alibi":
        slope = 2 ** (-8 * (situation.head + 1) / situation.num_heads)
        places, centres = [float(i) for i in range(num_tokens)], [sum(part) / len(part) for part in parts]
        pairs = ((places, centres), (centres, centres), (centres, places))
        spread, among, gather = ([[-slope * abs(a - b) for b in right] for a in left] for left, right in pairs)
        return spread, among, gather
    whole = place_logits(declaration, situation, num_tokens)
    spread = [[sum(row[j] for j in part) / len(part) for part in parts] for row in whole]
    gather = [[sum(whole[i][j] for i in part) / len(part) for j in range(num_tokens)] for part in parts]
    among = [[sum(row[j] for j in part) / len(part) for part in parts] for row in gather]
    return spread, among, gather


def segments(num_tokens: int, num_segments: int) -> list[range]:
    """Consecutive tokens in segments that are as long as each other or one token longer, the shorter ones first."""
    num_segments = min(num_segments, num_tokens)
    lengths = sorted(len(range(place, num_tokens, num_segments)) for place in range(num_segments))
    return [range(sum(lengths[:place]), sum(lengths[: place + 1])) for place in range(num_segments)]


def landmarks(tokens: Matrix, num_landmarks: int) -> Matrix:
    width = range(len(tokens[0]))
    return [
        [sum(tokens[i][d] for i in segment) / len(segment) for d in width]
        for segment in segments(len(tokens), num_landmarks)
    ]


def softmax_of_dots(left: Matrix, right: Matrix, biases: Matrix | None = None) -> Matrix:
    biases = [[0.0] * len(right) for _ in left] if biases is None else biases
    return [softmax_row(added([dot(a, b) for b in right], bias)) for a, bias in zip(left, biases, strict=True)]


def largest_column(matrix: Matrix) -> float:
    """|A|_1."""
    return max(sum(abs(row[j]) for row in matrix) for j in range(len(matrix)))


def newton_schulz(matrix: Matrix, norm_1: float | None = None, num_steps: int = 6) -> Matrix:
    """Z_0 = A^T / (|A|_1 |A|_inf), Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4, Xiong et al."""
    size = range(len(matrix))
    norm_1 = largest_column(matrix) if norm_1 is None else norm_1
    norm_inf = max(sum(abs(entry) for entry in row) for row in matrix)

    def less(diagonal: float, subtracted: Matrix) -> Matrix:
        return [[diagonal * (i == j) - subtracted[i][j] for j in size] for i in size]

    inverse = [[entry / (norm_1 * norm_inf) for entry in row] for row in transposed(matrix)]
    for _ in range(num_steps):
        az = product(matrix, inverse)
        inner = less(13, product(az, less(15, product(az, less(7, az)))))
        inverse = [[entry / 4 for entry in row] for row in product(inverse, inner)]
    return inverse


def convolved(values: Matrix, kernel: Vector) -> Matrix:
    """sum_t kernel_t v_(i + t - 17), with zeros beyond the first and the last token."""
    reach, width = KERNEL // 2, range(len(values[0]))
    near = [range(max(i - reach, 0), min(i + reach + 1, len(values))) for i in range(len(values))]
    return [[sum(kernel[j - i + reach] * values[j][d] for j in around) for d in width] for i, around in enumerate(near)]


def over_root(tokens: Matrix) -> Matrix:
    root = math.sqrt(math.sqrt(len(tokens[0])))
    return [[entry / root for entry in token] for token in tokens]


def nystrom_batch(
    declaration: Nystrom, projections: Sequence[Sequence[Sequence[Matrix]]], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """The released code: one |A|_1 for all heads of all examples, the largest."""
    if declaration.formula == "paper":
        return {"norm_1": None}
    kernels = [
        softmax_of_dots(*(landmarks(over_root(rows), declaration.num_landmarks) for rows in (queries, keys)))
        for of_heads in projections
        for queries, keys, _ in of_heads
    ]
    return {"norm_1": max(map(largest_column, kernels))}


def nystrom_head(declaration: Nystrom, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Algorithm 1 of Xiong et al., and the convolution over the values."""
    queries, keys, values = over_root(projections[0]), over_root(projections[1]), projections[2]
    query_landmarks, key_landmarks = (landmarks(rows, declaration.num_landmarks) for rows in (queries, keys))
    spread, among, gather = landmark_logits(declaration, situation, len(keys))
    inverse = newton_schulz(softmax_of_dots(query_landmarks, key_landmarks, among), situation.shared["norm_1"])
    to_landmarks = softmax_of_dots(queries, key_landmarks, spread)
    from_landmarks = softmax_of_dots(query_landmarks, keys, gather)
    attended = mixed(product(product(to_landmarks, inverse), from_landmarks), values)
    kernel = [entry for (entry,) in situation.parameters["conv.weight"][situation.head][0]]
    return [
        [a + b for a, b in zip(*rows, strict=True)] for rows in zip(attended, convolved(values, kernel), strict=True)
    ]


def performer_shapes(geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {"projection": (NUM_FEATURES, geometry.head_dim)}


def linformer_shapes(geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {"E": (geometry.num_heads, PROJECTION_LENGTH, geometry.num_tokens)}


def nystrom_shapes(geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {"conv.weight": (geometry.num_heads, 1, KERNEL, 1)}


REFERENCES: Mapping[str, Reference] = {
    "linear": Reference(head=linear_head, declarations=(Linear(),)),
    "linear-twicing": Reference(head=linear_twicing_head, declarations=(LinearTwicing(),)),
    "performer": Reference(
        head=performer_head,
        declarations=(
            *(Performer(num_features=NUM_FEATURES, redraw_seed=seed) for seed in (0, 1)),
            *(Performer(num_features=NUM_FEATURES, formula="released", epsilon=epsilon) for epsilon in (1e-4, 0.5)),
        ),
        more_shapes=performer_shapes,
    ),
    "linformer": Reference(
        head=linformer_head,
        declarations=(
            *(Linformer(projection_length=PROJECTION_LENGTH, positions=each) for each in ("alibi", "bilateral")),
            Linformer(projection_length=PROJECTION_LENGTH),
        ),
        more_shapes=linformer_shapes,
        treats_tokens_alike=False,
        takes_any_length=False,
    ),
    "nystrom": Reference(
        head=nystrom_head,
        declarations=(
            *(Nystrom(num_landmarks=3, positions=each) for each in ("alibi", "bilateral")),
            *(Nystrom(num_landmarks=count) for count in (1, 2, 3, 5)),
            *(Nystrom(num_landmarks=count, formula="released") for count in (2, 3)),
        ),
        of_batch=nystrom_batch,
        more_shapes=nystrom_shapes,
        treats_tokens_alike=False,
    ),
}
