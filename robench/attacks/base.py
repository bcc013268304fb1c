"""Base classes of attacks: all, minimum-norm ones, those within a budget, and those of several points."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.backends.served import Backend, backend_problems
from robench.core.identity import to_plain
from robench.core.suite import ThreatModel
from robench.declarations.base import LARGEST, FieldProblem, FieldsError
from robench.declarations.perturbation_base import PerturbationBase
from robench.domains import DOMAINS
from robench.tasks import TASKS

if TYPE_CHECKING:
    from robench.core.declared import DatasetDeclaration, PerturbationDeclaration
    from robench.core.identity import Plain

Epsilon = Annotated[Fraction, Ge(0), Le(LARGEST)]
StepSize = Annotated[Fraction | None, Gt(0), Le(LARGEST)]
Count = Annotated[int, Ge(1), Le(LARGEST)]
Norm = Literal["linf", "l2", "l1"]
Stop = Literal["never", "at_success"]
# The objective is that of the task, whatever it is: cross-entropy in classification.
Loss = Literal["ce", "margin", "dlr", "objective"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack(PerturbationBase):
    """A perturbation chosen against the victim.

    ``implementation`` names a function ``(declaration, problem) -> Reached`` (``attacks.problem``).

    Attributes:
        reads_outputs: the model is asked; noise asks it nothing.
        space: where budgets, steps and distances are meant: pixels in [0, 1], or pixels after the victim's mean and
            standard deviation (``normalised``), as in the code of some papers.
        clip: cut to the domain's limits, [0, 1] of pixels (``box``), or not at all (``none``): what comes back may then
            be no image; or all points of the budget, the clean input too, cut to [0, 1] after normalisation (``unit``),
            as attacks that are written for images cut inputs that are already normalised. A value that lies outside by
            more than the budget can then take the nearest limit alone.
        labels: what the attack moves away from: the true classes, or the victim's own clean predictions
            (``predicted``), as in cleverhans' default.
        backend: whose code runs: robench's own, or a library's (``backends.served`` says which has what).
        gradients: of the model as its code has them (``own``); or also through the inner optimisations that it solves
            apart from the graph, such as the quadratic program of SPKDE as released (``through_solvers``).
        exact: show a library one example at a time, so that no other decides what becomes of it.
    """

    version: ClassVar[int] = 2
    is_attack: ClassVar[bool] = True
    reads_outputs: ClassVar[bool] = True

    space: Literal["pixel", "normalised"] = "pixel"
    clip: Literal["box", "none", "unit"] = "box"
    labels: Literal["true", "predicted"] = "true"
    backend: Backend = "robench"
    gradients: Literal["own", "through_solvers"] = "own"
    exact: bool = False

    def __post_init__(self) -> None:
        """Check the fields, and then whether the space has such limits and the backend can do what they say."""
        PerturbationBase.__post_init__(self)
        if self.clip == "unit" and self.space == "pixel":
            raise FieldsError([("clip", "must be box with space pixel, where that is [0, 1], got unit")])
        if self.clip == "unit" and self.budget[0] != "linf":
            raise FieldsError([("norm", f"must be linf with clip unit, got {self.budget[0]}")])
        if problems := backend_problems(self):
            raise FieldsError(problems)

    @property
    def loss(self) -> str:
        """Name of what is to rise; empty for attacks that have no field of this name."""
        return ""

    def problem_on(self, dataset: DatasetDeclaration) -> str:
        """Return what keeps the attack from a dataset: its inputs have no small changes, or its task not this loss."""
        domain, task = DOMAINS.get(dataset.domain), TASKS.get(dataset.task)
        if domain is None or task is None:
            # Whoever names an unknown one is told so by name.
            return ""
        if not domain.is_real_valued:
            return f"must be no {self.kind} on {dataset.name}, whose inputs ({dataset.domain}) have no small changes"
        # Without a field for the loss, what is read are scores of classes.
        needed = self.loss.removesuffix("-targeted") or "margin"
        if self.reads_outputs and needed not in ("objective", *task.losses):
            wanted = "have loss objective" if self.loss else f"be another attack than {self.kind}"
            return f"must {wanted} on {dataset.name}, whose task is {dataset.task}"
        return ""

    @property
    def stop(self) -> Stop:
        """Whether an example is left alone once it is fooled; attacks that can have a field of this name."""
        return "never"

    @property
    def stops_at_success(self) -> bool:
        """Whether examples are left alone once they are fooled."""
        return self.stop == "at_success"

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """Largest number of forward and backward passes, where an attack tells; none of what asks the model nothing."""
        return None if self.reads_outputs else (0, 0)

    @property
    def is_batch_dependent(self) -> bool:
        """Whether an example's outcome may depend on the others of its batch."""
        return self.backend != "robench" and not self.exact

    @property
    def batch_dependence(self) -> str:
        """Kind and library of an attack whose outcomes depend on who shares a batch; else empty."""
        return f"{self.kind} by {self.backend}" if self.is_batch_dependent else ""

    @property
    def budget(self) -> tuple[Norm, float]:
        """Norm and radius of what may be searched: everything, for minimum-norm attacks."""
        return "linf", float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumNormAttack(Attack):
    """An attack without a budget, which looks for the nearest adversarial example in ``search_norm``."""

    is_minimum_norm: ClassVar[bool] = True

    @property
    def search_norm(self) -> Norm:
        """Norm in which the nearest is meant."""
        return "l2"

    @property
    def limits(self) -> tuple[float, float] | None:
        """Values of the attack's space that the clean input is cut to first, and all points with it; None for none."""
        return None

    @property
    def seeks_label(self) -> bool:
        """Whether a point succeeds where the model predicts the label, and not another class."""
        return False

    def distance_problem(self) -> str:
        """Return what keeps the attack from telling how far examples are from falling, such as ``with ...``."""
        if self.labels == "predicted":
            return "with labels predicted, whose distances say nothing of the true classes"
        if self.backend != "robench":
            return f"with backend {self.backend}, which moves what is wrong already"
        if self.stops_at_success:
            return "with stop at_success, which leaves an example before its nearest is found"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedAttack(Attack):
    """An attack that stays within ``epsilon`` of the clean input in ``norm``, in units of its space.

    Attributes:
        norms: those that this kind of attack is written for.
        budget_fields: the budget, and what is stated in proportion to it.
        length_field: number of steps of one search; None where it has no such field.
    """

    norms: ClassVar[tuple[Norm, ...]] = ("linf",)
    budget_fields: ClassVar[tuple[str, ...]] = ("epsilon",)
    length_field: ClassVar[str | None] = None

    epsilon: Epsilon
    norm: Norm = "linf"

    @property
    def returns(self) -> str:
        """Point that is returned; attacks that can choose have a field of this name."""
        return "best"

    @property
    def returns_published_point(self) -> bool:
        """Whether the point that the attack's own published code leaves is returned."""
        return self.returns == "published"

    @property
    def budget(self) -> tuple[Norm, float]:
        """Norm and radius of what may be searched."""
        return self.norm, float(self.epsilon)

    @property
    def threat_model(self) -> ThreatModel:
        """What the attacker may do."""
        return ThreatModel(norm=self.norm, epsilon=self.epsilon, space=self.space, clip=self.clip, labels=self.labels)

    def is_same_at_another_budget(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack but for its budget, and what scales with it."""
        return fields_but(self, *self.budget_fields) == fields_but(other, *self.budget_fields)

    def is_twice_as_long_as(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack with at most half as many steps."""
        name = self.length_field
        if name is None or fields_but(self, name) != fields_but(other, name):
            return False
        longer: bool = getattr(self, name) >= 2 * getattr(other, name)
        return longer

    def contradictions(self) -> list[FieldProblem]:
        """A norm that this attack is not written for; in pixel space no value moves by more than 1."""
        problems: list[FieldProblem] = []
        if self.norm not in self.norms:
            problems.append(("norm", f"must be {' or '.join(self.norms)} for {self.kind}, got {self.norm}"))
        if self.norm == "linf" and self.space == "pixel" and self.epsilon > 1:
            problems.append(("epsilon", f"must be at most 1 in pixel space, got {self.epsilon}; such as 8/255"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchingAttack(BoundedAttack):
    """A bounded attack that visits several points.

    Attributes:
        num_restarts: searches from different starts; an example keeps the best of all.
        returns: of the points visited, the one of highest loss, those that fool the victim before all others
            (``best``); each search's ``last``, as in the papers' code; or the point that the attack's own published
            code leaves (``published``): the last point that fooled the victim in the first search that did, and the
            clean input where none did or where it is misclassified itself.
        stop: search on to the end (``never``), or leave an example alone once it is fooled (``at_success``): quicker,
            but loss, confidence and top-5 of a fooled example then say nothing, and are not kept, unless ``returns``
            is ``published``: they are then of that point, and no worst case.
        published_stop: ``stop`` of the attack's own published code; None where ``returns`` has no such value.
    """

    published_stop: ClassVar[Stop | None] = None

    num_restarts: Count = 1
    returns: Literal["best", "last", "published"] = "best"
    stop: Stop = "never"

    def contradictions(self) -> list[FieldProblem]:
        """What leaves at success is kept as it was then: not the last point, and wrong about the true class."""
        problems = BoundedAttack.contradictions(self)
        if self.stop == "at_success" and self.returns == "last":
            problems.append(("returns", "must be best with stop at_success, got last"))
        if self.stop == "at_success" and self.labels == "predicted":
            problems.append(("labels", "must be true with stop at_success, got predicted"))
        if self.returns == "published" and self.published_stop is None:
            problems.append(("returns", f"must be best or last for {self.kind}, got published"))
        elif self.returns == "published" and self.stop != self.published_stop:
            problems.append(
                (
                    "stop",
                    f"must be {self.published_stop} with returns published, as in the code of {self.kind}, "
                    f"got {self.stop}",
                )
            )
        return problems


def fields_but(attack: PerturbationDeclaration, *names: str) -> dict[str, Plain]:
    """Return kind, version and fields of an attack without those that are named."""
    plain = to_plain(attack)
    assert isinstance(plain, dict)  # of a dataclass
    return {name: value for name, value in plain.items() if name not in names}
