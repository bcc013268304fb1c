"""References of the causal forms: plain Python, one token at a time, from the tokens up to it alone.

Two kinds. Where the causal form is the mechanism on the text so far, the reference is that of the other form on each
prefix, of which the last row counts. Where outputs of earlier tokens are used again, or where sums run on, it is a loop
that keeps what is known of earlier tokens.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import reference_mom
from attention_references import REFERENCES
from reference_base import Matrix, Reference, Situation, Vector, linear, softmax_row
from reference_kernel import gaussian, normalised, psi, squared_distance
from reference_layers import elliptical_head
from reference_linear import elu_features, random_features
from reference_primal import direction, scores

from robench.attention.elliptical import Elliptical
from robench.attention.kde import Kde
from robench.attention.linear import Linear
from robench.attention.linear_twicing import LinearTwicing
from robench.attention.mgk import Mgk
from robench.attention.performer import Performer
from robench.attention.primal import Primal
from robench.attention.rkde import Rkde
from robench.attention.rpc import Rpc
from robench.attention.rpc_asymmetric import RpcAsymmetric
from robench.attention.subsets import prefix_subsets
from robench.attention.twicing import Twicing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from robench.attention.base import AttentionBase
    from robench.attention.mom import MedianOfMeans

    Head = Callable[[Any, Sequence[Matrix], Situation], Matrix]


def until(situation: Situation, count: int) -> Situation:
    """The situation with the first ``count`` tokens alone."""
    return replace(
        situation,
        earlier={place: values[:count] for place, values in situation.earlier.items()},
        positions=None if situation.positions is None else situation.positions[:count],
        tokens=situation.tokens[:count],
    )


def on_prefixes(head: Head) -> Head:
    """The mechanism on tokens 0..i, of which the output of token i is kept."""

    def causal_head(declaration: Any, projections: Sequence[Matrix], situation: Situation) -> Matrix:
        counts = range(1, len(projections[0]) + 1)
        return [
            head(declaration, [rows[:count] for rows in projections], until(situation, count))[-1] for count in counts
        ]

    return causal_head


def dot(x: Vector, y: Vector) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def attended(query: Vector, keys: Matrix, values: Matrix) -> Vector:
    """Softmax attention of one query to the keys that there are."""
    return averaged(softmax_row([dot(query, key) / math.sqrt(len(query)) for key in keys]), values)


def averaged(weights: Vector, values: Matrix) -> Vector:
    return [
        sum(weight * value[d] for weight, value in zip(weights, values, strict=True)) for d in range(len(values[0]))
    ]


def pursuit_head(declaration: Rpc | RpcAsymmetric, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Algorithm 1 of the RPC paper, token by token: each iteration keeps the cleaned keys of the tokens before."""
    *queries, keys, values = projections
    width = range(len(keys[0]))
    cleaned: list[Matrix] = [[] for _ in range(declaration.num_iterations)]
    outputs, absolute_sum = [], 0.0
    for i, key in enumerate(keys):
        absolute_sum += sum(abs(entry) for entry in key)
        wide = len(width) if declaration.formula == "paper" else situation.full_width
        mu = (i + 1) * wide / (4 * absolute_sum)
        threshold = declaration.sparsity / mu if declaration.formula == "paper" else declaration.sparsity * mu
        low_rank, multiplier = [0.0 for _ in width], [0.0 for _ in width]
        for known in cleaned:
            candidates = [key[d] - low_rank[d] + multiplier[d] / mu for d in width]
            sparse = [math.copysign(max(abs(x) - threshold, 0.0), x) for x in candidates]
            known.append([key[d] - sparse[d] - multiplier[d] / mu for d in width])
            low_rank = attended(queries[0][i] if queries else known[i], known, values[: i + 1])
            multiplier = [multiplier[d] + mu * (key[d] - low_rank[d] - sparse[d]) for d in width]
        outputs.append(low_rank)
    return outputs


def twicing_head(declaration: Twicing, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """2 A V - A (A V), with the smoothed values of earlier tokens kept."""
    queries, keys, values = projections
    smoothed: Matrix = []
    outputs = []
    for i, query in enumerate(queries):
        weights = softmax_row([dot(query, key) / math.sqrt(len(query)) for key in keys[: i + 1]])
        smoothed.append(averaged(weights, values[: i + 1]))
        twice = averaged(weights, smoothed)
        outputs.append([2 * a - b for a, b in zip(smoothed[i], twice, strict=True)])
    return outputs


class Recurrence:
    """Equations 10 to 12 of Katharopoulos et al.: s_i = s_(i-1) + phi(k_i) x_i^T and z_i = z_(i-1) + phi(k_i)."""

    def __init__(self, num_features: int, width: int) -> None:
        self.s = [[0.0] * width for _ in range(num_features)]
        self.z = [0.0] * num_features

    def step(self, of_query: Vector, of_key: Vector, x: Vector) -> Vector:
        for f, feature in enumerate(of_key):
            self.z[f] += feature
            self.s[f] = [sum_ + feature * entry for sum_, entry in zip(self.s[f], x, strict=True)]
        return [entry / dot(of_query, self.z) for entry in averaged(of_query, self.s)]


def linear_head(declaration: Linear, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    queries, keys, values = projections
    sums = Recurrence(len(keys[0]), len(values[0]))
    return [sums.step(elu_features(q), elu_features(k), v) for q, k, v in zip(queries, keys, values, strict=True)]


def linear_twicing_head(declaration: LinearTwicing, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """2 A V - A (A V), each product a recurrence of its own."""
    queries, keys, values = projections
    of_values, of_smoothed = (Recurrence(len(keys[0]), len(values[0])) for _ in range(2))
    outputs = []
    for q, k, v in zip(queries, keys, values, strict=True):
        smoothed = of_values.step(elu_features(q), elu_features(k), v)
        twice = of_smoothed.step(elu_features(q), elu_features(k), smoothed)
        outputs.append([2 * a - b for a, b in zip(smoothed, twice, strict=True)])
    return outputs


def performer_head(declaration: Performer, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Lemma 1 of Choromanski et al. in prefix sums; released features without the maximum over keys."""
    queries, keys, values = projections
    projection = situation.parameters["projection"]

    def released(x: Vector, *, is_query: bool) -> Vector:
        scaled = [entry / len(x) ** 0.25 for entry in x]
        products = [dot(row, scaled) for row in projection]
        largest = max(products) if is_query else 0.0
        return [math.exp(each - dot(scaled, scaled) / 2 - largest) + declaration.epsilon for each in products]

    sums = Recurrence(len(projection), len(values[0]))
    if declaration.formula == "released":
        pairs = [(released(q, is_query=True), released(k, is_query=False)) for q, k in zip(queries, keys, strict=True)]
    else:
        pairs = [
            (random_features(q, projection), random_features(k, projection)) for q, k in zip(queries, keys, strict=True)
        ]
    return [sums.step(of_query, of_key, value) for (of_query, of_key), value in zip(pairs, values, strict=True)]


def key_weights(declaration: Rkde, points: Matrix, head_width: int) -> Matrix:
    """Weights of each prefix where psi of a key is found once, from the keys up to it; row i has i + 1 of them."""
    places = range(len(points))
    kernels = [[gaussian(points[i], points[j], head_width, declaration.formula) for j in places] for i in places]
    weights = [[1 / (i + 1)] * (i + 1) for i in places]
    middle = -2 if declaration.formula == "paper" else 1
    for _ in range(declaration.num_iterations):
        psis = []
        for j, own in enumerate(weights):
            past = range(j + 1)
            last = sum(own[m] * own[n] * kernels[m][n] for m in past for n in past)
            square = 1 + middle * sum(own[m] * kernels[m][j] for m in past) + last
            psis.append(psi(declaration.loss, declaration.formula, declaration.threshold, math.sqrt(max(square, 0.0))))
        for i in places:
            if (total := sum(psis[: i + 1])) > 0:
                weights[i] = [each / total for each in psis[: i + 1]]
    return weights


def rkde_key_head(declaration: Rkde, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    queries, keys, values = projections[0], normalised(projections[1]), projections[2]
    width = len(keys[0])
    joint = key_weights(declaration, [[*key, *value] for key, value in zip(keys, values, strict=True)], width)
    marginal = key_weights(declaration, keys, width)
    outputs = []
    for i, query in enumerate(queries):
        kernels = [gaussian(query, key, width, declaration.formula) for key in keys[: i + 1]]
        total = dot(marginal[i], kernels)
        outputs.append(averaged([w * k / total for w, k in zip(joint[i], kernels, strict=True)], values[: i + 1]))
    return outputs


def rkde_head(declaration: Rkde, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    if declaration.prefix == "none":
        kde = on_prefixes(REFERENCES["kde"].head)
        return kde(Kde(formula=declaration.formula), projections, situation)
    head = rkde_key_head if declaration.prefix == "key" else on_prefixes(REFERENCES["rkde"].head)
    return head(declaration, projections, situation)


def blocks_of(declaration: MedianOfMeans, num_tokens: int) -> list[list[list[int]]]:
    """The subsets of each prefix, as lists of token numbers; the draws themselves are data here."""
    (drawn,) = prefix_subsets(
        (reference_mom.SEED,), batch_size=1, layer=0, num_subsets=declaration.num_blocks,
        num_tokens=num_tokens, fraction=declaration.block_fraction,
    ).tolist()  # fmt: skip
    return [
        [[j for j, is_member in enumerate(of_block[i]) if is_member] for of_block in drawn] for i in range(num_tokens)
    ]


def median_head(of_blocks: Callable[..., Matrix]) -> Head:
    """Median of means on each prefix, with the prefix's own subsets, of which the last row is kept."""

    def head(declaration: Any, projections: Sequence[Matrix], situation: Situation) -> Matrix:
        outputs = []
        for i, blocks in enumerate(blocks_of(declaration, len(projections[0]))):
            outputs.append(of_blocks(declaration, [rows[: i + 1] for rows in projections], blocks, situation)[-1])
        return outputs

    return head


def mgk_head(declaration: Mgk, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """sum_r pi_rj exp(-(r + 1/2) |q - k_rj|^2 / sqrt(D)) over its sum and 1e-6, pi_r of the key's position."""
    queries, *mixtures, values = projections
    shares = [situation.parameters[f"pi{place}"][situation.head][0][0] for place in range(len(mixtures))]
    outputs = []
    for i, query in enumerate(queries):
        kernels = [0.0] * (i + 1)
        for place, keys in enumerate(mixtures):
            for j, key in enumerate(keys[: i + 1]):
                factor = (0.5 + place) / math.sqrt(len(key))
                kernels[j] += min(max(shares[place][j], 0.0), 1.0) * math.exp(-factor * squared_distance(query, key))
        outputs.append(averaged([kernel / (sum(kernels) + 1e-6) for kernel in kernels], values[: i + 1]))
    return outputs


def primal_head(declaration: Primal, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Listing 1 of the supplement: cumulative sums over the number of tokens, then directions, then scores."""
    weight, bias = (situation.parameters[f"concate_weight.{part}"] for part in ("weight", "bias"))
    of_parts = []
    for rows, name in zip(projections, ("we", "wr"), strict=True):
        total, means = [0.0] * len(rows[0]), []
        for count, row in enumerate(rows, start=1):
            total = [a + b for a, b in zip(total, row, strict=True)]
            means.append(direction([entry / count for entry in total]))
        of_parts.append(scores(means, situation.parameters[name][situation.head]))
    return [linear([*e, *r], weight, bias) for e, r in zip(*of_parts, strict=True)]


def causal_elliptical_head(declaration: Elliptical, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Over layers the mechanism on each prefix; for finite differences the changes of earlier outputs are kept."""
    if declaration.estimator == "over_layers":
        return on_prefixes(elliptical_head)(declaration, projections, situation)
    queries, keys, values = projections
    width = range(len(keys[0]))
    step = 0.5 / math.sqrt(len(width))
    totals, outputs = [0.0 for _ in width], []
    for i, query in enumerate(queries):
        past = keys[: i + 1], values[: i + 1]
        for moved in width:
            up, down = (attended([query[d] + s * step * (d == moved) for d in width], *past) for s in (1, -1))
            totals[moved] += sum(abs(a - b) for a, b in zip(up, down, strict=True)) / (2 * step)
        outputs.append(attended([query[d] * totals[d] / (i + 1) for d in width], *past))
    return outputs


# The form of the mechanism on each prefix, except where it is written out above.
ON_PREFIXES = ("softmax", "symmetric", "alibi", "bilateral", "neutreno", "kde", "spkde", "pro", "fourier")
PREFIX_DECLARATIONS = tuple(
    replace(each, prefix=prefix)  # type: ignore[type-var]  # all are Rkde
    for prefix in ("key", "none")
    for each in REFERENCES["rkde"].declarations
)


def of_paper(kind: str) -> tuple[AttentionBase, ...]:
    """Declarations of a median-of-means mechanism that have a causal form."""
    return tuple(each for each in REFERENCES[kind].declarations if each.formula == "paper")  # type: ignore[attr-defined]  # all are MedianOfMeans


CAUSAL_REFERENCES: Mapping[str, Reference] = {
    **{kind: replace(REFERENCES[kind], head=on_prefixes(REFERENCES[kind].head)) for kind in ON_PREFIXES},
    "rpc": replace(REFERENCES["rpc"], head=pursuit_head),
    "rpc-asymmetric": replace(REFERENCES["rpc-asymmetric"], head=pursuit_head),
    "twicing": replace(REFERENCES["twicing"], head=twicing_head),
    "linear": replace(REFERENCES["linear"], head=linear_head),
    "linear-twicing": replace(REFERENCES["linear-twicing"], head=linear_twicing_head),
    "performer": replace(REFERENCES["performer"], head=performer_head),
    "rkde": replace(
        REFERENCES["rkde"], head=rkde_head, declarations=(*REFERENCES["rkde"].declarations, *PREFIX_DECLARATIONS)
    ),
    "mom": replace(REFERENCES["mom"], declarations=of_paper("mom"), head=median_head(reference_mom.mom_of)),
    "fourier-mom": replace(
        REFERENCES["fourier-mom"], declarations=of_paper("fourier-mom"), head=median_head(reference_mom.fourier_mom_of)
    ),
    "mgk": replace(REFERENCES["mgk"], head=mgk_head),
    "primal": replace(
        REFERENCES["primal"],
        head=primal_head,
        declarations=tuple(each for each in REFERENCES["primal"].declarations if not each.causal_problem),  # type: ignore[attr-defined]  # all are Primal
        exceptions=(),
    ),
    "elliptical": replace(REFERENCES["elliptical"], head=causal_elliptical_head),
}
