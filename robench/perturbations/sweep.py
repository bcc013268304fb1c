"""Declaration of sweeps: an attack at several budgets in one condition."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from robench.attacks.base import BoundedAttack
from robench.core.declared import DatasetDeclaration
from robench.core.identity import Plain, to_plain
from robench.declarations.base import DeclarationBase, FieldProblem, PerturbationBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(PerturbationBase):
    """Attack at ascending budgets, one outcome per example and budget: YAML has ``epsilons`` in place of ``epsilon``.

    Attributes:
        attacks: attacks with a budget, equal but for ``epsilon``, in ascending order of it.
        carry: examples fooled at a smaller budget are not attacked again at a larger one, but keep their adversarial
            example.

    Without ``carry``, outcomes at every budget equal those of the attack run alone.
    """

    kind: ClassVar[str] = "sweep"
    is_attack: ClassVar[bool] = True

    attacks: tuple[DeclarationBase, ...]
    carry: bool = False

    @property
    def first(self) -> BoundedAttack:
        """Return the attack at the smallest budget, which represents the properties common to all."""
        return self.at_budgets[0]

    @property
    def at_budgets(self) -> tuple[BoundedAttack, ...]:
        """Return the attack at each budget, ascending."""
        return tuple(attack for attack in self.attacks if isinstance(attack, BoundedAttack))

    @property
    def budgets_are_linked(self) -> bool:
        """Return whether the attack at one budget uses results of a smaller one."""
        return self.carry

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """Sum the passes of the attack at all budgets."""
        passes = [each for attack in self.at_budgets if (each := attack.most_passes) is not None]
        if len(passes) < len(self.at_budgets):
            return None
        return sum(forward for forward, _ in passes), sum(backward for _, backward in passes)

    @property
    def drawn_as(self) -> str:
        """Return the kind whose name seeds the random numbers: that of the attack."""
        return self.first.kind

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset, and which budgets are too large for it."""
        problems = [each for each in self.first.problems_on(dataset) if each[0] != "epsilon"]
        return problems + [
            (f"epsilons.{place}", message)
            for place, attack in enumerate(self.at_budgets)
            for field, message in attack.problems_on(dataset)
            if field == "epsilon"
        ]

    def problems_with_classes(self, num_classes: int, where: str) -> list[FieldProblem]:
        """Return why the attack needs more classes."""
        return self.first.problems_with_classes(num_classes, where)

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why the attack cannot be applied to inputs of a shape."""
        return self.first.problem_with_shape(shape)

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model, or clean inputs, that the attack cannot take."""
        self.first.check_model(model, inputs)

    @property
    def batch_dependence(self) -> str:
        """Kind and library of the attack where its outcomes depend on who shares a batch; else empty."""
        return self.first.batch_dependence

    @property
    def stops_at_success(self) -> bool:
        """Return whether examples are left alone once fooled, within a budget or at a smaller one."""
        return self.carry or self.first.stops_at_success

    @property
    def returns_published_point(self) -> bool:
        """Return whether the attack returns the same point as its published code."""
        return self.first.returns_published_point

    @property
    def clip(self) -> str:
        """Return the limits of the returned inputs."""
        return self.first.clip

    @property
    def backend(self) -> str:
        """Return the library whose code runs."""
        return self.first.backend

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: budgets must ascend, and fields must be supported by the attack."""
        strangers = [attack for attack in self.attacks if not isinstance(attack, BoundedAttack)]
        if strangers:
            kinds = dict.fromkeys(attack.kind for attack in strangers)
            return [("epsilons", f"must be of an attack with a budget, got {kind}, which has none") for kind in kinds]
        if len(self.attacks) < 2:
            return [("epsilons", f"must have at least 2 entries, got {len(self.attacks)}; one budget is an epsilon")]
        problems = _order_problems([attack.epsilon for attack in self.at_budgets])
        if any(_but_epsilon(to_plain(attack)) != _but_epsilon(to_plain(self.first)) for attack in self.at_budgets):
            problems.append(("attacks", "must be equal except for epsilon, got different attacks"))
        return problems + self._carry_problems()

    def _carry_problems(self) -> list[FieldProblem]:
        if not self.carry:
            return []
        problems = []
        if self.first.labels == "predicted":
            problems.append(("carry", "must be false with labels predicted: fooled refers to the true class"))
        if (returns := self.first.returns) != "best":
            problems.append(("carry", f"must be false with returns {returns}: a smaller budget returned another point"))
        return problems


def _order_problems(epsilons: list[Fraction]) -> list[FieldProblem]:
    return [
        ("epsilons", f"must ascend, got {epsilon}{' twice' if epsilon == before else f' after {before}'}")
        for before, epsilon in pairwise(epsilons)
        if epsilon <= before
    ]


def _but_epsilon(plain: Plain) -> Plain:
    if isinstance(plain, dict):
        return {name: _but_epsilon(value) for name, value in plain.items() if name != "epsilon"}
    return [_but_epsilon(item) for item in plain] if isinstance(plain, list) else plain
