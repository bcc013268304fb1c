"""Batched quadratic programs on the simplex, on the device of their tensors, with gradients.

Each is, for a symmetric positive semi-definite G,

    min_w  w^T G w / 2 - b^T w  subject to  w >= 0, sum w = 1

over all points or, with a mask of points, over these alone: the weights of the others are zero.

The support, the points of positive weight, is found in two ways, one after the other:

* block exchanges (primal-dual active sets; Hintermueller, Ito & Kunisch 2003): from all points on, solve for the
  minimum on the plane sum w = 1 over the support, then exchange every point whose weight is negative or, outside,
  whose multiplier is. They end after 0 to 12 exchanges, or circle, where G is nearly singular;
* for the remaining points, descent (Lawson & Hanson 1974, chapter 23): from feasible weights on, go towards the minimum
  over the support until a weight vanishes, which leaves it, or, at the minimum, take in the point of the most negative
  multiplier. The objective falls at each step, so that this ends.

The weights follow from their support by one further Newton step, which is what gradients pass through: its derivative
is the implicit one of the optimality conditions on the support. First derivatives are exact; second ones are not.

Everything runs in float64. ``ridge`` times its mean is added to G's diagonal while solving, so that equal points, for
which G is singular, have a unique solution with equal weights. The last step is towards the minimum without it. For a
mean of 1 the objective is at most ridge / 2 too high (5e-12), and weights are off by about the square of ridge over the
smallest eigenvalue. Multipliers down to -1e-12 count as zero, which costs as much again. A program that is not solved
after ``STEPS_PER_POINT`` N steps (none is known) keeps its last support, with weights feasible and finite.

The last step and its gradients divide by eigenvalues down to ``ridge``. Callers whose G or whose own gradients are
rounded more coarsely than float64's numbers around 1 raise it to that rounding, or else rounding errors in the
difference of two equal points would come back as a weight or a gradient.

Solved programs are left unchanged while the others continue; a program's weights are independent of the others, bit for
bit if the device factors the matrices of a batch one by one.

Axes: P programs, N points, K programs that are still open, M points of the largest support among these.
"""

from typing import NamedTuple

import torch
from torch import Tensor

RIDGE = 1e-11
TOLERANCE = 1e-12
MAX_EXCHANGES = 20
STEPS_PER_POINT = 10


def minimise_on_simplex(
    gram: Tensor, linear: Tensor, *, ridge: Tensor | float = RIDGE, points: Tensor | None = None
) -> Tensor:
    """Return the weights of each program in float64, of the shape (..., N) of b.

    G is (..., N, N), ``ridge`` (...), and ``points`` is the mask of the points, (..., N), or None for all.
    """
    gram_PNN = gram.double().reshape(-1, *gram.shape[-2:])
    linear_PN = linear.double().reshape(-1, linear.shape[-1])
    points_PN = None if points is None else points.reshape(linear_PN.shape)
    if points_PN is not None:
        linear_PN = linear_PN.where(points_PN, 0.0)
    with torch.no_grad():
        mean_P = mean_over(gram_PNN.diagonal(dim1=-2, dim2=-1), points_PN)
        ridge_P1 = (mean_P * torch.as_tensor(ridge).to(gram_PNN).reshape(-1)).unsqueeze(-1)
        support_PN, factor_PNN = Programs(gram_PNN, linear_PN, ridge_P1, mean_P, points_PN).supports()
        start_PN, _ = minimum_on_plane(factor_PNN, support_PN, linear_PN)
    descent_PN = linear_PN - times(gram_PNN, start_PN)
    weights_PN = (start_PN + step_on_plane(factor_PNN, support_PN, descent_PN)).clamp(min=0)
    return (weights_PN / weights_PN.sum(dim=-1, keepdim=True)).reshape(linear.shape)


def mean_over(values: Tensor, points: Tensor | None) -> Tensor:
    """Return the mean of values (..., N) over the points of a mask that expands to their shape (None: all), (...)."""
    if points is None:
        return values.mean(dim=-1)
    return (values * points).sum(dim=-1) / points.sum(dim=-1)


class Programs(NamedTuple):
    """G, b, the ridge, G's mean diagonal and the mask of the points (None: all) of all programs.

    Other methods than ``supports`` take the indices of the programs to work on.
    """

    gram_PNN: Tensor
    linear_PN: Tensor
    ridge_P1: Tensor
    mean_P: Tensor
    points_PN: Tensor | None

    def supports(self) -> tuple[Tensor, Tensor]:
        """Return a mask of the points with positive weight, (P, N), and the factors of G on them, (P, N, N)."""
        support_PN = (
            torch.ones_like(self.linear_PN, dtype=torch.bool) if self.points_PN is None else self.points_PN.clone()
        )
        factor_PNN = factorise(self.gram_PNN, self.points_PN, self.ridge_P1)
        wrong_PN = minimum_on_plane(factor_PNN, support_PN, self.linear_PN)[0] < -TOLERANCE
        changed_K = wrong_PN.any(dim=-1).nonzero().squeeze(-1)
        open_K = self.exchange(support_PN, changed_K, wrong_PN[changed_K])
        self.descend(support_PN, open_K)
        if len(changed_K):
            factor_PNN[changed_K] = factorise(self.gram_PNN[changed_K], support_PN[changed_K], self.ridge_P1[changed_K])
        return support_PN, factor_PNN

    def exchange(self, support_PN: Tensor, open_K: Tensor, wrong_KN: Tensor) -> Tensor:
        """Exchange blocks of points, in place, from the wrong ones; return the programs still open, (K,)."""
        for _ in range(MAX_EXCHANGES):
            if len(open_K) == 0:
                break
            support_PN[open_K] ^= wrong_KN
            negative_KN, outside_KN = self.signs(*self.solve(open_K, support_PN[open_K]), open_K, support_PN[open_K])
            wrong_KN = negative_KN | outside_KN
            still_K = wrong_KN.any(dim=-1)
            open_K, wrong_KN = open_K[still_K], wrong_KN[still_K]
        return open_K

    def descend(self, support_PN: Tensor, open_K: Tensor) -> None:
        """Descend from the last supports to the minimum, changing the supports in place."""
        if len(open_K) == 0:
            return
        weights_KN = self.solve(open_K, support_PN[open_K])[0].clamp(min=0)
        weights_KN = weights_KN / weights_KN.sum(dim=-1, keepdim=True)
        support_PN[open_K] = weights_KN > 0
        for _ in range(STEPS_PER_POINT * support_PN.shape[-1]):
            support_KN = support_PN[open_K]
            target_KN, multipliers_KN = self.solve(open_K, support_KN)
            negative_KN, outside_KN = self.signs(target_KN, multipliers_KN, open_K, support_KN)
            fractions_KN = torch.where(negative_KN, weights_KN / (weights_KN - target_KN), 1.0)
            fraction_K1 = fractions_KN.amin(dim=-1, keepdim=True)
            weights_KN = (weights_KN + fraction_K1 * (target_KN - weights_KN)).clamp(min=0)
            leaving_KN = negative_KN & (fractions_KN == fraction_K1)
            lowest_KN = multipliers_KN == multipliers_KN.where(outside_KN, torch.inf).amin(dim=-1, keepdim=True)
            arriving_KN = outside_KN & lowest_KN & ~negative_KN.any(dim=-1, keepdim=True)
            support_PN[open_K] = (support_KN & ~leaving_KN) | arriving_KN
            still_K = (leaving_KN | arriving_KN).any(dim=-1)
            open_K, weights_KN = open_K[still_K], weights_KN[still_K]
            if len(open_K) == 0:
                break

    def solve(self, open_K: Tensor, support_KN: Tensor) -> tuple[Tensor, Tensor]:
        """Return the minimum over each support with sum w = 1, and its multipliers, (K, N) each.

        Only the support's rows and columns are factored, padded to the largest support.
        """
        largest = int(support_KN.sum(dim=-1).max())
        order_KM = support_KN.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, :largest]
        filled_KM = support_KN.gather(-1, order_KM)
        num_points = support_KN.shape[-1]
        # Whole rows by their places in all programs: indexing by two tensors copies number by number.
        places_KM = open_K.unsqueeze(-1) * num_points + order_KM
        rows_KMN = self.gram_PNN.flatten(0, 1).index_select(0, places_KM.flatten()).view(*order_KM.shape, num_points)
        part_KMM = rows_KMN.gather(-1, order_KM.unsqueeze(-2).expand(-1, largest, -1))
        linear_KN = self.linear_PN[open_K]
        factor_KMM = factorise(part_KMM, filled_KM, self.ridge_P1[open_K])
        weights_KM, level_K1 = minimum_on_plane(factor_KMM, filled_KM, linear_KN.gather(-1, order_KM))
        multipliers_KN = times(rows_KMN.transpose(-2, -1), weights_KM) - linear_KN - level_K1
        return torch.zeros_like(linear_KN).scatter(-1, order_KM, weights_KM), multipliers_KN

    def signs(
        self, weights_KN: Tensor, multipliers_KN: Tensor, open_K: Tensor, support_KN: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the points of negative weight in the support, and of negative multiplier outside, (K, N) each."""
        scale_K = self.mean_P[open_K] + self.linear_PN[open_K].abs().amax(dim=-1)
        outside_KN = (multipliers_KN < -TOLERANCE * scale_K.unsqueeze(-1)) & ~support_KN
        if self.points_PN is not None:
            outside_KN &= self.points_PN[open_K]
        return (weights_KN < -TOLERANCE) & support_KN, outside_KN


def factorise(gram_PNN: Tensor, support_PN: Tensor | None, ridge_P1: Tensor) -> Tensor:
    """Return the Cholesky factors of G on the support (None: all points), of the identity elsewhere, (P, N, N)."""
    if support_PN is None:
        matrix_PNN = gram_PNN.clone(memory_format=torch.contiguous_format)
        matrix_PNN.diagonal(dim1=-2, dim2=-1).add_(ridge_P1)
    else:
        within_PNN = support_PN.unsqueeze(-1) & support_PN.unsqueeze(-2)
        matrix_PNN = gram_PNN.where(within_PNN, 0.0)
        matrix_PNN.diagonal(dim1=-2, dim2=-1).add_(ridge_P1.where(support_PN, 1.0))
    # Errors are not checked, since that would synchronise with the device.
    factor_PNN: Tensor = torch.linalg.cholesky_ex(matrix_PNN).L
    return factor_PNN


def minimum_on_plane(factor_PNN: Tensor, support_PN: Tensor, linear_PN: Tensor) -> tuple[Tensor, Tensor]:
    """Return the minimum over the support with sum w = 1, (P, N), and G w - b there, which is constant, (P, 1)."""
    solved_PN, ones_PN = solved_with_ones(factor_PNN, support_PN, linear_PN)
    level_P1 = (1 - solved_PN.sum(dim=-1, keepdim=True)) / ones_PN.sum(dim=-1, keepdim=True)
    return solved_PN + level_P1 * ones_PN, level_P1


def step_on_plane(factor_PNN: Tensor, support_PN: Tensor, descent_PN: Tensor) -> Tensor:
    """Return the Newton step over the support along the plane sum w = 0, (P, N); linear in the direction of descent."""
    solved_PN, ones_PN = solved_with_ones(factor_PNN, support_PN, descent_PN)
    return solved_PN - solved_PN.sum(dim=-1, keepdim=True) / ones_PN.sum(dim=-1, keepdim=True) * ones_PN


def solved_with_ones(factor_PNN: Tensor, support_PN: Tensor, right_PN: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inverse of G on the support times a right-hand side, and times ones; zero outside."""
    inside_PN = support_PN.to(right_PN.dtype)
    both_PN2 = torch.cholesky_solve(torch.stack([right_PN * inside_PN, inside_PN], dim=-1), factor_PNN)
    return both_PN2[..., 0], both_PN2[..., 1]


def times(matrix_PNM: Tensor, vector_PM: Tensor) -> Tensor:
    """Return each matrix times its vector, (P, N)."""
    return (matrix_PNM @ vector_PM.unsqueeze(-1)).squeeze(-1)
