"""The audit that goes with every suite of attacks: fixed probes of each model, whatever the suite's own budgets."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt, Le

from robench.core.suite import Condition
from robench.declarations.base import DeclarationBase
from robench.declarations.perturbations import is_attack

if TYPE_CHECKING:
    from robench.core.suite import Suite

AUDIT_EXAMPLES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(DeclarationBase):
    """The input as it is, and beside its outcomes the flags of ``evaluation.audit``.

    Attributes:
        epsilon: budget of the probes in l-infinity, in pixel units.
    """

    kind: ClassVar[str] = "audit"
    version: ClassVar[int] = 3

    epsilon: Annotated[Fraction, Gt(0), Le(1)] = Fraction(8, 255)


def audits_of(suite: Suite) -> tuple[Condition, ...]:
    """Return the audit of each dataset on which a suite attacks, to be measured in one batch of its own size."""
    attacked = [each.dataset for each in suite.conditions if is_attack(each.perturbation)]
    return tuple(
        Condition(name=f"audit-{dataset}", dataset=dataset, perturbation=Audit(), num_examples=AUDIT_EXAMPLES)
        for dataset in (dict.fromkeys(attacked) if suite.audit else ())
    )
