"""Analysis of robust density estimates: samples with outliers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.analyses.base import AnalysisBase, Statistic, Subject
from robench.declarations.base import SEEDS, FieldProblem

_number = partial(Statistic, axes=(), is_of_examples=False)
_density = partial(
    Statistic, axes=("y", "x"), x="first coordinate", y="second coordinate", is_of_examples=False, is_map=True
)


def _distance(estimate: str) -> Statistic:
    return _number(meaning=f"total variation between {estimate} and the true density")


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityContours(AnalysisBase):
    """Density estimates from normal samples with outliers: KDE, RKDE and median of means. Robust KDE, figures 1 and 5.

    Samples are of N(0, I) in the plane, outliers have two independent coordinates of a gamma distribution. The paper
    states the numbers of both, the loss and one iteration; all else is chosen here, sigma^2 = sqrt(2) and the threshold
    as in its attention.

    Attributes:
        num_samples, num_outliers: numbers of samples and of outliers among the points.
        outlier_shape, outlier_scale: shape and scale of the gamma distribution.
        bandwidth: standard deviation sigma of the Gaussian kernel.
        threshold: a of the Huber loss in RKDE, for a kernel of k(x, x) = 1.
        num_iterations: re-weightings in RKDE.
        num_blocks: disjoint random blocks in the median of means; odd. Outliers do no harm if they are in fewer than
            half of the blocks.
        grid_size: places along each axis, from three bandwidths below the smallest coordinate to three above the
            largest.
        seed: seed of the draws.
    """

    kind: ClassVar[str] = "density-contours"
    implementation: ClassVar[str] = "robench.analyses.density_contours_impl:density_contours"
    title: ClassVar[str] = "how far outliers change estimates of a density"
    subject: ClassVar[Subject] = "formula"
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "truth": _density(meaning="true density"),
        "kde": _density(meaning="kernel density estimate"),
        "rkde": _density(meaning="robust kernel density estimate"),
        "mom": _density(meaning="median of the blocks' kernel density estimates"),
        "clean_kde_distance": _distance("the kernel density estimate of the samples alone"),
        "kde_distance": _distance("the kernel density estimate"),
        "rkde_distance": _distance("the robust kernel density estimate"),
        "mom_distance": _distance("the median of the blocks' estimates"),
        "outlier_weight": _number(meaning="sum of the outliers' weights in the robust kernel density estimate"),
    }

    num_samples: Annotated[int, Ge(1), Le(4000)] = 1000
    num_outliers: Annotated[int, Ge(0), Le(1000)] = 100
    outlier_shape: Annotated[int, Ge(1), Le(100)] = 9
    outlier_scale: Annotated[float, Gt(0), Le(10)] = 0.5
    bandwidth: Annotated[float, Ge(0.05), Le(10)] = 2**0.25
    threshold: Annotated[float, Gt(0), Le(10)] = 0.2
    num_iterations: Annotated[int, Ge(0), Le(100)] = 1
    num_blocks: Annotated[int, Ge(1), Le(4999)] = 275
    grid_size: Annotated[int, Ge(2), Le(301)] = 81
    seed: Annotated[int, Ge(0), Lt(SEEDS)] = 0

    def contradictions(self) -> list[FieldProblem]:
        """Refuse an even number of blocks, which has no median, and more blocks than points."""
        num_points = self.num_samples + self.num_outliers
        if self.num_blocks % 2 == 0:
            return [("num_blocks", f"must be odd, got {self.num_blocks}")]
        if self.num_blocks > num_points:
            points = f"the {num_points} samples and outliers"
            return [("num_blocks", f"must be at most {points}, got {self.num_blocks}")]
        return []
