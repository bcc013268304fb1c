"""All perturbations by kind, and the one that does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from robench.declarations.apgd_attack import Apgd
from robench.declarations.attack_base import Attack, BoundedAttack
from robench.declarations.attacks import Fgsm, GaussianNoise, Pgd, UniformNoise
from robench.declarations.autoattack import AutoAttack
from robench.declarations.base import DeclarationBase
from robench.declarations.corruptions import Corruption
from robench.declarations.cw_attack import Cw
from robench.declarations.fab_attack import Fab
from robench.declarations.sparse_l1_attack import SparseL1
from robench.declarations.spsa_attack import Spsa
from robench.declarations.square_attack import Square
from robench.declarations.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.protocols import Declaration
    from robench.core.suite import ThreatModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean(DeclarationBase):
    """The input as it is: clean accuracy is robustness to nothing."""

    kind: ClassVar[str] = "clean"


PERTURBATIONS: Mapping[str, type[DeclarationBase]] = {
    "clean": Clean,
    "uniform-noise": UniformNoise,
    "gaussian-noise": GaussianNoise,
    "fgsm": Fgsm,
    "pgd": Pgd,
    "cw": Cw,
    "fab": Fab,
    "square": Square,
    "spsa": Spsa,
    "sparse-l1": SparseL1,
    "apgd": Apgd,
    "autoattack": AutoAttack,
    "corruption": Corruption,
}


def is_attack(declaration: Declaration) -> bool:
    """Return whether inputs are changed against the victim, or within a budget as an attack's."""
    return isinstance(declaration, (Attack, Sweep))


def threat_model_of(declaration: Declaration) -> ThreatModel | None:
    """Return what the attacker may do, or None where nothing bounds the perturbation, or a sweep has several bounds."""
    return declaration.threat_model if isinstance(declaration, BoundedAttack) else None


def epsilon_of(declaration: Declaration) -> str | None:
    """Return the exact budget, such as ``4/255``, or None where there is none, or a sweep has several."""
    return str(declaration.epsilon) if isinstance(declaration, BoundedAttack) else None


def search_norm_of(declaration: Declaration) -> str | None:
    """Return the norm in which an attack without a budget means the nearest, or None of all else."""
    if not isinstance(declaration, Attack) or isinstance(declaration, BoundedAttack):
        return None
    return str(getattr(declaration, "norm", "l2"))


def drawn_as(declaration: Declaration) -> str:
    """Return the kind by whose name random numbers are drawn: a sweep meets those of its attack."""
    return declaration.first.kind if isinstance(declaration, Sweep) else declaration.kind


def batch_dependence_of(declaration: Declaration) -> str:
    """Return what to call a perturbation whose outcomes depend on who shares a batch, such as ``pgd by foolbox``.

    Empty where they do not: then an example's outcome is its own.
    """
    attack = declaration.first if isinstance(declaration, Sweep) else declaration
    if isinstance(attack, Attack) and attack.is_batch_dependent:
        return f"{attack.kind} by {attack.backend}"
    return ""


def leaves_at_success(declaration: Declaration) -> bool:
    """Return whether examples are left alone once they are fooled."""
    return getattr(declaration, "stop", "never") == "at_success"


def keeps_scores(declaration: Declaration) -> bool:
    """Return whether top-5, loss and confidence are kept beside the verdict.

    They are not where examples are left alone once they are fooled, since the attack did not do its worst; unless the
    point that the attack's published code leaves is asked for by name.
    """
    return not leaves_at_success(declaration) or leaves_published_point(declaration)


def leaves_published_point(declaration: Declaration) -> bool:
    """Return whether an attack returns the point that its own published code leaves."""
    attack = declaration.first if isinstance(declaration, Sweep) else declaration
    return getattr(attack, "returns", "best") == "published"
