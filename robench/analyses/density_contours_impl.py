"""Kernel density estimates of contaminated samples in the plane: plain, robust, and as a median of means.

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794, figure
5, equations 4, 10 and 24 to 26. With the Gaussian kernel k(x, y) = exp(-|x - y|^2 / (2 sigma^2)), the estimates are

    kde   sum_j k(x, x_j) / (2 pi sigma^2 n)
    rkde  sum_j w_j k(x, x_j) / (2 pi sigma^2), weights as in ``attention.rkde_impl``, which start uniform
    mom   the median over blocks of the points of kde from a block, divided by its integral over the grid

The paper prints no parameters of the distributions and no bandwidth. Its theorem 1 needs more than twice as many blocks
as outliers. With the 5 blocks of its attention every block contains outliers, and the median is as far from
the true density as kde. Points that are left over by blocks of equal size are in no block.

A gamma variable with a whole number as its shape is the sum of as many exponential ones.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from robench.analyses.base import Curve
from robench.analyses.density_contours import DensityContours
from robench.core.errors import DeclarationError
from robench.core.seeds import Stream, stream_seed


def density_contours(declaration: DensityContours) -> Mapping[str, Curve]:
    """Return the true density and the three estimates on the grid, (y, x), and how far these are from the truth."""
    points_N2, blocks_LS = drawn(declaration)
    sigma = declaration.bandwidth
    grid_G = torch.linspace(
        float(points_N2.min()) - 3 * sigma,
        float(points_N2.max()) + 3 * sigma,
        declaration.grid_size,
        dtype=torch.float64,
    )
    # The kernel is a product over coordinates.
    along_x_GN, along_y_GN = kernels(grid_G, points_N2[:, 0], sigma), kernels(grid_G, points_N2[:, 1], sigma)
    weights_N = huber_weights(points_N2, declaration)
    peak = 1 / (2 * math.pi * sigma**2)
    cell = float(grid_G[1] - grid_G[0]) ** 2
    normal_G = torch.exp(-grid_G.square() / 2)
    truth_GG = normal_G.unsqueeze(1) * normal_G / (2 * math.pi)
    estimates = {
        "kde": peak * (along_y_GN @ along_x_GN.T) / len(points_N2),
        "rkde": peak * ((along_y_GN * weights_N) @ along_x_GN.T),
        "mom": median_of_means(along_y_GN[:, blocks_LS], along_x_GN[:, blocks_LS]) / cell,
    }
    curves = {name: Curve(values=each, x=grid_G, y=grid_G) for name, each in ({"truth": truth_GG} | estimates).items()}
    clean = declaration.num_samples
    estimates["clean_kde"] = peak * (along_y_GN[:, :clean] @ along_x_GN[:, :clean].T) / clean
    for name, estimate_GG in estimates.items():
        curves[f"{name}_distance"] = Curve(values=(estimate_GG - truth_GG).abs().sum() * cell / 2)
    return curves | {"outlier_weight": Curve(values=weights_N[clean:].sum())}


def drawn(declaration: DensityContours) -> tuple[Tensor, Tensor]:
    """Return the points, (N, 2), samples before outliers, and the numbers of the points in each block, (L, S)."""
    generator = torch.Generator().manual_seed(stream_seed(declaration.seed, Stream(purpose=declaration.kind)))
    samples_N2 = torch.randn(declaration.num_samples, 2, generator=generator, dtype=torch.float64)
    exponential_N2K = torch.empty(declaration.num_outliers, 2, declaration.outlier_shape, dtype=torch.float64)
    outliers_N2 = declaration.outlier_scale * exponential_N2K.exponential_(generator=generator).sum(dim=-1)
    points_N2 = torch.cat([samples_N2, outliers_N2])
    order_N = torch.randperm(len(points_N2), generator=generator)
    size = len(points_N2) // declaration.num_blocks
    return points_N2, order_N[: size * declaration.num_blocks].view(declaration.num_blocks, size)


def kernels(places_G: Tensor, x_N: Tensor, bandwidth: float) -> Tensor:
    """Return the Gaussian kernel of one coordinate, (G, N), 1 at its centre."""
    return torch.exp(-(places_G.unsqueeze(1) - x_N).square() / (2 * bandwidth**2))


def huber_weights(points_N2: Tensor, declaration: DensityContours) -> Tensor:
    """Return the weights of the points after the declared re-weightings, (N,)."""
    x_N, y_N = points_N2.unbind(dim=1)
    gram_NN = kernels(x_N, x_N, declaration.bandwidth) * kernels(y_N, y_N, declaration.bandwidth)
    weights_N = torch.full_like(x_N, 1 / len(x_N))
    for _ in range(declaration.num_iterations):
        to_mean_N = gram_NN @ weights_N
        distances_N = (1 - 2 * to_mean_N + weights_N @ to_mean_N).clamp(min=0).sqrt()
        psi_N = declaration.threshold / distances_N.clamp(min=declaration.threshold)
        weights_N = psi_N / psi_N.sum()
    return weights_N


def median_of_means(along_y_GLS: Tensor, along_x_GLS: Tensor) -> Tensor:
    """Return the median over blocks of the sums of their kernels, (y, x), divided by its sum over the grid."""
    rows = [torch.einsum("ls,gls->lg", row_LS, along_x_GLS).median(dim=0).values for row_LS in along_y_GLS]
    median_GG = torch.stack(rows)
    total = median_GG.sum()
    if total == 0:
        raise DeclarationError(
            f"the median over {along_x_GLS.shape[1]} blocks of {along_x_GLS.shape[2]} points each is zero everywhere on"
            " the grid: set fewer num_blocks, a larger bandwidth or a larger grid_size"
        )
    return median_GG / total
