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
from functools import partial
from typing import ClassVar, Literal

from robench.analyses.base import AnalysisBase, Part, Statistic

_of_head = partial(Statistic, axes=("layer", "head"))
_of_axis = partial(Statistic, axes=("layer", "head", "x"), x="axis of the values")


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
        "projection_error": _of_head(meaning="projection error J of kernel PCA"),
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
        "difference_mean": _of_axis(meaning="mean difference of ratios"),
        "difference_deviation": _of_axis(meaning="deviation of differences"),
        "eigenvalue_max": _of_head(meaning="largest size of an eigenvalue"),
        "eigenvalue_min": _of_head(meaning="smallest size of an eigenvalue"),
        "eigenvalue_mean": _of_head(meaning="mean size of the eigenvalues"),
        "eigenvalue_median": _of_head(meaning="median size of the eigenvalues"),
    }
