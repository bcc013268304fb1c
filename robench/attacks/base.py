"""Base classes of attacks: common fields, bounded attacks, and attacks with several restarts."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.backends.served import Backend, backend_problems, only_values
from robench.attacks.gradients import PLAIN_GRADIENTS, Gradients, check_gradients
from robench.core.budgets import Support, ThreatModel
from robench.core.declared import DatasetDeclaration, PerturbationDeclaration, classes_text
from robench.core.identity import Plain, to_plain
from robench.core.shard import NUM_LEVELS
from robench.declarations.base import LARGEST, FieldProblem, FieldsError, PerturbationBase
from robench.domains import DOMAINS, Domain
from robench.tasks import TASKS, Task

Epsilon = Annotated[Fraction, Ge(0), Le(LARGEST)]
StepSize = Annotated[Fraction | None, Gt(0), Le(LARGEST)]
Count = Annotated[int, Ge(1), Le(LARGEST)]
Norm = Literal["linf", "l2", "l1"]
Stop = Literal["never", "at_success"]
# Limits that other libraries' attacks assume.
UNIT_INTERVAL = (0.0, 1.0)
# The objective of the task: cross-entropy in classification. Each is a loss of one task or several (``Task.losses``).
Loss = Literal["ce", "margin", "dlr", "objective", "segpgd", "cospgd", "masked-ce", "balanced-ce", "js"]
PLAIN = ("ce", "objective")
# Losses whose weights depend on the number of the step.
SCHEDULED = ("segpgd",)
# Smallest number of classes of losses that need more than two.
CLASSES_NEEDED = {"dlr": 3, "dlr-targeted": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack(PerturbationBase):
    """Perturbation chosen adversarially.

    ``implementation`` names a function ``(declaration, problem) -> Reached`` (``attacks.problem``).

    Attributes:
        reads_outputs: whether the attack queries the model; noise does not.
        sees_labels_alone: whether it gets the model's class alone (hard-label): its implementation is a function
            ``(declaration, problem: LabelProblem) -> Reached`` (``attacks.label_problem``).
        needs_limits: whether the attack begins between the limits of inputs, which must exist.
        length_field: name of the field with the number of steps or queries of one search; None without one.
        needed_axes: axes of the inputs that the attack works on, such as those of images; () for inputs of any shape.
        space: space of budgets, steps and distances: that of the dataset's inputs, such as pixels in [0, 1]; or inputs
            normalised by the victim's mean and standard deviation (``normalised``), as in the code of some papers.
        clip: clip to the domain's limits, [0, 1] for pixels (``box``), or not at all (``none``), so that the result may
            not be a valid image; or clip all points, including the clean input, to [0, 1] after normalisation
            (``unit``), as attacks written for images do with inputs that are already normalised. A value outside by
            more than the budget is then set to the nearest limit.
        pixels: any values (``real``); or only those of files with 8 bits a value (``8bit``): points are rounded toward
            the clean levels, within the budget, and then scored; those of minimum-norm attacks to the nearest level.
        labels: labels that the attack moves away from: the true classes, or the victim's own clean predictions
            (``predicted``), as in cleverhans' default.
        backend: implementation that runs: robench's own, or a library's (see ``backends.served``).
        gradients: gradients as defined by the model's code (``own``), or others of the same outputs that some
            mechanisms have, such as ``through_solvers`` of SPKDE as released (formulas: docs/protocols.md).
        exact: whether to pass a library one example at a time, so that no other example affects the outcome.
        follows_schedules: whether losses may depend on the number of the step.
    """

    version: ClassVar[int] = 2
    is_attack: ClassVar[bool] = True
    reads_outputs: ClassVar[bool] = True
    sees_labels_alone: ClassVar[bool] = False
    needs_limits: ClassVar[bool] = False
    length_field: ClassVar[str | None] = None
    needed_axes: ClassVar[tuple[str, ...]] = ()
    follows_schedules: ClassVar[bool] = False

    space: Literal["input", "normalised"] = "input"
    clip: Literal["box", "none", "unit"] = "box"
    pixels: Literal["real", "8bit"] = "real"
    labels: Literal["true", "predicted"] = "true"
    backend: Backend = "robench"
    gradients: Gradients = "own"
    exact: bool = False

    @classmethod
    def completed(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return the fields for ``robench.attack``, with usual values of required ones that are not given."""
        return given

    @classmethod
    def implied_by(cls, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the fields that have one value alone with the given backend."""
        names = {field.name for field in fields(cls)}
        return {name: value for name, value in only_values(given.get("backend"), cls.kind).items() if name in names}

    def __post_init__(self) -> None:
        """Check the fields, and then whether space, limits and backend are compatible."""
        PerturbationBase.__post_init__(self)
        if self.clip == "unit" and self.space == "input":
            raise FieldsError([("clip", "must be box with space input, where that is [0, 1], got unit")])
        if self.clip != "box" and self.pixels == "8bit":
            raise FieldsError([("clip", f"must be box with pixels 8bit, got {self.clip}")])
        if self.clip == "none" and self.needs_limits:
            raise FieldsError([("clip", f"must be box or unit for {self.kind}, which needs limits, got none")])
        if self.clip == "unit" and self.budget[0] != "linf":
            raise FieldsError([("norm", f"must be linf with clip unit, got {self.budget[0]}")])
        if self.loss in SCHEDULED and not self.follows_schedules:
            wanted = f"must be another one for {self.kind}: the weights of {self.loss} depend on the step of a pgd"
            raise FieldsError([("loss", wanted)])
        if problems := backend_problems(self):
            raise FieldsError(problems)

    @property
    def loss(self) -> str:
        """Return the name of the loss to maximise; empty for attacks without this field."""
        return ""

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset: domain, task, number of classes, or a large budget."""
        domain, task = DOMAINS.get(dataset.domain), TASKS.get(dataset.task)
        if domain is None or task is None:  # unknown names are reported elsewhere
            return []
        subject = f"must be no {self.kind} on {dataset.name}, whose inputs ({dataset.domain})"
        if not domain.is_real_valued:
            return [("", f"{subject} have no small changes")]
        if self.needed_axes not in ((), domain.axes):
            axes, needed = (", ".join(each) or "unknown" for each in (domain.axes, self.needed_axes))
            return [("", f"{subject} have the axes {axes}; it needs {needed}")]
        if self.backend != "robench" and domain.limits != UNIT_INTERVAL:
            message = f"must be robench on {dataset.name}, whose inputs ({dataset.domain}) are not limited to [0, 1]"
            return [("backend", f"{message}, got {self.backend}")]
        if self.pixels == "8bit" and domain.levels != NUM_LEVELS:
            return [("pixels", f"must be real on {dataset.name}, whose inputs ({dataset.domain}) have no levels")]
        if domain.is_padded and self.space != "input":
            message = f"must be input on {dataset.name}, whose inputs ({dataset.domain}) have padding, got {self.space}"
            return [("space", message)]
        if self.reads_outputs and (problems := self._problems_on_task(task, dataset.name)):
            return problems
        classes = dataset.num_classes
        if classes is not None and (
            problems := self.problems_with_classes(classes, classes_text(dataset.name, classes))
        ):
            return problems
        return self.problems_of_budget(domain)

    def problems_with_classes(self, num_classes: int, where: str) -> list[FieldProblem]:
        """Return why the attack needs more classes: its loss does, or every attack."""
        if num_classes < 2 and self.reads_outputs:
            return [("", f"must be no {self.kind} {where}")]
        needed = CLASSES_NEEDED.get(self.loss, 0)
        return [("loss", f"must be ce or margin {where}: {self.loss} needs at least {needed}")][: num_classes < needed]

    def _problems_on_task(self, task: Task, dataset: str) -> list[FieldProblem]:
        where = f"on {dataset}, whose task is {task.name}"
        # Attacks without a loss read class scores.
        needed = self.loss.removesuffix("-targeted") or "margin"
        losses = ("objective", *task.losses)
        if needed not in losses:
            has_field = any(field.name == "loss" for field in fields(self))
            wanted = f"have loss {' or '.join(losses)}" if has_field else f"be another attack than {self.kind}"
            reason = f": its examples have no class of their own, and no {needed}" if task.verdict is None else ""
            return [("", f"must {wanted} {where}{reason}")]
        if task.verdict is not None:
            return []
        problems: list[FieldProblem] = []
        if self.stops_at_success:
            problems.append(("stop", f"must be never {where}: no example is fooled as a whole, got at_success"))
        if self.returns_published_point:
            problems.append(
                ("returns", f"must be best or last {where}: no example is fooled as a whole, got published")
            )
        if self.backend != "robench":
            problems.append(("backend", f"must be robench {where}: libraries attack classifiers, got {self.backend}"))
        return problems

    def problems_of_budget(self, domain: Domain) -> list[FieldProblem]:
        """Return why the budget cannot be meant in a domain, or limits are missing that an attack without one needs."""
        if self.needs_limits and domain.limits is None:
            return [("", f"must be no {self.kind} on inputs ({domain.name}) without limits, between which it begins")]
        return []

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model without the attack's gradients, and images of other than 8 bits if the attack returns such."""
        check_gradients(self.gradients, model)
        if self.pixels == "8bit":
            from robench.attacks.levels import levels_of

            levels_of(inputs)

    @property
    def follows_plain_loss(self) -> bool:
        """Return whether the attack maximises the cross-entropy, or the task's objective."""
        return self.loss in PLAIN

    @property
    def knows_mechanism(self) -> bool:
        """Return whether the attack follows gradients of a mechanism other than its own."""
        return self.gradients not in PLAIN_GRADIENTS

    @property
    def stop(self) -> Stop:
        """Return the stopping rule; attacks that support early stopping have a field of this name."""
        return "never"

    @property
    def stops_at_success(self) -> bool:
        """Return whether the attack uses early stopping: fooled examples are not attacked further."""
        return self.stop == "at_success"

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """Return no passes for attacks that do not run the model; None for others, unless they override it."""
        return None if self.reads_outputs else (0, 0)

    @property
    def length(self) -> tuple[str, int, Plain] | None:
        """Return name and value of the field with the steps or queries of one search, and all but it."""
        name = self.length_field
        return None if name is None else (name, getattr(self, name), fields_but(self, name))

    @property
    def is_batch_dependent(self) -> bool:
        """Return whether an example's outcome may depend on the other examples of its batch."""
        return self.backend != "robench" and not self.exact

    @property
    def batch_dependence(self) -> str:
        """Return kind and library if outcomes depend on the other examples of a batch; otherwise empty."""
        return f"{self.kind} by {self.backend}" if self.is_batch_dependent else ""

    @property
    def budget(self) -> tuple[Norm, float]:
        """Return norm and radius of the search region: unbounded for minimum-norm attacks."""
        return "linf", float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedAttack(Attack):
    """Attack that stays within ``epsilon`` of the clean input in ``norm``, in units of its space.

    Attributes:
        norms: supported norms.
        budget_fields: names of the fields that scale with the budget.
        epsilon: largest distance from the clean input, in units of ``space``.
        norm: norm of that distance.
    """

    norms: ClassVar[tuple[Norm, ...]] = ("linf",)
    budget_fields: ClassVar[tuple[str, ...]] = ("epsilon",)

    epsilon: Epsilon
    norm: Norm = "linf"

    @property
    def returns(self) -> str:
        """Return the choice of the returned point; attacks that offer a choice have a field of this name."""
        return "best"

    @property
    def returns_published_point(self) -> bool:
        """Return whether the attack returns the same point as its published code."""
        return self.returns == "published"

    @property
    def budget(self) -> tuple[Norm, float]:
        """Return norm and radius of the search region."""
        return self.norm, float(self.epsilon)

    @property
    def support(self) -> Support | None:
        """Return the places that may change; None for all."""
        return None

    @property
    def threat_model(self) -> ThreatModel:
        """Return the threat model."""
        where = {"space": self.space, "clip": self.clip, "pixels": self.pixels}
        return ThreatModel(norm=self.norm, epsilon=self.epsilon, labels=self.labels, support=self.support, **where)

    def is_same_at_another_budget(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack except for its budget and the fields that scale with it."""
        return fields_but(self, *self.budget_fields) == fields_but(other, *self.budget_fields)

    @property
    def per_budget(self) -> Plain:
        """Return kind, version and fields without the budget, with lengths in proportion to it divided by it."""
        lengths = {name: getattr(self, name) for name in self.budget_fields if name != "epsilon"}
        return fields_but(self, *self.budget_fields) | {
            name: str(length / self.epsilon) if self.epsilon and isinstance(length, Fraction) else to_plain(length)
            for name, length in lengths.items()
        }

    def is_twice_as_long_as(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack with at most half as many steps."""
        name = self.length_field
        if name is None or fields_but(self, name) != fields_but(other, name):
            return False
        longer: bool = getattr(self, name) >= 2 * getattr(other, name)
        return longer

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: the norm must be supported."""
        if self.norm in self.norms:
            return []
        return [("norm", f"must be {' or '.join(self.norms)} for {self.kind}, got {self.norm}")]

    def problems_of_budget(self, domain: Domain) -> list[FieldProblem]:
        """Return the problem of a budget in the space of inputs that is larger than their range."""
        problem = domain.budget_problem(self.norm, self.epsilon) if self.space == "input" else ""
        return [("epsilon", problem)] if problem else []


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchingAttack(BoundedAttack):
    """Bounded attack that visits several points.

    Attributes:
        num_restarts: number of searches from different starting points; an example keeps the best of all.
        returns: the visited point of highest loss, with preference for points that fool the victim (``best``); each
            search's ``last`` point, as in the papers' code; or the point that the attack's own published code returns
            (``published``): the last point that fooled the victim in the first successful search, or the clean input if
            none succeeded or if it is already misclassified.
        stop: search to the end (``never``), or stop early once an example is fooled (``at_success``): faster, but loss,
            confidence and top-5 of fooled examples are then meaningless and not recorded, unless ``returns`` is
            ``published``: they then describe that point, not a worst case.
        published_stop: ``stop`` of the attack's own published code; None if ``returns`` does not support it.
    """

    published_stop: ClassVar[Stop | None] = None

    num_restarts: Count = 1
    returns: Literal["best", "last", "published"] = "best"
    stop: Stop = "never"

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: early stopping excludes returning the last point and needs true labels."""
        problems = BoundedAttack.contradictions(self)
        if self.stop == "at_success" and self.returns == "last":
            problems.append(("returns", "must be best with stop at_success, got last"))
        if self.stop == "at_success" and self.labels == "predicted":
            problems.append(("labels", "must be true with stop at_success, got predicted"))
        if self.returns == "published" and self.published_stop is None:
            problems.append(("returns", f"must be best or last for {self.kind}, got published"))
        elif self.returns == "published" and self.stop != self.published_stop:
            wanted = f"must be {self.published_stop} with returns published, as in the code of {self.kind}"
            problems.append(("stop", f"{wanted}, got {self.stop}"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientAscent(SearchingAttack):
    """Bounded attack with one gradient a step.

    Attributes:
        num_steps: number of steps of one search.
        num_draws: number of forward passes of a gradient, for victims that draw random numbers.
        over_draws: gradient, outputs and loss are means over the draws (``mean``), or those of each example's draw of
            the lowest loss (``worst``): ascent on min_s L(f(x; s), y), toward points that fool the victim at all draws.
            ``probability`` ascends -log mean_s exp(-L), which with the cross-entropy lowers the mean probability of the
            class: the attack on smoothed models of Salman et al. 2019 (SmoothAdv), with new draws at each step.
    """

    length_field: ClassVar[str | None] = "num_steps"

    num_steps: Count
    num_draws: Count = 1
    over_draws: Literal["mean", "worst", "probability"] = "mean"

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: the worst of several draws needs them, and no library has it."""
        reason = "num_draws 1" if self.num_draws == 1 else f"backend {self.backend}"
        is_refused = self.over_draws != "mean" and reason != "backend robench"
        problem = [("over_draws", f"must be mean with {reason}, got {self.over_draws}")] if is_refused else []
        return SearchingAttack.contradictions(self) + problem

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all steps: one gradient per step."""
        num_gradients = self.num_restarts * self.num_steps * self.num_draws
        return num_gradients, num_gradients


def fields_but(attack: PerturbationDeclaration, *names: str) -> dict[str, Plain]:
    """Return kind, version and fields of an attack, excluding the named ones."""
    plain = to_plain(attack)
    assert isinstance(plain, dict)  # of a dataclass
    return {name: value for name, value in plain.items() if name not in names}
