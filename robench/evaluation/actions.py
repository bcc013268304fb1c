"""Declarations of the actions besides ``core.suite.Predict``: auditing and rescoring, without torch.

Both keep the identity from when they were perturbations, so that their records keep their keys.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from robench.core.declared import PerturbationDeclaration
from robench.core.identity import Plain, to_plain
from robench.core.suite import Action, Condition, Suite
from robench.declarations.base import LARGEST, DeclarationBase
from robench.domains import DOMAINS
from robench.perturbations.clean import Clean
from robench.tasks import TASKS

AUDIT_EXAMPLES = 32
# Examples of a shard, on any number of workers.
AUDIT_SHARD = 8
# Forward and backward passes of an example in all probes of ``evaluation.probe``; not in attacks that an audit chooses
# where a check is raised (``evaluation.chosen_attacks``), which change no other check: the version is not about them.
AUDIT_PASSES = (1200, 600)
# The same without comparisons.
FEW_PASSES = (430, 320)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(DeclarationBase, Action):
    """Audit of a model: predictions of clean examples, and the flags of ``evaluation.audit`` for fixed probes.

    Attributes:
        epsilon: budget of the probes in l-infinity, in units of the inputs.
        compares: whether attacks are compared with each other, which tells nothing of very few examples; the examples
            of a shard decide it, and no identity has it.
    """

    kind: ClassVar[str] = "audit"
    version: ClassVar[int] = 4
    implementation: ClassVar[str] = "robench.evaluation.audit:audit_shard"
    runs_attack: ClassVar[bool] = False
    goes_first: ClassVar[bool] = True

    epsilon: Annotated[Fraction, Gt(0), Le(LARGEST)] = Fraction(8, 255)
    compares: bool = True

    def identity_with(self, perturbation: PerturbationDeclaration) -> Plain:
        """Return the audit alone: its inputs are always clean."""
        return to_plain(replace(self, compares=True))

    def most_passes(self, perturbation: PerturbationDeclaration) -> tuple[int, int]:
        """Return the passes of the probes."""
        return AUDIT_PASSES if self.compares else FEW_PASSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescore(DeclarationBase, Action):
    """Rescoring of stored adversarial examples made against another model; see ``robench transfer``.

    The condition's perturbation is the attack that made them, at one budget; they must respect its threat model.

    Attributes:
        source: key of the measurement that made them.
        budget: budget within a sweep, such as ``4/255``; None if the measurement has only one.
        mean, std: normalisation of the attacked model, per channel, which may define the unit of the attack's budget.
    """

    kind: ClassVar[str] = "transferred"
    implementation: ClassVar[str] = "robench.evaluation.rescore:rescore_shard"
    runs_attack: ClassVar[bool] = False

    source: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    budget: str | None = None

    def identity_with(self, perturbation: PerturbationDeclaration) -> Plain:
        """Return the action's fields and the attack."""
        plain = to_plain(self)
        assert isinstance(plain, dict)  # of a dataclass
        return plain | {"attack": to_plain(perturbation)}

    def most_passes(self, perturbation: PerturbationDeclaration) -> tuple[int, int]:
        """Return none: the attack has run."""
        return 0, 0


def audits_of(suite: Suite) -> tuple[Condition, ...]:
    """Return the audit of each dataset that a suite attacks, measured with a batch size of its own.

    Tasks without audit checks have none, nor have domains without a budget for it, such as texts, nor datasets
    whose examples have several sizes and form no batch.
    """
    is_audited = suite.audit and TASKS[suite.task].is_audited
    attacked = [each.dataset for each in suite.conditions if each.perturbation.is_attack]
    return tuple(
        Condition(
            name=f"audit-{dataset.name}",
            dataset=dataset,
            perturbation=Clean(),
            action=Audit(epsilon=epsilon),
            num_examples=AUDIT_EXAMPLES,
        )
        for dataset in dict.fromkeys(attacked)
        if is_audited and dataset.has_one_size and (epsilon := DOMAINS[dataset.domain].audit_epsilon) is not None
    )
