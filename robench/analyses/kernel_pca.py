"""Analyses of self-attention as kernel PCA: projection error, and whether values are eigenvectors.

Source: Teo & Nguyen 2024, Unveiling the Hidden Structure of Self-Attention via Kernel Principal Component Analysis,
arXiv:2406.13762, sections 2.2.1 and 2.2.2. In their theorem 1 softmax attention projects each query, in the space of
the kernel k(x, y) / (g(x) g(y)), on principal axes of the keys, which the values define:

    k(x, y) = exp(x.y / sqrt(D)),  g(x) = sum_j k(x, k_j)

The theory is of softmax attention. Of another mechanism both analyses show what it says of its projected queries, keys
and values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.analyses.base import AnalysisBase, Axis, Part, Statistic

AXES: tuple[Axis, ...] = ("layer", "head")
AXES_OF_VALUES: tuple[Axis, ...] = ("layer", "head", "x")
VALUE_AXIS = "axis of the values"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionError(AnalysisBase):
    """Error J of projecting the queries on the principal axes of kernel PCA, the mean over tokens.

    Source: Teo & Nguyen 2024 (RPC-Attention), arXiv:2406.13762, equation 13, appendix C and figure 1.

    Attributes:
        formula: ``paper``, or ``released``, the authors' code, which standardises queries and keys, and whose kernel is
            of other logits than its softmax.
    """

    kind: ClassVar[str] = "projection-error"
    implementation: ClassVar[str] = "robench.analyses.kernel_pca_impl:projection_error"
    title: ClassVar[str] = "how well attention projects queries on principal axes of the keys"
    needs: ClassVar[tuple[Part, ...]] = ("queries", "keys", "values", "heads")
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "projection_error": Statistic(meaning="projection error J of kernel PCA", axes=AXES),
    }

    formula: Literal["paper", "released"] = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eigenvectors(AnalysisBase):
    """Test whether the values are eigenvectors of the centred Gram matrix of the keys, as kernel PCA has them.

    For each axis d of the values it is the ratio of the matrix times a_d to N a_d, token by token, which would be the
    same for all tokens. Shown are its differences between pairs of tokens, and, as the eigenvalue of an axis, its mean
    over tokens.

    Source: Teo & Nguyen 2024 (RPC-Attention), arXiv:2406.13762, section 2.2.2, appendix E.2, figures 2 and 5.
    """

    kind: ClassVar[str] = "eigenvectors"
    implementation: ClassVar[str] = "robench.analyses.kernel_pca_impl:eigenvectors"
    title: ClassVar[str] = "whether values are eigenvectors of the keys' Gram matrix"
    needs: ClassVar[tuple[Part, ...]] = ("keys", "values")
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "difference_mean": Statistic(meaning="mean difference of ratios", axes=AXES_OF_VALUES, x=VALUE_AXIS),
        "difference_deviation": Statistic(meaning="deviation of differences", axes=AXES_OF_VALUES, x=VALUE_AXIS),
        "eigenvalue_max": Statistic(meaning="largest size of an eigenvalue", axes=AXES),
        "eigenvalue_min": Statistic(meaning="smallest size of an eigenvalue", axes=AXES),
        "eigenvalue_mean": Statistic(meaning="mean size of the eigenvalues", axes=AXES),
        "eigenvalue_median": Statistic(meaning="median size of the eigenvalues", axes=AXES),
    }
