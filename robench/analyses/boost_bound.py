"""Analysis of boosting residual connections: bounds of the Lipschitz constants of networks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from robench.analyses.base import AnalysisBase, Statistic, Subject
from robench.analyses.places import LONGEST, problems_of_list
from robench.declarations.base import FieldProblem

# Beyond these, powers of the largest number of layers are too small or too large for float64.
LEAST, MOST = 0.01, 1000.0
_CONSTANT = "constant L of a layer"
_bound = partial(Statistic, axes=("y", "x"), x="number of layers", y=_CONSTANT, is_of_examples=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostBound(AnalysisBase):
    """Ratio of Lipschitz bounds with boosting and with plain residual connections. Bilateral, theorem 4.1.

    The printed (1 - t / (L + 1))^n is the ratio up to a factor, and only for L > t: ``holds`` says for which L.

    Attributes:
        t: scale of the first tokens in the boosting connection.
        lipschitz: Lipschitz constants L of each layer without its connection, in ascending order.
        num_layers: largest number of layers n.
    """

    kind: ClassVar[str] = "boost-bound"
    implementation: ClassVar[str] = "robench.analyses.boost_bound_impl:boost_bound"
    title: ClassVar[str] = "how much less a network with boosting connections can amplify than a residual one"
    subject: ClassVar[Subject] = "formula"
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "bound_ratio": _bound(meaning="ratio of bounds, K_GRC / K_RC"),
        "printed": _bound(meaning="(1 - t / (L + 1))^n"),
        "excess": _bound(meaning="ratio over the printed one"),
        "holds": Statistic(meaning="1 if L > t, else 0", axes=("x",), x=_CONSTANT, is_of_examples=False),
    }

    t: Annotated[float, Gt(0), Le(1)] = 0.5
    lipschitz: Annotated[
        tuple[Annotated[float, Ge(LEAST), Le(MOST)], ...], MinLen(1), MaxLen(LONGEST)
    ] = (0.25, 0.5, 1.0, 2.0, 4.0)  # fmt: skip
    num_layers: Annotated[int, Ge(1), Le(100)] = 24

    def contradictions(self) -> list[FieldProblem]:
        """Refuse lists of constants that are empty, too long, out of bounds or not in ascending order."""
        return problems_of_list("lipschitz", self.lipschitz, LEAST, MOST)
