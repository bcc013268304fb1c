"""References of mechanisms that differ from layer to layer, and of whole blocks with a declared residual connection."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reference_base import Matrix, Reference, Situation, Vector, attention, dot_scores, linear, mixed, softmax_row

from robench.attention.elliptical import Elliptical
from robench.attention.neutreno import Neutreno
from robench.attention.twicing import Twicing
from robench.models.transformer import Boost, FeatScale


def twicing_head(declaration: Twicing, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """Equation 18 of the Twicing paper: (2 A - A A) V, with the square that the code never makes."""
    queries, keys, values = projections
    weights = [softmax_row(row) for row in dot_scores(queries, keys)]
    squared = mixed(weights, weights)
    tokens = range(len(values))
    return mixed([[2 * weights[i][j] - squared[i][j] for j in tokens] for i in tokens], values)


def neutreno_head(declaration: Neutreno, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """A layer after the first: sum_j A_ij v_j + alpha (v0_i - v_i)."""
    queries, keys, values = projections
    smoothed, first = attention(queries, keys, values), situation.earlier[0]
    return [
        [smoothed[i][d] + declaration.alpha * (first[i][d] - values[i][d]) for d in range(len(values[0]))]
        for i in range(len(values))
    ]


def relevances(declaration: Elliptical, values: Matrix, earlier: Matrix) -> Vector:
    """The diagonal of W: mean over tokens of |v - v'| / delta, divided by the largest of them."""
    tokens, width = range(len(values)), range(len(values[0]))
    changes = [sum(abs(values[i][d] - earlier[i][d]) / declaration.delta for i in tokens) / len(values) for d in width]
    return [change / max(changes) for change in changes]


def sensitivities(queries: Matrix, keys: Matrix, values: Matrix) -> Vector:
    """The diagonal of W by central differences: both outputs are computed, coordinate by coordinate."""
    width, tokens = range(len(queries[0])), range(len(queries))
    step = 0.5 / math.sqrt(len(width))
    found = []
    for moved in width:
        outputs = [
            attention([[query[d] + sign * step * (d == moved) for d in width] for query in queries], keys, values)
            for sign in (1, -1)
        ]
        distances = [sum(abs(outputs[0][i][d] - outputs[1][i][d]) for d in width) for i in tokens]
        found.append(sum(distances) / (2 * step * len(tokens)))
    return found


def elliptical_head(declaration: Elliptical, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    """softmax_j(sum_d q_id W_dd k_jd / sqrt(D)) v_j, over layers in one after the first."""
    queries, keys, values = projections
    if declaration.estimator == "finite_differences":
        relevance = sensitivities(queries, keys, values)
    else:
        relevance = relevances(declaration, values, situation.earlier[0])
    width = range(len(relevance))
    scores = [
        [sum(query[d] * relevance[d] * key[d] for d in width) / math.sqrt(len(relevance)) for key in keys]
        for query in queries
    ]
    return mixed([softmax_row(row) for row in scores], values)


FINITE = Reference(
    head=elliptical_head, declarations=(Elliptical(estimator="finite_differences"),), stops_gradients=True
)

REFERENCES: Mapping[str, Reference] = {
    "twicing": Reference(head=twicing_head, declarations=(Twicing(),)),
    "neutreno": Reference(
        head=neutreno_head, declarations=tuple(Neutreno(alpha=alpha) for alpha in (0.0, 0.6, 2.5)), needs_layers=(0,)
    ),
    "elliptical": Reference(
        head=elliptical_head,
        declarations=(*(Elliptical(delta=delta) for delta in (5.0, 0.25)), *FINITE.declarations),
        needs_layers=(0,),
        stops_gradients=True,
        exceptions=(FINITE,),
    ),
}


def normalised(token: Vector, scale: Vector, shift: Vector) -> Vector:
    """Layer normalisation with epsilon 1e-6."""
    mean = sum(token) / len(token)
    variance = sum((entry - mean) ** 2 for entry in token) / len(token)
    return [(token[c] - mean) / math.sqrt(variance + 1e-6) * scale[c] + shift[c] for c in range(len(token))]


def perceptron(token: Vector, parameters: Mapping[str, Any]) -> Vector:
    hidden = linear(token, parameters["mlp.fc1.weight"], parameters["mlp.fc1.bias"])
    active = [entry * (1 + math.erf(entry / math.sqrt(2))) / 2 for entry in hidden]
    return linear(active, parameters["mlp.fc2.weight"], parameters["mlp.fc2.bias"])


def boosted(declaration: Boost, parameters: Mapping[str, Any], y: Matrix, branch: Matrix, first: Matrix) -> Matrix:
    """Equation 31 of the Bilateral and Boost paper: f(Y) + t Y0 + (1 - t) Y."""
    t = parameters["t"]
    return [[branch[i][c] + t * first[i][c] + (1 - t) * y[i][c] for c in range(len(y[0]))] for i in range(len(y))]


def scaled_apart(
    declaration: FeatScale, parameters: Mapping[str, Any], y: Matrix, branch: Matrix, first: Matrix
) -> Matrix:
    """Y + (1 + lambda1) DC + (1 + lambda2) HC, where DC is the branch's mean over the tokens and HC what is left."""
    times = {"paper": 1, "released": 2}[declaration.formula]
    of_mean = [1 + times * entry for entry in parameters["lamb1"]]
    of_rest = [1 + times * entry for entry in parameters["lamb2"]]
    width = range(len(y[0]))
    mean = [sum(row[c] for row in branch) / len(branch) for c in width]
    return [
        [y[i][c] + of_mean[c] * mean[c] + of_rest[c] * (branch[i][c] - mean[c]) for c in width] for i in range(len(y))
    ]


def plain(declaration: object, parameters: Mapping[str, Any], y: Matrix, branch: Matrix, first: Matrix) -> Matrix:
    return [[y[i][c] + branch[i][c] for c in range(len(y[0]))] for i in range(len(y))]


CONNECTIONS: Mapping[str, Any] = {"plain": plain, "boost": boosted, "featscale": scaled_apart}


def block_of_softmax(
    declaration: Any, parameters: Mapping[str, Any], y: Matrix, first: Matrix, num_heads: int
) -> Matrix:
    """A whole block over one example's tokens, with softmax attention."""
    normal = [normalised(token, parameters["norm1.weight"], parameters["norm1.bias"]) for token in y]
    projected = [linear(token, parameters["attn.qkv.weight"], parameters["attn.qkv.bias"]) for token in normal]
    full_width = len(y[0])
    width = full_width // num_heads
    merged: Matrix = [[] for _ in y]
    for head in range(num_heads):
        starts = [block * full_width + head * width for block in range(3)]
        queries, keys, values = ([row[start : start + width] for row in projected] for start in starts)
        for row, of_head in zip(merged, attention(queries, keys, values), strict=True):
            row.extend(of_head)
    branch = [linear(row, parameters["attn.proj.weight"], parameters["attn.proj.bias"]) for row in merged]
    connected = CONNECTIONS[declaration.kind](declaration, parameters, y, branch, first)
    outputs = []
    for token in connected:
        added = perceptron(normalised(token, parameters["norm2.weight"], parameters["norm2.bias"]), parameters)
        outputs.append([token[c] + added[c] for c in range(full_width)])
    return outputs
