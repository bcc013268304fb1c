"""References of median-of-means attention, written from equations 10 to 12 of the Robust KDE paper."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reference_base import Matrix, Reference, Situation, Vector, mixed

from robench.attention.fourier_mom import FourierMom
from robench.attention.geometry import Geometry
from robench.attention.mom import MedianOfMeans, Mom
from robench.attention.subsets import random_subsets

SEED = 7  # of every example in the contract's tests


def members(declaration: MedianOfMeans, num_tokens: int, layer: int = 0) -> list[list[int]]:
    """The subsets that are drawn, as lists of token numbers; the draws themselves are data here."""
    drawn = random_subsets(
        (SEED,), lengths=(num_tokens,), layer=layer, num_subsets=declaration.num_blocks, num_tokens=num_tokens,
        fraction=declaration.block_fraction,
    )  # fmt: skip
    subsets = [[j for j, is_member in enumerate(row) if is_member] for row in drawn[0].tolist()]
    assert {len(each) for each in subsets} == {max(1, int(num_tokens * declaration.block_fraction))}
    return subsets


def unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(entry * entry for entry in vector))
    return [entry / length for entry in vector]


def median_block(densities: Sequence[float]) -> int:
    return sorted(range(len(densities)), key=lambda block: densities[block])[len(densities) // 2]


def squares(queries: Matrix, keys: Matrix) -> Matrix:
    return [[sum((a - b) ** 2 for a, b in zip(q, k, strict=True)) for k in keys] for q in queries]


def mom_head(declaration: Mom, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    return mom_of(declaration, projections, members(declaration, len(projections[0])), situation)


def mom_of(
    declaration: Mom, projections: Sequence[Matrix], blocks: Sequence[Sequence[int]], situation: Situation
) -> Matrix:
    queries, keys, values = projections[0], [unit(key) for key in projections[1]], projections[2]
    root = math.sqrt(len(keys[0]))
    distances = squares(queries, keys)
    if declaration.formula == "paper":
        kernel = [[math.exp(-distance / (2 * root)) for distance in row] for row in distances]
        chosen = [median_block([sum(row[j] for j in block) / len(block) for block in blocks]) for row in kernel]
    else:
        kernel = [[math.exp(-distance / root) for distance in row] for row in distances]
        chosen = [situation.shared["median"]] * len(queries)
    weights = []
    for row, block in zip(kernel, chosen, strict=True):
        total = sum(row[j] for j in blocks[block])
        weights.append([row[j] / total if j in blocks[block] else 0.0 for j in range(len(keys))])
    return mixed(weights, values)


def shared_median(
    declaration: Mom, all_projections: Sequence[Sequence[Matrix]], parameters: Mapping[str, Any]
) -> dict[str, int]:
    """The released code's one block for all heads and queries: the median of the summed -|q - k|^2 / sqrt(D)."""
    return {"median": median_of(all_projections, members(declaration, len(all_projections[0][0])))}


def median_of(all_projections: Sequence[Sequence[Matrix]], blocks: Sequence[Sequence[int]]) -> int:
    totals = []
    for block in blocks:
        total = 0.0
        for queries, raw_keys, _ in all_projections:
            keys = [unit(key) for key in raw_keys]
            total -= sum(row[j] for row in squares(queries, keys) for j in block) / math.sqrt(len(keys[0]))
        totals.append(total)
    return median_block(totals)


def sinc(x: float) -> float:
    return math.sin(x) / x


def sinc_kernels(declaration: FourierMom, queries: Matrix, keys: Matrix, radius: float) -> Matrix:
    kernel = []
    for query in queries:
        differences = [[radius * (a - b) for a, b in zip(query, key, strict=True)] for key in keys]
        kernel.append([math.prod(sinc(x) ** declaration.power for x in row) for row in differences])
    return kernel


def fourier_mom_head(declaration: FourierMom, projections: Sequence[Matrix], situation: Situation) -> Matrix:
    return fourier_mom_of(declaration, projections, members(declaration, len(projections[0])), situation)


def fourier_mom_of(
    declaration: FourierMom, projections: Sequence[Matrix], blocks: Sequence[Sequence[int]], situation: Situation
) -> Matrix:
    queries, keys, values = projections
    kernel = sinc_kernels(declaration, queries, keys, situation.parameters["paramR"][0])
    weights = []
    for row in kernel:
        own = median_block([sum(row[j] for j in block) for block in blocks])
        block = blocks[own if declaration.formula == "paper" else situation.shared["median"]]
        total = sum(row[j] for j in block) + 1e-6
        weights.append([row[j] / total if j in block else 0.0 for j in range(len(keys))])
    return mixed(weights, values)


def shared_fourier_median(
    declaration: FourierMom, all_projections: Sequence[Sequence[Matrix]], parameters: Mapping[str, Any]
) -> dict[str, int]:
    """The released code's block, which is that of ``mom`` for keys as they are: no sinc comes into the choice."""
    return {"median": fourier_median_of(all_projections, members(declaration, len(all_projections[0][0])))}


def fourier_median_of(all_projections: Sequence[Sequence[Matrix]], blocks: Sequence[Sequence[int]]) -> int:
    totals = [
        -sum(row[j] for queries, keys, _ in all_projections for row in squares(queries, keys) for j in block)
        for block in blocks
    ]
    return median_block(totals)


def one_radius(geometry: Geometry) -> dict[str, tuple[int, ...]]:
    return {"paramR": (1,)}


REFERENCES: Mapping[str, Reference] = {
    "mom": Reference(
        head=mom_head,
        shared=shared_median,
        treats_tokens_alike=False,
        declarations=(
            Mom(num_blocks=3, block_fraction=0.5),
            Mom(num_blocks=5, block_fraction=0.8),
            Mom(num_blocks=5, block_fraction=0.6, formula="released"),
            Mom(num_blocks=7, block_fraction=0.3, formula="released"),
        ),
    ),
    "fourier-mom": Reference(
        head=fourier_mom_head,
        shared=shared_fourier_median,
        more_shapes=one_radius,
        treats_tokens_alike=False,
        declarations=(
            FourierMom(num_blocks=3, block_fraction=0.6),
            FourierMom(num_blocks=5, block_fraction=0.6, power=2, formula="released"),
            FourierMom(num_blocks=7, block_fraction=0.6, formula="released"),
        ),
    ),
}
