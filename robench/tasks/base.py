"""Declaration of tasks, and the protocol of their rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from robench.declarations.base import imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes, Values
    from robench.core.declared import DatasetDeclaration
    from robench.core.outcomes import Outcome
    from robench.core.protocols import Model
    from robench.environments.base import World

# Outputs (B, ...) and labels (B, ...) to one value per example, (B,); some take further arguments, (B,) each: a
# scheduled loss the progress of its search, and others what an attack gives beside.
Loss = Callable[..., "torch.Tensor"]
AnyLoss = TypeVar("AnyLoss", bound=Loss)


def resolved(loss: AnyLoss) -> AnyLoss:
    """Declare that the gradient of a loss by the outputs does not underflow in float32: attacks take it as it is."""
    loss.is_resolved = True  # type: ignore[attr-defined]  # functions have any attribute
    return loss


def scheduled(loss: AnyLoss) -> AnyLoss:
    """Declare that a loss takes a further argument (B,): the number of earlier steps over the number of all, in [0, 1).

    Its values at different steps do not compare.
    """
    loss.is_scheduled = True  # type: ignore[attr-defined]  # functions have any attribute
    return loss


def reads_layers(loss: AnyLoss) -> AnyLoss:
    """Declare that a loss takes ``layers``, what the layers of its pass show (``core.protocols.ShownLayer``).

    Its gradient is taken by the inputs directly, as that of a ``resolved`` loss, since it depends on more than outputs.
    """
    loss.reads_layers = True  # type: ignore[attr-defined]  # functions have any attribute
    return resolved(loss)


def is_scheduled(loss: Loss) -> bool:
    """Return whether a loss takes the progress of the attack."""
    return bool(getattr(loss, "is_scheduled", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Task of datasets and models: the question asked, and the outcome recorded.

    Attributes:
        name: name in registries, suites and records; ``title``: name for readers.
        outcome: dataclass of an example's outcome, whose fields are the columns of records.
        implementation: ``module:name`` of its ``TaskRules``, imported on first use.
        verdict: boolean column that says whether the model is right about an example; None if outputs are not right or
            wrong.
        metric: metric of clean examples used in training, preflight checks and transfer; None for none.
        losses: names of the losses that attacks can name beside ``objective``, the keys of the rules' ``losses``.
        contradiction: ``module:name`` of a ``Contradiction``, by which models are compared with the expected score of
            their entry before a run; None for no such check.
        check: ``module:name`` of a ``ModelCheck`` of models with code of the user's own, before anything is measured;
            None for none.
        gap: ``module:name`` of a ``Gap``, by which rescoring recognises numerical ties; None if there are none.
        is_audited: whether the checks of ``evaluation.audit`` apply to its models, whose outputs are logits (B,
            classes, ...), and for which chance level is one over the number of classes.
        proportion: ``module:name`` of a ``Proportion``, by which attacks are compared where examples have many answers;
            None for tasks with a verdict, or whose attacks are not compared.
        answers_as: how a picture shows an answer: ``label`` for text, or ``mask`` for a class at each pixel of images,
            of a task whose rules are ``ManyAnswers``.
        compares_clean: whether perturbed outputs are scored beside those of the clean inputs, from one more pass.
        targets_are_inputs: whether the inputs are their own targets, so that examples need no labels.
        is_played: whether an example is an episode, whose number of passes nobody knows beforehand, and the rules are
            ``Played``.
        consistency: ``module:name`` of a ``Consistency``, by which edited records are recognised; None if no column
            follows from others.
        facts: columns that the data alone decide, so that all records of an example have the same value, each with the
            column that must be known for it, or its own name.
        hub_types: name of the task in model cards of the Hugging Face Hub, by domain of the inputs; others have the
            names of domain and task.
    """

    name: str
    title: str
    outcome: type[Outcome]
    implementation: str
    verdict: str | None = None
    metric: str | None = None
    losses: tuple[str, ...] = ()
    contradiction: str | None = None
    check: str | None = None
    gap: str | None = None
    is_audited: bool = False
    proportion: str | None = None
    answers_as: Literal["label", "mask"] = "label"
    compares_clean: bool = False
    targets_are_inputs: bool = False
    is_played: bool = False
    consistency: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    hub_types: Mapping[str, str] = field(default_factory=dict)

    def hub_type(self, domain: str) -> str:
        """Return the name of the task on inputs of a domain in model cards."""
        return self.hub_types.get(domain, f"{domain}-{self.name}")

    @property
    def right(self) -> Callable[[Outcomes], NDArray[np.bool_] | NDArray[np.float64]] | None:
        """Return the function of outcomes that says whether each example is right, or the proportion of its answers.

        None of tasks whose outputs are not right or wrong.
        """
        if self.proportion is not None:
            proportion: Proportion = imported(self.proportion)
            return proportion
        verdict = self.verdict
        return None if verdict is None else lambda outcomes: outcomes.column(verdict)

    @property
    def rules(self) -> TaskRules:
        """Import and return the rules."""
        rules: TaskRules = imported(self.implementation)
        return rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """Context in which outputs are scored, beside their targets.

    Attributes:
        dataset: declaration of the clean examples.
        keeps_scores: whether scores beyond the verdict are valid; False after early stopping of an attack.
        inputs: perturbed inputs (B, ...) that were scored; None if they are the clean ones.
        scores_pieces: whether a language model's likelihoods are of texts, piece by piece of any word, and not of words
            of a closed vocabulary.
        clean_outputs: first prediction (B, ...) of the clean inputs, for tasks that compare it; None if the inputs of
            the pass are the clean ones.
    """

    dataset: DatasetDeclaration
    keeps_scores: bool = True
    inputs: torch.Tensor | None = None
    clean_outputs: torch.Tensor | None = None
    scores_pieces: bool = False


class Contradiction(Protocol):
    """Function that says why outputs contradict the score that is expected of a model."""

    def __call__(self, outputs: Any, targets: Sequence[Any], expected: float, dataset: str) -> str:
        """Return the contradiction and what should be checked, after "model 'x'"; else "".

        Outputs are finite, of excerpts of the first clean examples: a tensor (B, ...), or a list of B tensors where
        examples have several sizes. ``expected`` is the value of the task's metric that the registry entry expects.
        """


class ModelCheck(Protocol):
    """Function that refuses a model whose outputs are not what the task's numbers are about."""

    def __call__(self, model: Model, examples: Sequence[torch.Tensor]) -> None:
        """Run the model on parts of a dataset's first examples.

        Raises:
            ContractError: the message says what was found and what the model should return.
        """


class Gap(Protocol):
    """Function that says how far outputs are from recorded outcomes."""

    def __call__(
        self, outputs: torch.Tensor, targets: torch.Tensor, recorded: Outcomes, scoring: Scoring
    ) -> torch.Tensor:
        """Return by how much outputs (B, ...) would have to change to give the recorded decisions, (B,) float64.

        It is 0 for outputs that give them, and infinite if no outputs do. Of the recorded outcomes of the same examples
        verdicts and predictions count.
        """


@dataclass(frozen=True, slots=True)
class Broken:
    """Rule that a column of stored outcomes obeys, and the rows that break it.

    Attributes:
        field: name of the column.
        rows: mask (N,) of the outcomes.
        rule: the contradiction, after "its FIELD of example 'x'", such as ``is below 0``.
    """

    field: str
    rows: NDArray[np.bool_]
    rule: str


class Proportion(Protocol):
    """Function that reads from outcomes how many of an example's answers are right, without torch."""

    def __call__(self, outcomes: Outcomes) -> NDArray[np.float64]:
        """Return the proportion (N,) of right answers of each example, 0 where none counts."""


class Consistency(Protocol):
    """Function that finds contradictions between columns of stored outcomes, without torch."""

    def __call__(self, outcomes: Outcomes, scoring: Scoring | None) -> Iterable[Broken]:
        """Return rules of the task's own columns with the rows that break them.

        Optional columns may be missing in some rows or all: archives leave out what no metric reads. With ``scoring``
        rules also follow from the data and the perturbation; None if they are unknown.
        """


class TaskRules(Protocol):
    """Rules of a task, on outputs and targets of one forward pass: B examples, the first axis of every tensor."""

    @property
    def losses(self) -> Mapping[str, Loss]:
        """Return the losses that attacks can maximise, by name; differentiable in outputs of float32 and float64."""

    @property
    def objective(self) -> Loss:
        """Return the loss that attacks with ``loss: objective`` maximise."""

    def outputs_of(self, output: object, num_rows: int) -> torch.Tensor:
        """Extract the outputs (B, ...) from a module's return value for ``num_rows`` inputs.

        Raises:
            ContractError: it contains no such outputs.
        """

    def check_outputs(self, outputs: torch.Tensor, num_rows: int, model: str) -> None:
        """Refuse outputs with a wrong shape or values that are not finite; ``model`` is the name in messages.

        Raises:
            ContractError: the outputs are invalid; nothing is recorded.
        """

    def columns(self, outputs: Sequence[torch.Tensor], targets: torch.Tensor, scoring: Scoring) -> Mapping[str, Values]:
        """Return the task's own columns of the outcomes of one pass, (B,) each.

        Outputs (B, ...) have one entry per prediction of the same inputs.
        """

    def check_fit(
        self, outputs: torch.Tensor, num_classes: int | None, model: str, dataset: str, inputs: torch.Tensor
    ) -> None:
        """Refuse a model whose outputs on a dataset's first examples do not fit the task or the dataset.

        ``inputs`` (B, ...) are those examples, or excerpts of them; ``num_classes`` is None if it is unknown.

        Raises:
            UsageError: the message says what was found and what to do.
        """

    def labels_of(self, outputs: torch.Tensor) -> Any:
        """Return the labels (B, ...) given by a model's own outputs (B, ...), for attacks with labels predicted."""

    def is_fooled(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return (B,) booleans: whether an attack that moves away from the labels has succeeded."""


@runtime_checkable
class ManyAnswers(Protocol):
    """Further rules of a task whose outputs have many answers, such as one per pixel, some right and some wrong.

    No example is fooled as a whole, so attacks run to their end, and keep the point with the fewest right answers.

    Attributes:
        judged_by: loss by which attacks with adaptive steps judge these; gradients may be of another loss.
    """

    judged_by: Loss

    def num_right(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the number (B,) of right answers, int64."""

    def num_answers(self, labels: torch.Tensor) -> torch.Tensor:
        """Return the number (B,) of answers that count, int64, at least 1."""

    def own_labels(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return a model's own answers (B, ...) where labels (B, ...) count, for attacks with labels predicted."""

    def of_one_size(self, examples: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the centres of inputs and labels of several sizes, as large as the smallest allow, as a batch."""


@dataclass(frozen=True, slots=True)
class Scales:
    """Units of disturbances: deviations of observations (D,) in the training set of a policy, and largest actions (A,).

    Both are 1 where a policy does not state them.
    """

    observations: NDArray[np.float64]
    actions: NDArray[np.float64]


class Disturbance(Protocol):
    """Change of what passes between a policy and its environment, of one batch of episodes from their begin.

    Attributes:
        epsilon: largest change of an observation, in deviations of the training set; None for any.
    """

    epsilon: float | None

    @property
    def world(self) -> World | None:
        """Return the change of the environment itself; None for none."""

    def observed(
        self, step: int, window: torch.Tensor, act: Callable[[torch.Tensor], torch.Tensor], scales: Scales
    ) -> torch.Tensor:
        """Return the window (B, K, F) that the policy sees, with another observation in its last row.

        ``act`` is the policy, from windows to actions (B, A), differentiable.
        """

    def acted(self, step: int, actions: NDArray[np.float64], scales: Scales) -> NDArray[np.float64]:
        """Return the actions (B, A) that reach the environments."""


# Tensors (B, D), observations of the environments before a step and as the policy sees them, and arrays (B,), the sums
# of earlier rewards and which episodes have not ended.
Watch = Callable[..., None]


class Played(Protocol):
    """Further rules of a task whose outcomes are those of episodes, in which outputs decide further inputs."""

    def play(
        self,
        model: Model,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        seeds: Sequence[int],
        dataset: DatasetDeclaration,
        disturbance: Disturbance | None,
        name: str,
        watch: Watch | None = None,
    ) -> Mapping[str, Values]:
        """Return the task's own columns (B,) of episodes that begin with inputs (B, ...).

        ``seeds`` are those of the model's own draws, one for each example; ``name`` is the model's, for messages.
        ``watch`` is called before each step.
        """
