"""Declaration of attention by a robust kernel density estimate."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attention.base import AttentionBase, Formula
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Rkde(AttentionBase):
    """Robust kernel density attention: less weight for outlying keys, by iteratively re-weighted least squares.

    Attributes:
        loss: robust loss; ``threshold``: a of that loss.
        num_iterations: number of re-weightings; weights start uniform, and stay so if all vanish.
        formula: kernel as in ``kde``; distance of a key from the mean as printed (``paper``), or with the opposite sign
            of its middle term, so that outliers have more weight, and a tail of 0.01 for Hampel's loss (``released``).
        prefix: read by the causal form alone: weights are of the keys up to each query (``query``, the paper), or of
            those up to the key itself, once for all queries (``key``, the authors' code as intended); or they stay
            uniform (``none``, the authors' code as released, which is causal ``kde``).
    """

    kind: ClassVar[str] = "rkde"
    implementation: ClassVar[str] = "robench.attention.rkde_impl:RkdeAttention"
    has_causal_form: ClassVar[bool] = True

    loss: Literal["huber", "hampel", "welsch", "tukey"] = "huber"
    threshold: Annotated[float, Gt(0), Le(LARGEST)] = 0.2
    num_iterations: Annotated[int, Ge(1), Le(1000)] = 1
    formula: Formula = "paper"
    prefix: Literal["query", "key", "none"] = "query"
