"""Declaration of simultaneous perturbation stochastic approximation as an attack."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt, Le

from robench.attacks.base import Count, Loss, Norm, SearchingAttack
from robench.core.declared import DatasetDeclaration
from robench.declarations.base import LARGEST, FieldProblem
from robench.domains import DOMAINS


@dataclass(frozen=True, slots=True, kw_only=True)
class Spsa(SearchingAttack):
    """Ascent along gradients estimated from losses alone. Uesato et al. 2018, arXiv:1802.05666.

    Attributes:
        learning_rate: Adam's learning rate; ``delta``: distance of the samples from the point, in units of the space.
        num_steps: number of updates. ``num_samples``: number of pairs of opposite samples per estimate.
        loss: loss to maximise. ``random_start``: whether to start at a random point of the ball instead of the clean
            input.
        formula: samples lie around the current point (``paper``), or always around twice the clean input (``released``:
            the behaviour of cleverhans 4.0 for torch, which the papers' code calls).
    """

    kind: ClassVar[str] = "spsa"
    implementation: ClassVar[str] = "robench.attacks.spsa_impl:spsa"
    is_gradient_free: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_steps"
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    num_steps: Count
    learning_rate: Annotated[Fraction, Gt(0), Le(LARGEST)]
    delta: Annotated[Fraction, Gt(0), Le(LARGEST)]
    num_samples: Count
    random_start: bool = True
    loss: Loss = "margin"
    formula: Literal["paper", "released"] = "paper"

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset, such as samples around twice a padded input."""
        problems = SearchingAttack.problems_on(self, dataset)
        if self.formula == "released" and dataset.domain in DOMAINS and DOMAINS[dataset.domain].is_padded:
            message = f"must be paper on {dataset.name}, whose inputs ({dataset.domain}) have padding, got released"
            problems.append(("formula", message))
        return problems

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all steps: pairs of samples, and no gradient."""
        return self.num_restarts * self.num_steps * 2 * self.num_samples, 0
