"""Declaration of the gradient-guided token swap: replacements that a model's gradient proposes."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from robench.core.declared import DatasetDeclaration
from robench.core.errors import ContractError
from robench.declarations.base import LARGEST, FieldProblem
from robench.domains.listops import VOCABULARY
from robench.perturbations.token_edits import TokenSwap
from robench.tasks.classification import CLASSIFICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientTokenSwap(TokenSwap):
    """Search for the swaps of tokens that harm most to first order, until the class is wrong.

    HotFlip, Ebrahimi et al. 2018, arXiv:1712.06751, greedily, and each swap confirmed by a query. With the gradient of
    the margin between the other classes and the label by the embedded tokens, the gain of a swap is that gradient times
    the change of the vector. In each step the model is shown the swaps of highest gain, and the best one is kept if it
    raises the score. A place is swapped once, and padding stays. The model gives ``embed``; see
    ``models.loaded.LoadedModel.swap_gains``.

    Attributes:
        rate: largest proportion of the tokens of an input that is swapped, padding not counted, rounded down; those of
            both sides of a pair count together.
        lowest, highest: first and last token that replaces another.
        most_swaps: largest number of tokens that is swapped; None for no limit but ``rate``.
        num_queries: largest number of sequences that the model is shown for an example, the clean one included; a
            gradient counts as one.
        num_proposed: number of swaps that the model is shown in a step; further ones follow while none raises the
            score.
        keeps_value: whether only swaps count that leave an expression of ListOps with the value it has, as its rules
            say; other datasets have none, and ListOps has no class otherwise.
    """

    kind: ClassVar[str] = "gradient-token-swap"
    implementation: ClassVar[str] = "robench.perturbations.gradient_token_swap_impl:attacked"
    is_attack: ClassVar[bool] = True

    most_swaps: Annotated[int, Ge(1), Le(LARGEST)] | None = None
    num_queries: Annotated[int, Ge(1), Le(LARGEST)]
    num_proposed: Annotated[int, Ge(1), Le(1000)] = 8
    keeps_value: bool = False

    @property
    def stops_at_success(self) -> bool:
        """Return true: an input whose class is wrong is not attacked further."""
        return True

    def most_replaced(self, num_tokens: int) -> int:
        """Return the largest number of tokens that it replaces of ``num_tokens``; the others stay, as padding does."""
        most = int(self.rate * num_tokens)
        return most if self.most_swaps is None else min(most, self.most_swaps)

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: other inputs or tasks, or swaps that would change classes."""
        problems = super(GradientTokenSwap, self).problems_on(dataset)
        if problems:
            return problems
        if dataset.task != CLASSIFICATION.name:
            return [("", f"must serve {CLASSIFICATION.name}, got dataset {dataset.name} of {dataset.task}")]
        is_listops = getattr(dataset, "vocabulary", ()) == VOCABULARY
        if is_listops and not self.keeps_value:
            reason = f"a swap can change the value of an expression of {dataset.name}, which is its class"
            return [("keeps_value", f"must be true, since {reason}")]
        if self.keeps_value and not is_listops:
            return [("keeps_value", f"must be left out, since inputs of {dataset.name} have no values")]
        return []

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model without ``embed``, by a gradient on the first input."""
        gains = getattr(model, "swap_gains", None)
        if gains is None:
            raise ContractError("it has no swap_gains, the gradients by embedded tokens of models.loaded.LoadedModel")
        gains(inputs[:1], (0,), lambda outputs: outputs.sum(), (self.highest,))
