"""References of softmax, symmetric and RPC attention."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference_base import Matrix, Reference, Situation, attention

from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric


def softmax_head(declaration: Softmax, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    queries, keys, values = projections
    return attention(queries, keys, values)


def symmetric_head(declaration: Symmetric, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    keys, values = projections
    return attention(keys, keys, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pursuit:
    """What one iteration of principal attention pursuit did.

    Attributes:
        candidates: K - L + Y / mu, before the shrinkage; ``sparse``: S; ``low_rank``: L.
    """

    candidates: Matrix
    threshold: float
    sparse: Matrix
    low_rank: Matrix


def pursuits(declaration: Rpc, projections: Sequence[Matrix], full_width: int) -> list[Pursuit]:
    """Algorithm 1 of the RPC paper, iteration by iteration, with mu and the multiplier Y as printed."""
    keys, values = projections
    tokens, width = range(len(keys)), range(len(keys[0]))
    absolute_sum = sum(abs(keys[i][d]) for i in tokens for d in width)
    if declaration.formula == "paper":
        mu = len(keys) * len(keys[0]) / (4 * absolute_sum)
        threshold = declaration.sparsity / mu
    else:
        mu = len(keys) * full_width / 4 / absolute_sum
        threshold = declaration.sparsity * mu
    low_rank = [[0.0 for d in width] for i in tokens]
    multiplier = [[0.0 for d in width] for i in tokens]
    steps = []
    for _ in range(declaration.num_iterations):
        candidates = [[keys[i][d] - low_rank[i][d] + multiplier[i][d] / mu for d in width] for i in tokens]
        sparse = [[math.copysign(max(abs(x) - threshold, 0.0), x) for x in row] for row in candidates]
        cleaned = [[keys[i][d] - sparse[i][d] - multiplier[i][d] / mu for d in width] for i in tokens]
        low_rank = attention(cleaned, cleaned, values)
        multiplier = [
            [multiplier[i][d] + mu * (keys[i][d] - low_rank[i][d] - sparse[i][d]) for d in width] for i in tokens
        ]
        steps.append(Pursuit(candidates=candidates, threshold=threshold, sparse=sparse, low_rank=low_rank))
    return steps


def rpc_head(declaration: Rpc, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    return pursuits(declaration, projections, situation.full_width)[-1].low_rank


RPC_DECLARATIONS = tuple(
    Rpc(num_iterations=num_iterations, sparsity=sparsity, layers="all", formula=formula)
    for formula in ("paper", "released")
    for num_iterations in (1, 2, 4)
    for sparsity in (0.1, 0.5, 4.0)
)

REFERENCES: Mapping[str, Reference] = {
    "softmax": Reference(head=softmax_head, declarations=(Softmax(),)),
    "symmetric": Reference(head=symmetric_head, projections=("k", "v"), declarations=(Symmetric(),)),
    "rpc": Reference(head=rpc_head, projections=("k", "v"), declarations=RPC_DECLARATIONS),
}


def bites(steps: Sequence[Pursuit]) -> None:
    """Check that the thresholds of references keep some entries and drop others, and somewhere all."""
    entries = [[entry for row in step.sparse for entry in row] for step in steps]
    shares = [sum(entry != 0 for entry in step) / len(step) for step in entries]
    assert sum(0 < share < 1 for share in shares) >= len(shares) / 3
    assert any(share == 0 for share in shares)


def kink_distance(step: Pursuit) -> float:
    """Return how near a threshold an entry comes, at which gradients jump."""
    return min(abs(abs(entry) - step.threshold) for row in step.candidates for entry in row)
