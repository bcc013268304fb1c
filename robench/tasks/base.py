"""Declaration of a task, and the rules that its implementation must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from robench.declarations.base import imported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from robench.core.columns import Values
    from robench.core.declared import DatasetDeclaration
    from robench.core.outcomes import Outcome

    # Outputs (B, ...) and labels (B, ...) to one value an example, (B,); some take more of the rows, (B,) each.
    Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Task of datasets and models: what is asked, and what is kept of an answer.

    Attributes:
        name: name in registries, suites and records; ``title``: name for readers.
        outcome: dataclass of what one example did, whose fields are the columns of records.
        implementation: ``module:name`` of its ``TaskRules``, imported on first use.
        verdict: column of truth values that says whether the model is right about an example; None where answers are
            not right or wrong.
        metric: the metric of clean examples by which models are trained, checked and transferred to; None for none.
        losses: names of the losses that attacks can name beside ``objective``, the keys of the rules' ``losses``.
        is_audited: the checks of ``evaluation.audit`` apply to its models, and who guesses is right about one example
            in as many as there are classes.
    """

    name: str
    title: str
    outcome: type[Outcome]
    implementation: str
    verdict: str | None = None
    metric: str | None = None
    losses: tuple[str, ...] = ()
    is_audited: bool = False

    @property
    def rules(self) -> TaskRules:
        """The rules, imported now."""
        rules: TaskRules = imported(self.implementation)
        return rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What is known of the examples that outputs are scored on, beside their targets.

    Attributes:
        dataset: declaration of the clean examples.
        keeps_scores: whether more than the verdict may be read off outputs; not where an attack stopped early.
    """

    dataset: DatasetDeclaration
    keeps_scores: bool = True


class TaskRules(Protocol):
    """Rules of a task, on outputs and targets of one pass: B examples, the first axis of every tensor."""

    @property
    def losses(self) -> Mapping[str, Loss]:
        """What attacks can make larger, by the names that their declarations use; differentiable in the outputs."""

    @property
    def objective(self) -> Loss:
        """What attacks with ``loss: objective`` make larger."""

    def outputs_of(self, output: object, num_rows: int) -> torch.Tensor:
        """Return the outputs (B, ...) of what a module returned for ``num_rows`` inputs.

        Raises:
            ContractError: it is no such thing.
        """

    def check_outputs(self, outputs: torch.Tensor, num_rows: int, model: str) -> None:
        """Refuse outputs of another shape, or that are not finite; ``model`` is the name in messages.

        Raises:
            ContractError: nothing is recorded of such outputs.
        """

    def columns(self, outputs: Sequence[torch.Tensor], targets: torch.Tensor, scoring: Scoring) -> Mapping[str, Values]:
        """Return the task's own columns of the outcomes of one pass, (B,) each.

        Args:
            outputs: outputs (B, ...) of each prediction of the same inputs.
            targets: targets (B, ...).
            scoring: what else is known of the examples.
        """

    def check_fit(self, outputs: torch.Tensor, num_classes: int | None, model: str, dataset: str) -> None:
        """Refuse a model whose outputs of a dataset's first examples are not what the task or the dataset needs.

        Args:
            outputs: outputs (B, ...) of clean examples.
            num_classes: number of classes of the dataset; None where nothing tells.
            model: name of the model.
            dataset: name of the dataset.

        Raises:
            UsageError: the message says what was found and what to do.
        """

    def labels_of(self, outputs: torch.Tensor) -> Any:
        """Return what a model's own outputs (B, ...) give as labels (B, ...), for attacks with labels predicted."""

    def is_fooled(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return (B,) truth values, whether an attack that moves away from the labels has succeeded."""
