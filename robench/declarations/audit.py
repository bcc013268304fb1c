"""The audit that goes with every suite of attacks: fixed probes of each model, whatever the suite's own budgets."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt, Le

from robench.core.suite import Condition
from robench.declarations.perturbation_base import PerturbationBase

if TYPE_CHECKING:
    from robench.core.suite import Suite

AUDIT_EXAMPLES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(PerturbationBase):
    """The input as it is, and beside its outcomes the flags of ``evaluation.audit``.

    Attributes:
        epsilon: budget of the probes in l-infinity, in pixel units.
    """

    kind: ClassVar[str] = "audit"
    version: ClassVar[int] = 3
    implementation: ClassVar[str] = "robench.perturbations.clean_impl:clean"
    makes_inputs: ClassVar[bool] = False

    epsilon: Annotated[Fraction, Gt(0), Le(1)] = Fraction(8, 255)


def audits_of(suite: Suite) -> tuple[Condition, ...]:
    """Return the audit of each dataset on which a suite attacks, to be measured in one batch of its own size."""
    attacked = [each.dataset for each in suite.conditions if each.perturbation.is_attack]
    return tuple(
        Condition(name=f"audit-{dataset}", dataset=dataset, perturbation=Audit(), num_examples=AUDIT_EXAMPLES)
        for dataset in (dict.fromkeys(attacked) if suite.audit else ())
    )
