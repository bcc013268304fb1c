"""What is to be measured: conditions, and the columns to read off them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Literal

from robench.core.errors import UsageError
from robench.core.identity import key_of, to_plain
from robench.core.spelling import Spelled

if TYPE_CHECKING:
    from fractions import Fraction

    from robench.core.declared import DatasetDeclaration, PerturbationDeclaration
    from robench.core.identity import Plain
    from robench.core.protocols import AdversarialStore, Dataset, Model
    from robench.core.records import Record
    from robench.core.shard import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreatModel:
    """What an attacker may do: move an input by at most ``epsilon`` in ``norm``.

    Attributes:
        space: what the budget is a length in: ``pixel``, or ``normalised`` by the model's mean and deviation.
        clip: whether what comes back must lie in [0, 1] (``box``), in [0, 1] after normalisation, to which the clean
            input is cut first (``unit``), or anywhere (``none``).
        labels: whether the attack moves away from the ``true`` classes or from the model's ``predicted`` ones.
    """

    norm: str
    epsilon: Fraction
    space: str = "pixel"
    clip: str = "box"
    labels: str = "true"

    def __str__(self) -> str:
        marks = {"normalised": "normalised", "none": "unclipped", "unit": "unit", "predicted": "predicted-labels"}
        said = [marks[met] for met in (self.space, self.clip, self.labels) if met in marks]
        return "-".join([self.norm, self.epsilon_text, *said])

    @property
    def epsilon_text(self) -> str:
        """The budget as it was written; of a computed one, over 255 where it is a whole number of grey levels."""
        if isinstance(self.epsilon, Spelled):
            return self.epsilon.spelling
        levels = self.epsilon * 255
        return f"{levels}/255" if levels.denominator == 1 else str(self.epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """A length in a norm, in pixel units."""

    norm: str
    value: Fraction

    def __str__(self) -> str:
        return f"{self.norm} {float(self.value):g}"


class Action:
    """Base class of what is measured of a shard's examples.

    Attributes:
        kind: name in keys.
        implementation: ``module:function`` that measures, imported on first use; it takes what ``measure`` takes.
        runs_attack: the condition's perturbation runs against the model that is measured, so that its inputs are new,
            and what it finds says how strong it is.
    """

    kind: ClassVar[str]
    implementation: ClassVar[str]
    runs_attack: ClassVar[bool] = True

    def measure(
        self,
        shard: Shard,
        model: Model,
        dataset: Dataset,
        *,
        limit: int | None = None,
        kept: AdversarialStore | None = None,
    ) -> Record:
        """Measure every example of a shard whose condition has this action.

        Args:
            shard: examples [start, stop) of a measurement.
            model: the model of its checkpoint.
            dataset: the clean examples.
            limit: that of the run, for the record's provenance alone.
            kept: files in which adversarial examples are stored, and from which they are read; None stores none.

        Raises:
            StoreError: adversarial examples could not be stored, or are not there.
            ExampleError: an example cannot be read.
            ContractError: the dataset, the perturbation or the model broke its promise.
        """
        module, _, name = self.implementation.partition(":")
        record: Record = getattr(import_module(module), name)(shard, model, dataset, limit=limit, kept=kept)
        return record

    def identity_with(self, perturbation: PerturbationDeclaration) -> Plain:
        """Return what decides outcomes, of the action and of its condition's perturbation."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Predict(Action):
    """Predictions of perturbed inputs: the action of all conditions that a suite declares."""

    kind: ClassVar[str] = "predict"
    implementation: ClassVar[str] = "robench.evaluation.evaluate:measure"

    def identity_with(self, perturbation: PerturbationDeclaration) -> Plain:
        """Return the perturbation alone, which is the identity of most records."""
        return to_plain(perturbation)


PREDICT = Predict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One way of testing: a dataset seen through a perturbation, and what is measured of it.

    Attributes:
        dataset: declaration of the clean examples, from which a worker opens them; keys have their fingerprint.
        action: what is measured.
        num_examples: the first so many; None for all.
        num_predictions: how often each input is judged, with the fixed draws of each prediction; more than once for
            models that draw random numbers.
        negatives: of out-of-distribution examples, the condition whose examples they are to be told from.
        distances: of a search for the nearest adversarial example, within which its accuracy is stated; pixel units.
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
        """What of it decides outcomes, beside the data."""
        said = {"perturbation": self.action.identity_with(self.perturbation)}
        return said if self.num_predictions == 1 else said | {"num_predictions": self.num_predictions}

    @property
    def makes_inputs(self) -> bool:
        """Whether the inputs that are scored are made here and stored nowhere else."""
        return self.action.runs_attack and self.perturbation.makes_inputs

    @property
    def budget(self) -> str | None:
        """Budget of the attack as it was written; None where there is none, or a sweep has several."""
        threat_model = self.perturbation.threat_model
        return None if threat_model is None else threat_model.epsilon_text

    @property
    def perturbation_key(self) -> str:
        """32 hexadecimal digits that tell conditions on the same data apart."""
        identity = self.identity
        return key_of(identity["perturbation"] if self.num_predictions == 1 else identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Role of a condition in a column.

    Attributes:
        name: ``measured`` is what the column is about; ``clean`` are the examples without perturbation; ``negatives``
            are what out-of-distribution examples are to be told from; ``corrupted`` is one type at one severity.
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
    """One number of a row: a metric over the outcomes of the conditions that it names, in their order.

    Attributes:
        conditions: names of conditions, or of single budgets of a sweep.
        roles: role of each condition; empty where all are measured.
        distance: of a metric within a distance, that distance, in pixel units of the attack's norm.
        norm: of a metric of minimum-norm attacks, the norm in which the attack searches.
        family: of a metric over corruptions, the family of images that are corrupted, such as ``imagenet-c``.
    """

    key: str
    label: str
    metric: str
    conditions: tuple[str, ...]
    roles: tuple[Role, ...] = ()
    distance: Distance | None = None
    norm: str | None = None
    family: str = ""

    @property
    def reads(self) -> tuple[tuple[str, Role], ...]:
        """Each condition with its role."""
        roles = self.roles or (MEASURED,) * len(self.conditions)
        return tuple(zip(self.conditions, roles, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A named list of conditions and the numbers to read off them.

    Attributes:
        seed: root of all randomness of the suite.
        batch_size: rows of every pass through a model; part of every key.
        batches_per_shard: batches of one unit of work.
        audit: whether every model is also checked for signs that its numbers under attack cannot be believed.
        lacks_dataset: the conditions are on a stand-in, since the suite names no dataset and none was given.
        given_dataset: name of the dataset that was given to a suite that names none.
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

    def check_dataset(self) -> None:
        """Refuse a suite without a dataset.

        Raises:
            UsageError: it names none, and none was given.
        """
        if self.lacks_dataset:
            raise UsageError(
                f"suite {self.name!r} names no dataset: choose one with --dataset NAME (robench list datasets), or"
                " declare your own in a registry file"
            )
