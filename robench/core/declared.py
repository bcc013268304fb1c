"""What plug-ins declare: the questions that generic code asks of a declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.suite import ThreatModel


class Declaration(Protocol):
    """What a plug-in is asked for: a frozen dataclass that checks itself; equal fields, equal behaviour.

    Attributes:
        kind: the name in YAML.
        version: raised when the implementation changes its numbers; part of every key.
    """

    kind: ClassVar[str]
    version: ClassVar[int]


class PerturbationDeclaration(Declaration, Protocol):
    """Declaration of a perturbation: the questions that generic code asks of one, each with its neutral answer.

    Attributes:
        is_clean: inputs are left as they are, so that outcomes are clean ones.
        is_attack: inputs are changed against the model, or within a budget as an attack's.
        is_minimum_norm: an attack without a budget, which looks for the nearest adversarial example.
        is_iterated: an attack of many gradient steps, expected to beat those of one step and those without gradients.
        is_single_step: an attack of one gradient step.
        is_gradient_free: an attack within a budget that asks the model for no gradient.
        can_warm_start: an attack whose first search can begin at a given point.
        makes_inputs: inputs are changed, so that those that are scored are stored nowhere else.
    """

    is_clean: ClassVar[bool] = False
    is_attack: ClassVar[bool] = False
    is_minimum_norm: ClassVar[bool] = False
    is_iterated: ClassVar[bool] = False
    is_single_step: ClassVar[bool] = False
    is_gradient_free: ClassVar[bool] = False
    can_warm_start: ClassVar[bool] = False
    makes_inputs: ClassVar[bool] = True

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the implementation, a ``Perturbation`` or what the family has in its place."""

    def problem_on(self, dataset: DatasetDeclaration) -> str:
        """Return what keeps the perturbation from a dataset, such as ``must serve ...``; empty where nothing does."""
        return ""

    @property
    def threat_model(self) -> ThreatModel | None:
        """What the attacker may do; None where nothing bounds the perturbation, or where it has several budgets."""
        return None

    @property
    def epsilon_name(self) -> str | None:
        """The exact budget, such as ``4/255``; None where there is no threat model."""
        return None if self.threat_model is None else str(self.threat_model.epsilon)

    @property
    def search_norm(self) -> str | None:
        """Norm in which a minimum-norm attack measures; None for everything else."""
        return None

    @property
    def at_budgets(self) -> Sequence[PerturbationDeclaration]:
        """The attack at each of several budgets, ascending; empty where there is one budget or none."""
        return ()

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """Largest number of forward and of backward passes that one example takes; None where nobody tells.

        The few that an attack makes once a search, such as that of its start, and the one that is scored are left out.
        """
        return None if self.is_attack else (0, 0)

    @property
    def budgets_are_linked(self) -> bool:
        """Whether the attack at one budget uses what came of a smaller one."""
        return False

    @property
    def corruption(self) -> tuple[str, int] | None:
        """Type and severity of a corruption that is made on the fly; None for everything else."""
        return None

    @property
    def drawn_as(self) -> str:
        """Kind by whose name random numbers are drawn."""
        return self.kind

    @property
    def batch_dependence(self) -> str:
        """Name of what depends on who shares a batch, such as ``pgd by foolbox``; empty where nothing does."""
        return ""

    @property
    def stops_at_success(self) -> bool:
        """Whether examples are left alone once they are fooled."""
        return False

    @property
    def returns_published_point(self) -> bool:
        """Whether the point that the attack's own published code leaves is returned."""
        return False

    @property
    def keeps_scores(self) -> bool:
        """Whether top-5, loss and confidence are kept beside the verdict.

        An attack that leaves what is fooled did not do its worst; its scores are kept only where the point that its
        published code leaves is asked for by name.
        """
        return not self.stops_at_success or self.returns_published_point

    @property
    def clip(self) -> str:
        """Limits of what is returned: ``box``, ``unit`` or ``none``, as in ``ThreatModel``."""
        return "box"

    @property
    def backend(self) -> str:
        """Library whose code runs."""
        return "robench"

    def distance_problem(self) -> str:
        """Return what keeps a minimum-norm attack from telling how far examples are from falling, such as ``with ...``.

        See ``metrics.distances_impl`` for what its numbers rely on.
        """
        return ""

    def is_same_at_another_budget(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack but for its budget, and what scales with it."""
        return False

    def is_twice_as_long_as(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack with at most half as many steps."""
        return False


class DatasetDeclaration(Declaration, Protocol):
    """Declaration of a dataset: what can be known of one before it is opened."""

    @property
    def name(self) -> str:
        """Name in conditions, headers and tables."""

    @property
    def domain(self) -> str:
        """Name of the domain."""

    @property
    def task(self) -> str:
        """Name of the task."""

    @property
    def num_classes(self) -> int | None:
        """Number of classes of a model; None where only the files tell."""

    @property
    def num_examples(self) -> int | None:
        """Size of the evaluation split; None where only the files tell."""

    @property
    def class_subset(self) -> str | None:
        """Name of the classes to which predictions are confined; None for all."""

    @property
    def classes(self) -> tuple[int, ...] | None:
        """Classes that may be predicted, ascending; None for all."""

    @property
    def is_out_of_distribution(self) -> bool:
        """Whether no class is right."""

    @property
    def corruption(self) -> str | None:
        """Type of published corrupted examples; None for all else."""

    @property
    def severity(self) -> int | None:
        """Severity of published corrupted examples; None for all else."""

    @property
    def clean(self) -> str | None:
        """Name of the dataset of the same examples without corruption; None for all else."""

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the function that opens the dataset; Any: its type is that of the family of datasets."""


class Architecture(Declaration, Protocol):
    """Declaration of a model.

    Attributes:
        runs_user_code: the model is code of the user's own.
    """

    runs_user_code: ClassVar[bool]

    @property
    def couples_rows(self) -> bool | None:
        """Whether rows of a batch influence each other; None where the code is not robench's."""

    def code_digest(self) -> str | None:
        """Return the SHA-256 of the user's code that builds the model, None where there is none."""


class Preprocessing(Declaration, Protocol):
    """Declaration of what happens to an input before the first layer."""

    @property
    def domain(self) -> str:
        """Name of the domain of the inputs that the model takes."""


class Recipe(Declaration, Protocol):
    """Declaration of how a model was trained.

    Attributes:
        is_embedded: the data are embedded in a library, and the weights come with robench.
    """

    is_embedded: ClassVar[bool]

    @property
    def dataset(self) -> str:
        """Name of the dataset."""

    @property
    def seed(self) -> int:
        """Seed of all that training draws."""

    def shortened(self, num_epochs: int) -> Self:
        """Return the recipe with so many epochs in all."""

    def seeded(self, seed: int) -> Self:
        """Return the recipe with another seed."""

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the function that trains; Any: its type is that of the family of recipes."""
