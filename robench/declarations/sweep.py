"""An attack at several budgets in one condition."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

from robench.core.identity import to_plain
from robench.declarations.apgd_attack import Apgd
from robench.declarations.attack_base import BoundedAttack
from robench.declarations.attacks import Pgd
from robench.declarations.base import DeclarationBase
from robench.declarations.sparse_l1_attack import SparseL1
from robench.declarations.spsa_attack import Spsa

if TYPE_CHECKING:
    from fractions import Fraction

    from robench.core.identity import Plain
    from robench.declarations.backends import Backend

WARM = (Pgd, Apgd, Spsa, SparseL1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(DeclarationBase):
    """One attack at rising budgets, an outcome an example and budget: ``epsilons`` in place of ``epsilon`` in YAML.

    Attributes:
        attacks: attacks with a budget, equal but for ``epsilon``, in ascending order of it.
        carry: what a smaller budget has fooled is not attacked again by a larger one; its adversarial example is the
            larger one's too.
        warm_start: the first search at a budget begins at what the budget before returned, not at its usual start.

    Without ``carry`` and ``warm_start`` every budget has the outcomes that the attack alone has at it.
    """

    kind: ClassVar[str] = "sweep"

    attacks: tuple[DeclarationBase, ...]
    carry: bool = False
    warm_start: bool = False

    @property
    def bounded(self) -> tuple[BoundedAttack, ...]:
        """The attacks, known to have a budget."""
        return tuple(attack for attack in self.attacks if isinstance(attack, BoundedAttack))

    @property
    def first(self) -> BoundedAttack:
        """The attack at the smallest budget, which speaks for what is the same in all."""
        return self.bounded[0]

    @property
    def backend(self) -> Backend:
        """Whose code runs."""
        return self.first.backend

    @property
    def stop(self) -> Literal["never", "at_success"]:
        """Whether examples are left alone once they are fooled, within a budget or by a smaller one."""
        return "at_success" if self.carry or getattr(self.first, "stop", "never") == "at_success" else "never"

    def contradictions(self) -> list[str]:
        """Several budgets that rise; fields that the attack at them can keep to."""
        strangers = [attack for attack in self.attacks if not isinstance(attack, BoundedAttack)]
        if strangers:
            kinds = dict.fromkeys(attack.kind for attack in strangers)
            return [f"epsilons must be of an attack with a budget, got {kind}, which has none" for kind in kinds]
        if len(self.attacks) < 2:
            return [f"epsilons must have at least 2 entries, got {len(self.attacks)}; one budget is an epsilon"]
        problems = _order_problems([attack.epsilon for attack in self.bounded])
        if any(_but_epsilon(to_plain(attack)) != _but_epsilon(to_plain(self.first)) for attack in self.bounded):
            problems.append("attacks must be equal but for epsilon, got others")
        return problems + self._carry_problems() + self._warm_start_problems()

    def _carry_problems(self) -> list[str]:
        if not self.carry:
            return []
        problems = []
        if self.first.labels == "predicted":
            problems.append("carry must be false with labels predicted: what is fooled is wrong of the true class")
        if (returns := getattr(self.first, "returns", "best")) != "best":
            problems.append(f"carry must be false with returns {returns}: a smaller budget returned another point")
        return problems

    def _warm_start_problems(self) -> list[str]:
        if not self.warm_start:
            return []
        if not isinstance(self.first, WARM):
            able = ", ".join(each.kind for each in WARM)
            return [f"warm_start must be false for {self.first.kind}, which begins where it does ({able} can)"]
        if self.backend != "robench":
            return [f"warm_start must be false with backend {self.backend}, which begins where it does"]
        return []


def _order_problems(epsilons: list[Fraction]) -> list[str]:
    return [
        f"epsilons must ascend, got {epsilon}{' twice' if epsilon == before else f' after {before}'}"
        for before, epsilon in pairwise(epsilons)
        if epsilon <= before
    ]


def _but_epsilon(plain: Plain) -> Plain:
    """Return an attack without its budget, and so its members."""
    if isinstance(plain, dict):
        return {name: _but_epsilon(value) for name, value in plain.items() if name != "epsilon"}
    return [_but_epsilon(item) for item in plain] if isinstance(plain, list) else plain
