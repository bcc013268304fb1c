"""References of mechanisms that change the scores, weights or values of softmax attention within one layer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reference_base import Matrix, Reference, Situation, attention, dot_scores, head_projections, mixed, softmax_row
from reference_rpc import Pursuit

from robench.attention.alibi import Alibi
from robench.attention.attnscale import AttnScale
from robench.attention.bilateral import Bilateral
from robench.attention.geometry import Geometry
from robench.attention.rpc_asymmetric import RpcAsymmetric
from robench.attention.rvt import Rvt
from robench.attention.scaled import Scaled


def asymmetric_pursuits(
    declaration: RpcAsymmetric, projections: Sequence[Matrix], full_width: int | None = None
) -> list[Pursuit]:
    """Algorithm 1 of the RPC paper with the step of appendix E.10, L = Softmax(Q, K - S - Y / mu)."""
    queries, keys, values = projections
    tokens, width = range(len(keys)), range(len(keys[0]))
    absolute_sum = sum(abs(entry) for row in keys for entry in row)
    if declaration.formula == "paper":
        mu = len(keys) * len(keys[0]) / (4 * absolute_sum)
        threshold = declaration.sparsity / mu
    else:
        assert full_width is not None
        mu = len(keys) * full_width / (4 * absolute_sum)
        threshold = declaration.sparsity * mu
    low_rank = [[0.0 for d in width] for i in tokens]
    multiplier = [[0.0 for d in width] for i in tokens]
    steps = []
    for _ in range(declaration.num_iterations):
        candidates = [[keys[i][d] - low_rank[i][d] + multiplier[i][d] / mu for d in width] for i in tokens]
        sparse = [[math.copysign(max(abs(x) - threshold, 0.0), x) for x in row] for row in candidates]
        cleaned = [[keys[i][d] - sparse[i][d] - multiplier[i][d] / mu for d in width] for i in tokens]
        low_rank = attention(queries, cleaned, values)
        for i in tokens:
            for d in width:
                multiplier[i][d] += mu * (keys[i][d] - low_rank[i][d] - sparse[i][d])
        steps.append(Pursuit(candidates=candidates, threshold=threshold, sparse=sparse, low_rank=low_rank))
    return steps


def rpc_asymmetric_head(declaration: RpcAsymmetric, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    return asymmetric_pursuits(declaration, projections, situation.full_width)[-1].low_rank


def scaled_head(declaration: Scaled, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Equation 12 of the RPC paper: softmax(Q K^T / sqrt(D)) (I - S) V, the product of the first two matrices first."""
    queries, keys, values = projections
    tokens = range(len(keys))
    if declaration.parameterization == "matrix":
        learned = situation.parameters["s"][situation.head]
    else:
        (scalar,) = situation.parameters["s"]
        learned = [[scalar * weight for weight in softmax_row(row)] for row in dot_scores(keys, keys)]
    rest = [[(1.0 if i == j else 0.0) - learned[i][j] for j in tokens] for i in tokens]
    weights = [softmax_row(row) for row in dot_scores(queries, keys)]
    return mixed(mixed(weights, rest), values)


def alibi_logits(situation: Situation, num_tokens: int) -> Matrix:
    """-m |i - j|, the slopes m a geometric sequence over the heads that starts at its own ratio, 2^(-8 / H)."""
    ratio = 2 ** (-8 / situation.num_heads)
    slope = ratio
    for _ in range(situation.head):
        slope *= ratio
    return [[-slope * abs(i - j) for j in range(num_tokens)] for i in range(num_tokens)]


def alibi_head(declaration: Alibi, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    queries, keys, values = projections
    tokens = range(len(keys))
    scores, falling = dot_scores(queries, keys), alibi_logits(situation, len(keys))
    return mixed([softmax_row([scores[i][j] + falling[i][j] for j in tokens]) for i in tokens], values)


def sinusoid(place: int, width: int) -> list[float]:
    """Equation 5 of the Bilateral paper, pair by pair."""
    vector: list[float] = []
    for t in range((width + 1) // 2):
        angle = place / 10000 ** (2 * t / width)
        vector += [math.sin(angle), math.cos(angle)]
    return vector[:width]


def position_logits(declaration: Bilateral, situation: Situation, num_tokens: int) -> Matrix:
    """p_i^T W p_j / h_p^2, with W_Q and W_K those of the contents, biases included."""
    if declaration.positions == "none":
        return [[0.0] * num_tokens for _ in range(num_tokens)]
    if declaration.positions == "alibi":
        return alibi_logits(situation, num_tokens)
    vectors = situation.positions
    if declaration.positions == "sinusoid":
        vectors = [sinusoid(place, situation.full_width) for place in range(num_tokens)]
    assert vectors is not None
    weight, bias = situation.parameters["qkv.weight"], situation.parameters["qkv.bias"]
    queries, keys, _ = head_projections(PLAIN, vectors, weight, bias, situation.num_heads, situation.head)
    return divided_products(queries, keys, declaration.position_bandwidth)


def divided_products(queries: Matrix, keys: Matrix, bandwidth: float | None) -> Matrix:
    divisor = math.sqrt(len(keys[0])) if bandwidth is None else bandwidth
    return [[sum(a * b for a, b in zip(query, key, strict=True)) / divisor for key in keys] for query in queries]


def bilateral_head(declaration: Bilateral, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Equation 24 of the Bilateral paper: weights proportional to the kernel, the product of its two factors."""
    queries, keys, values = projections
    tokens = range(len(keys))
    contents = divided_products(queries, keys, declaration.content_bandwidth)
    places = position_logits(declaration, situation, len(keys))
    kernel = [[math.exp(places[i][j]) * math.exp(contents[i][j]) for j in tokens] for i in tokens]
    return mixed([[entry / sum(row) for entry in row] for row in kernel], values)


def attnscale_head(declaration: AttnScale, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """1/N + (1 + lambda) (A - 1/N), weight by weight."""
    queries, keys, values = projections
    uniform, factor = 1 / len(keys), 1 + situation.parameters["lamb"][situation.head]
    weights = [softmax_row(row) for row in dot_scores(queries, keys)]
    return mixed([[uniform + factor * (weight - uniform) for weight in row] for row in weights], values)


def rvt_head(declaration: Rvt, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """softmax(sigmoid(W) * Q K^T / sqrt(D)) V; in the released form with k / |k| in the place of k."""
    queries, keys, values = projections
    if declaration.formula == "released":
        keys = [[entry / math.sqrt(sum(other**2 for other in key)) for entry in key] for key in keys]
    mask, scores = situation.parameters["att_mask"][situation.head], dot_scores(queries, keys)
    tokens = range(len(keys))
    return mixed([softmax_row([scores[i][j] / (1 + math.exp(-mask[i][j])) for j in tokens]) for i in tokens], values)


def of_token_pairs(name: str, geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {name: (geometry.num_heads, geometry.num_tokens, geometry.num_tokens)}


ASYMMETRIC_DECLARATIONS = tuple(
    RpcAsymmetric(num_iterations=num_iterations, sparsity=sparsity, layers="all", formula=formula)
    for formula in ("paper", "released")
    for num_iterations, sparsity in ((1, 0.1), (2, 0.5), (4, 0.1), (4, 0.5), (4, 4.0))
)
NONLOCAL = (Bilateral(positions="none"), Bilateral(positions="none", content_bandwidth=0.6))
BILATERALS = (
    Bilateral(),
    Bilateral(content_bandwidth=2.5, position_bandwidth=0.4),
    Bilateral(positions="sinusoid"),
    Bilateral(positions="sinusoid", content_bandwidth=0.6, position_bandwidth=3.0),
    Bilateral(positions="alibi"),
    Bilateral(positions="alibi", content_bandwidth=2.5),
    *NONLOCAL,
)
PLAIN = Reference(head=bilateral_head, declarations=NONLOCAL)
SCALAR = Reference(
    head=scaled_head, declarations=(Scaled(parameterization="scalar"),), more_shapes=lambda geometry: {"s": (1,)}
)

REFERENCES: Mapping[str, Reference] = {
    "rpc-asymmetric": Reference(head=rpc_asymmetric_head, declarations=ASYMMETRIC_DECLARATIONS),
    "scaled": replace(
        SCALAR,
        declarations=(Scaled(), *SCALAR.declarations),
        more_shapes=lambda geometry: of_token_pairs("s", geometry),
        treats_tokens_alike=False,
        takes_any_length=False,
        exceptions=(SCALAR,),
    ),
    "bilateral": replace(PLAIN, declarations=BILATERALS, treats_tokens_alike=False, exceptions=(PLAIN,)),
    "alibi": Reference(head=alibi_head, declarations=(Alibi(),), treats_tokens_alike=False),
    "attnscale": Reference(
        head=attnscale_head, declarations=(AttnScale(),), more_shapes=lambda geometry: {"lamb": (geometry.num_heads,)}
    ),
    "rvt": Reference(
        head=rvt_head,
        declarations=(Rvt(), Rvt(formula="released")),
        more_shapes=lambda geometry: of_token_pairs("att_mask", geometry),
        treats_tokens_alike=False,
        takes_any_length=False,
    ),
}
