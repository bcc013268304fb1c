"""Base classes of declarations: the properties that generic code reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self

from robench.core.budgets import Support, ThreatModel
from robench.core.identity import Plain


class Declaration(Protocol):
    """Declaration of a plug-in: a frozen dataclass that validates itself; equal fields mean equal behaviour.

    Attributes:
        kind: the name in YAML.
        version: raised when the implementation changes its numbers; part of every key.
    """

    kind: ClassVar[str]
    version: ClassVar[int]


class PerturbationDeclaration(Declaration, Protocol):
    """Declaration of a perturbation: the properties that generic code reads, each with a neutral default.

    Attributes:
        is_clean: inputs are unchanged, so that outcomes are clean ones.
        is_attack: inputs are changed adversarially, or within a budget like an attack's.
        is_minimum_norm: a minimum-norm attack, which has no budget and searches for the nearest adversarial example.
        is_iterated: an attack of many gradient steps, expected to be stronger than single-step and gradient-free
            attacks.
        is_single_step: an attack of one gradient step.
        is_gradient_free: an attack within a budget that uses no gradients of the model.
        reads_outputs: whether it depends on what the model returns; noise and corruptions do not.
        makes_inputs: inputs are changed, so that the scored inputs are stored nowhere else.
    """

    is_clean: ClassVar[bool] = False
    is_attack: ClassVar[bool] = False
    is_minimum_norm: ClassVar[bool] = False
    is_iterated: ClassVar[bool] = False
    is_single_step: ClassVar[bool] = False
    is_gradient_free: ClassVar[bool] = False
    reads_outputs: ClassVar[bool] = False
    makes_inputs: ClassVar[bool] = True

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the implementation: a ``Perturbation`` or the family's equivalent."""

    def problems_on(self, dataset: DatasetDeclaration) -> Sequence[tuple[str, str]]:
        """Return why the perturbation cannot be applied to a dataset: fields, empty for the whole, with messages."""
        return []

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why it cannot be applied to inputs of a shape, known once a dataset is open; empty if it can."""
        return ""

    def problems_with_classes(self, num_classes: int, where: str) -> Sequence[tuple[str, str]]:
        """Return why it cannot be applied to a model of so many classes, known once a dataset is open.

        Fields and messages as in ``problems_on``; ``where`` names the dataset and the number in them.
        """
        return []

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of what it returns for an input of a shape; a domain may refuse another one."""
        return shape

    def most_replaced(self, num_parts: int) -> int | None:
        """Return the largest number of parts, such as tokens, that it replaces of an input with so many; None for any.

        With a number, all other parts stay in their places.
        """
        return None

    def disturbance(self, seeds: Sequence[int], dataset: DatasetDeclaration) -> Any:
        """Return the change of the episodes of one batch after their first observation; None for no change.

        Any: a ``tasks.base.Disturbance``. ``seeds`` has one an example, for draws.
        """
        return None

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model that lacks what the perturbation needs, before a run, on some clean inputs (B, ...).

        Any: a ``core.protocols.Model`` and a tensor.

        Raises:
            ContractError: the message says what the model lacks.
        """
        return

    @property
    def threat_model(self) -> ThreatModel | None:
        """Return the threat model; None for unbounded perturbations and for several budgets."""
        return None

    @property
    def epsilon_name(self) -> str | None:
        """Return the exact budget, such as ``4/255``; None without a threat model."""
        return None if self.threat_model is None else str(self.threat_model.epsilon)

    @property
    def search_norm(self) -> str | None:
        """Return the norm that a minimum-norm attack minimises; None for everything else."""
        return None

    @property
    def counted(self) -> Support | None:
        """Return the places whose changes are counted: the threat model's, or those of a search in l0; else None."""
        return None if self.threat_model is None else self.threat_model.support

    @property
    def at_budgets(self) -> Sequence[PerturbationDeclaration]:
        """Return the attack at each of several budgets, ascending; empty if there is at most one budget."""
        return ()

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """Largest numbers of forward and backward passes per example; None if unknown.

        The few passes that an attack makes once per search, and the one that is scored, are not included.
        """
        return None if self.is_attack else (0, 0)

    @property
    def budgets_are_linked(self) -> bool:
        """Return whether the attack at one budget uses results of a smaller one."""
        return False

    @property
    def corruption(self) -> tuple[str, int] | None:
        """Return type and severity of a corruption generated on the fly; None for everything else."""
        return None

    @property
    def drawn_as(self) -> str:
        """Return the kind whose name seeds the random numbers."""
        return self.kind

    @property
    def batch_dependence(self) -> str:
        """Return the name of the part that depends on the rest of a batch, such as ``pgd by foolbox``."""
        return ""

    @property
    def stops_at_success(self) -> bool:
        """Return whether the attack uses early stopping: fooled examples are not attacked further."""
        return False

    @property
    def returns_published_point(self) -> bool:
        """Return whether the attack returns the same point as its published code."""
        return False

    @property
    def follows_plain_loss(self) -> bool:
        """Return whether an attack maximises the loss that models are trained with, and no other one."""
        return False

    @property
    def knows_mechanism(self) -> bool:
        """Return whether an attack reads what attention layers show, or follows gradients of a mechanism's own."""
        return False

    @property
    def keeps_scores(self) -> bool:
        """Return whether top-5, loss and confidence are recorded beside the verdict.

        With early stopping an attack does not reach its worst case; its scores are recorded only if the point that its
        published code returns is requested by name.
        """
        return not self.stops_at_success or self.returns_published_point

    @property
    def scores_clean_targets(self) -> bool:
        """Return whether a model of the perturbed inputs is scored on the clean targets (``ScoresTargets``)."""
        return False

    @property
    def clip(self) -> str:
        """Return the limits of the returned inputs: ``box``, ``unit`` or ``none``, as in ``ThreatModel``."""
        return "box"

    @property
    def backend(self) -> str:
        """Return the library whose code runs."""
        return "robench"

    def distance_problem(self) -> str:
        """Return why a minimum-norm attack's distances cannot be interpreted, such as ``with ...``; empty if they can.

        See ``metrics.distances`` for the assumptions.
        """
        return ""

    def is_same_at_another_budget(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack except for its budget and the fields that scale with it."""
        return False

    @property
    def per_budget(self) -> Plain:
        """Return all but the budget, with lengths in proportion to it divided by it; None without a budget.

        Attacks with equal values differ in their budget alone: they are one curve.
        """
        return None

    @property
    def length(self) -> tuple[str, int, Plain] | None:
        """Return name and value of the field with the steps or queries of one search, and all but it; None without one.

        Attacks that are equal but for this number are one curve.
        """
        return None

    @property
    def grade(self) -> tuple[str, str, float] | None:
        """Return the name of a curve, its axis, and the place on it; None without one.

        Perturbations with equal names are one curve, from the clean examples at 0: it is of all metrics of the suite.
        """
        return None

    def is_twice_as_long_as(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack with at most half as many steps."""
        return False


def classes_text(dataset: str, num_classes: int) -> str:
    """Return the ``where`` of ``PerturbationDeclaration.problems_with_classes``."""
    return f"on {dataset}, which has {num_classes} classes"


class DatasetDeclaration(Declaration, Protocol):
    """Declaration of a dataset: everything known before it is opened."""

    @property
    def name(self) -> str:
        """Return the name in conditions, headers and tables."""

    @property
    def domain(self) -> str:
        """Return the name of the domain."""

    @property
    def task(self) -> str:
        """Return the name of the task."""

    @property
    def num_classes(self) -> int | None:
        """Return the number of classes of a model; None if only the files contain it."""

    @property
    def num_examples(self) -> int | None:
        """Return the size of the evaluation split; None if only the files contain it."""

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Return the names of the classes, in their order; None if they have none."""

    @property
    def has_one_size(self) -> bool:
        """Return whether all examples have one shape; otherwise a pass has one of them."""

    @property
    def known_fingerprint(self) -> str | None:
        """Return the fingerprint of the evaluation split as published; None if unknown."""

    @property
    def evaluation_split(self) -> str:
        """Return the name of the split that is measured."""

    @property
    def class_subset(self) -> str | None:
        """Return the name of the subset of classes that predictions are restricted to; None for all."""

    @property
    def classes(self) -> tuple[int, ...] | None:
        """Return the classes that may be predicted, ascending; None for all."""

    @property
    def is_out_of_distribution(self) -> bool:
        """Return whether the examples belong to no class."""

    @property
    def corruption(self) -> str | None:
        """Return the type of published corrupted examples; None for all other datasets."""

    @property
    def severity(self) -> int | None:
        """Return the severity of published corrupted examples; None for all other datasets."""

    @property
    def clean(self) -> str | None:
        """Return the name of the dataset of the same examples without corruption; None for all other datasets."""

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the function that opens the dataset; Any: its type is defined by the family of datasets."""


class Architecture(Declaration, Protocol):
    """Declaration of a model.

    Attributes:
        runs_user_code: the model is code of the user's own.
    """

    runs_user_code: ClassVar[bool]

    @property
    def couples_rows(self) -> bool | None:
        """Return whether rows of a batch influence each other; None if the code is not robench's."""

    def code_digest(self) -> str | None:
        """Return the SHA-256 of the user's code that builds the model, or None."""


class Preprocessing(Declaration, Protocol):
    """Declaration of the preprocessing of inputs before the first layer."""

    @property
    def domain(self) -> str:
        """Return the name of the domain of the model's inputs."""

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return mean and standard deviation of each channel; one number applies to every channel."""

    @property
    def num_channels(self) -> int | None:
        """Return the number of channels of the model's inputs; None for any."""


class Recipe(Declaration, Protocol):
    """Declaration of a training recipe."""

    @property
    def is_embedded(self) -> bool:
        """Return whether the data are embedded in a library, and the weights come with robench."""

    @property
    def dataset(self) -> str:
        """Return the name of the dataset."""

    @property
    def seed(self) -> int:
        """Return the seed of all random numbers of the training."""

    @property
    def caveat(self) -> str:
        """Return a sentence that tables show with the numbers of these weights; usually empty."""

    @property
    def is_adversarial(self) -> bool:
        """Return whether the model is trained on adversarial examples."""

    @property
    def total_epochs(self) -> int:
        """Return the number of epochs of the whole training."""

    @property
    def keeps_epochs(self) -> bool:
        """Return whether the weights after each epoch can be kept."""

    @property
    def takes_precision(self) -> bool:
        """Return whether mixed precision can be asked for."""

    def shortened(self, num_epochs: int) -> Self:
        """Return the recipe with the given total number of epochs."""

    def seeded(self, seed: int) -> Self:
        """Return the recipe with another seed."""

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the function that trains; Any: its type is defined by the family of recipes."""
