"""Declarations of the Square attack, a random search by squares, and of what its forms share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt, Le

from robench.attacks import ATTACKS
from robench.attacks.base import Count, Loss, Norm, SearchingAttack
from robench.core.declared import DatasetDeclaration
from robench.declarations.base import FieldProblem
from robench.domains import DOMAINS
from robench.domains.images import IMAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSearch(SearchingAttack):
    """Random search by trials within the budget, without gradients; base of the forms of the Square attack.

    Attributes:
        num_queries: number of forward passes per search, including that of the first point.
        p_init: proportion of the values that the first trials cover; it decreases during the search.
        loss: loss to maximise.
    """

    is_gradient_free: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_queries"

    num_queries: Count
    p_init: Annotated[float, Gt(0), Le(1)]
    loss: Loss = "margin"

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all trials: one query per trial, and no gradient."""
        return self.num_restarts * self.num_queries, 0

    def contradictions(self) -> list[FieldProblem]:
        """Refuse returns last, since half of the trials of a random search are worse than its best point."""
        problems = SearchingAttack.contradictions(self)
        if self.returns == "last":
            problems.append(("returns", f"must be best for {self.kind}, whose last trial may be its worst, got last"))
        return problems

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset; where another form can, with its name."""
        problems = SearchingAttack.problems_on(self, dataset)
        forms = random_searches(DOMAINS[dataset.domain].axes) if problems else []
        if not forms or isinstance(self, forms[0]):
            return problems
        return [(field, f"{message}; take {forms[0].kind}") for field, message in problems]


def random_searches(axes: tuple[str, ...]) -> Sequence[type[RandomSearch]]:
    """Return robench's random searches that work on inputs with these axes."""
    attacks = ATTACKS.builtin.values()
    return [each for each in attacks if issubclass(each, RandomSearch) and each.needed_axes == axes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Square(RandomSearch):
    """Random search that changes one square at a time, without gradients. Andriushchenko et al. 2020, arXiv:1912.00049.

    In l1 it follows AutoAttack. Croce and Hein 2021, arXiv:2103.01208.

    Attributes:
        p_init: proportion of the pixels that the first squares cover.
        schedule: schedule of the square sizes. The paper's code defines it for 10,000 queries: ``rescaled`` to
            ``num_queries``, as in that code and in other libraries' Square; or ``fixed``, as in AutoAttack, whose 5,000
            queries then end at 1/128 of ``p_init`` and not at 1/512.
        trials: sampling of trials. Signs that would change nothing are flipped, and squares lie anywhere
            (``changing``); or signs are used as drawn, and no square touches the last row or column unless it fills the
            image (``as_drawn``), as in AutoAttack's code.
    """

    kind: ClassVar[str] = "square"
    implementation: ClassVar[str] = "robench.attacks.square_impl:square"
    needed_axes: ClassVar[tuple[str, ...]] = IMAGES.axes
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2", "l1")
    published_stop: ClassVar[Literal["at_success"]] = "at_success"

    schedule: Literal["rescaled", "fixed"] = "rescaled"
    trials: Literal["changing", "as_drawn"] = "changing"
