"""Suites: conditions to be measured, and the columns computed from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from robench.core.declared import DatasetDeclaration, PerturbationDeclaration
from robench.core.errors import UnknownNameError, UsageError
from robench.core.identity import Plain, key_of, to_plain
from robench.core.plugins import imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """Length in a norm, in units of the inputs."""

    norm: str
    value: Fraction

    def __str__(self) -> str:
        return f"{self.norm} {float(self.value):g}"


class Action:
    """Base class of actions: what is measured on a shard's examples.

    Attributes:
        kind: name in keys.
        implementation: ``module:function`` that measures, imported on first use.
        runs_attack: whether the condition's perturbation runs against the measured model, so that its inputs are new
            and its success rate indicates its strength.
        goes_first: whether it is measured before all else of a model, so that what it finds is known early.
    """

    kind: ClassVar[str]
    implementation: ClassVar[str]
    runs_attack: ClassVar[bool] = True
    goes_first: ClassVar[bool] = False

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the function that measures: a ``core.protocols.Measure``."""
        return imported(cls.implementation)

    def identity_with(self, perturbation: PerturbationDeclaration) -> Plain:
        """Return the part of the identity given by the action and the condition's perturbation."""
        raise NotImplementedError

    def most_passes(self, perturbation: PerturbationDeclaration) -> tuple[int, int] | None:
        """Return the most forward and backward passes of an example beside its predictions; None if unknown."""
        return perturbation.most_passes


@dataclass(frozen=True, slots=True)
class Predict(Action):
    """Prediction of perturbed inputs: the action of all conditions that a suite declares."""

    kind: ClassVar[str] = "predict"
    implementation: ClassVar[str] = "robench.evaluation.evaluate:evaluate"

    def identity_with(self, perturbation: PerturbationDeclaration) -> Plain:
        """Return the perturbation alone, as in the identity of most records."""
        return to_plain(perturbation)


PREDICT = Predict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Test condition: a dataset under a perturbation, and the action that measures it.

    Attributes:
        dataset: declaration of the clean examples, with which a worker opens them; keys contain their fingerprint.
        action: what is measured.
        num_examples: number of examples, from the first; None for all.
        num_predictions: number of predictions per input, each with fixed draws; more than 1 for models that draw random
            numbers.
        negatives: for out-of-distribution examples, the condition of the in-distribution ones.
        distances: for minimum-norm attacks, the distances at which accuracy is reported; for clean examples the radii
            of certified accuracy; pixel units.
    """

    name: str
    dataset: DatasetDeclaration
    perturbation: PerturbationDeclaration
    action: Action = PREDICT
    num_examples: int | None = None
    num_predictions: int = 1
    distances: tuple[Fraction, ...] = ()
    negatives: str | None = None

    @property
    def identity(self) -> dict[str, Plain]:
        """Return the part of the condition that determines outcomes, apart from the data."""
        parts = {"perturbation": self.action.identity_with(self.perturbation)}
        return parts if self.num_predictions == 1 else parts | {"num_predictions": self.num_predictions}

    @property
    def makes_inputs(self) -> bool:
        """Return whether the scored inputs are generated here and stored nowhere else."""
        return self.action.runs_attack and self.perturbation.makes_inputs

    @property
    def budget(self) -> str | None:
        """Return the budget of the attack as written; None without one, and for sweeps."""
        threat_model = self.perturbation.threat_model
        return None if threat_model is None else threat_model.epsilon_text

    @property
    def perturbation_key(self) -> str:
        """Return 32 hexadecimal digits that distinguish conditions on the same data."""
        identity = self.identity
        return key_of(identity["perturbation"] if self.num_predictions == 1 else identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Role of a condition in a column.

    Attributes:
        name: ``measured`` for the condition that the column reports; ``clean`` for the unperturbed examples;
            ``negatives`` for the in-distribution examples of out-of-distribution detection; ``corrupted`` for one type
            at one severity.
        corruption, severity: of ``corrupted``.
    """

    name: Literal["measured", "clean", "negatives", "corrupted"] = "measured"
    corruption: str = ""
    severity: int = 0


MEASURED = Role()
CLEAN = Role(name="clean")
NEGATIVES = Role(name="negatives")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Column of a report: a metric of the outcomes of the named conditions, in their order.

    Attributes:
        conditions: names of conditions, or of single budgets of a sweep.
        roles: role of each condition; empty where all are measured.
        distance: distance of a metric within a distance, in units of the inputs, in the attack's norm.
        norm: norm of the attack, for metrics of minimum-norm attacks.
        family: family of corrupted images, such as ``imagenet-c``, for metrics over corruptions.
        unit: unit of a distance in the dataset's domain; empty for the unit of the metric.
        of_class: class of the dataset that the column is about.
        averages: types of corruption whose mean the column is, if it can be one over fewer; else ().
        group: what adjacent columns have in common, such as the attack ``pgd``; empty for a column of its own.
        setting: how it differs from others of its group, such as by the budget ``8/255``; empty beside its metric.
    """

    key: str
    label: str
    metric: str
    conditions: tuple[str, ...]
    roles: tuple[Role, ...] = ()
    distance: Distance | None = None
    norm: str | None = None
    family: str = ""
    unit: str = ""
    of_class: int | None = None
    averages: tuple[str, ...] = ()
    group: str = ""
    setting: str = ""

    @property
    def reads(self) -> tuple[tuple[str, Role], ...]:
        """Return each condition with its role."""
        roles = self.roles or (MEASURED,) * len(self.conditions)
        return tuple(zip(self.conditions, roles, strict=True))

    def over(self, names: Collection[str]) -> Column:
        """Return a mean over the types of corruption whose conditions are all named; other columns as they are."""
        left_out = {role.corruption for name, role in self.reads if role.corruption and name not in names}
        kept = tuple(each for each in self.averages if each not in left_out)
        if not kept or set(self.conditions) <= set(names):
            return self
        reads = [(name, role) for name, role in self.reads if name in names and role.corruption not in left_out]
        conditions, roles = zip(*reads, strict=True)
        column = replace(self, conditions=conditions, roles=roles, averages=kept)
        if not (lacking := [each for each in self.averages if each in left_out]):
            return column
        shown = ["without", *lacking] if len(lacking) < len(kept) else ["over", *kept]
        label = f"{self.label} {shown[0]} {', '.join(shown[1:])}"
        return replace(column, key=f"{self.key}/{'-'.join(shown)}", label=label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Named list of conditions, and the columns computed from them.

    Attributes:
        seed: root of all randomness of the suite.
        batch_size: number of rows per forward pass, where examples have one size; see ``batch_size_of``.
        batches_per_shard: number of batches per unit of work.
        audit: whether every model is also audited for signs that its numbers under attack are unreliable.
        lacks_dataset: whether the conditions use a stand-in, because the suite names no dataset and none was given.
        given_dataset: name of the dataset given to a suite that names none.
        all_examples: whether conditions cover whole datasets in place of numbers of examples that the suite states.
    """

    name: str
    version: int
    seed: int
    task: str
    batch_size: int
    conditions: tuple[Condition, ...]
    metrics: tuple[str, ...]
    columns: tuple[Column, ...]
    batches_per_shard: int = 1
    audit: bool = True
    description: str = ""
    lacks_dataset: bool = False
    given_dataset: str | None = None
    all_examples: bool = False

    def batch_size_of(self, condition: Condition) -> int:
        """Return the number of rows per forward pass, part of every key: one where examples have several sizes."""
        return self.batch_size if condition.dataset.has_one_size else 1

    def largest_batch_of(self, conditions: Iterable[Condition]) -> int:
        """Return the largest number of rows per forward pass under some conditions."""
        return max(map(self.batch_size_of, conditions))

    def whole(self) -> Suite:
        """Return the suite with every condition on all examples of its dataset; itself if it states no number."""
        if all(condition.num_examples is None for condition in self.conditions):
            return self
        conditions = tuple(replace(condition, num_examples=None) for condition in self.conditions)
        return replace(self, conditions=conditions, all_examples=True)

    def only(self, names: Collection[str]) -> Suite:
        """Return the suite with these conditions alone, and the columns that read no others.

        Means over types of corruption become those over the types that are left, and say so. Keys of results do not
        depend on the other conditions of a suite.

        Raises:
            UnknownNameError: the suite has no condition of such a name.
            UsageError: every column reads another condition too.
        """
        known = [condition.name for condition in self.conditions]
        for name in sorted({*names} - {*known}):
            raise UnknownNameError("condition", name, known)
        narrowed = (each.over(names) for each in self.columns)
        columns = tuple(each for each in narrowed if names_of_conditions(self, each) <= set(names))
        if not columns:
            read = (names_of_conditions(self, each) for each in self.columns)
            others = min((each - set(names) for each in read if not each.isdisjoint(names)), key=len, default=set())
            raise UsageError(
                f"no column of suite {self.name!r} reads only {', '.join(sorted(names))}; choose the conditions"
                f" {', '.join(sorted(others))} too"
            )
        conditions = tuple(each for each in self.conditions if each.name in names)
        return replace(self, conditions=conditions, columns=columns)

    def check_dataset(self) -> None:
        """Refuse a suite without a dataset. Raises UsageError: it names none, and none was given."""
        if self.lacks_dataset:
            raise UsageError(
                f"suite {self.name!r} names no dataset: choose one with --dataset NAME (robench list datasets), or"
                " declare your own in a registry file"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """View of one list of outcomes.

    Attributes:
        name: the condition's, or for example ``pgd@4/255`` with the budget as written; in keys of columns.
        label: display name, with a budget in grey levels.
        epsilon: value of ``Outcome.epsilon``; None except for sweeps.
        attack: the perturbation, at one budget.
    """

    name: str
    label: str
    condition: Condition
    epsilon: str | None
    attack: PerturbationDeclaration


def names_of_conditions(suite: Suite, column: Column) -> set[str]:
    """Return the names of the conditions that a column of a suite reads, also at single budgets."""
    owners = {view.name: condition.name for condition in suite.conditions for view in views_of(condition)}
    return {owners[name] for name in column.conditions}


def views_of(condition: Condition) -> tuple[View, ...]:
    """Return the views of a condition: one per budget of a sweep, ascending; otherwise the condition itself."""
    declaration, name = condition.perturbation, condition.name
    if not declaration.at_budgets:
        return (View(name=name, label=name, condition=condition, epsilon=None, attack=declaration),)
    return tuple(
        View(
            name=f"{name}@{threat.epsilon_text}",
            label=f"{name} {threat.epsilon_text}",
            condition=condition,
            epsilon=attack.epsilon_name,
            attack=attack,
        )
        for attack in declaration.at_budgets
        if (threat := attack.threat_model) is not None
    )
