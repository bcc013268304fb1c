"""Declaration of Sparse-RS, a random search over the pixels that change."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from robench.attacks.base import Norm
from robench.attacks.local import pixel_problems
from robench.attacks.square import RandomSearch
from robench.core.declared import DatasetDeclaration
from robench.declarations.base import FieldProblem
from robench.declarations.supports import L0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseRs(RandomSearch):
    """Sparse-RS: random search over few pixels and their colours, without gradients.

    Croce et al. 2022, arXiv:2006.12834. With ``epsilon: 1`` colours are the corners of the range of pixels.

    Attributes:
        p_init: proportion of the pixels that the first trials exchange (alpha_init in the paper).
        l0: number of pixels, or values, that change.
    """

    kind: ClassVar[str] = "sparse-rs"
    implementation: ClassVar[str] = "robench.attacks.sparse_rs_impl:sparse_rs"
    norms: ClassVar[tuple[Norm, ...]] = ("linf",)
    version: ClassVar[int] = 1

    p_init: Annotated[float, Gt(0), Le(1)] = 0.3
    l0: L0

    @property
    def support(self) -> L0:
        """Return the number of places that may change."""
        return self.l0

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why inputs of a shape have no room for the pixels; empty if they have."""
        problem = self.l0.problem_with_shape(shape)
        return f"l0 {problem}" if problem else ""

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields, such as a library, since none has this attack."""
        problems = RandomSearch.contradictions(self)
        if self.backend != "robench":
            problems.append(("backend", f"must be robench with l0, got {self.backend}"))
        return problems

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset: pixels are those of images."""
        return pixel_problems("l0", self.l0.unit == "pixels", dataset) or RandomSearch.problems_on(self, dataset)
