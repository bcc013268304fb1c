"""Declaration of classifiers of sequences of tokens, as in the Long-Range Arena."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST
from robench.models.series import Sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens(Sequences):
    """Classifier of sequences of tokens, or of pairs of them, as in the code of Nystromformer and Primal-Attention.

    Attributes:
        vocabulary_size: number of tokens; 0 is padding.
        num_steps: number of places of a sequence, padding included; shorter inputs are padded to it.
        feedforward: hidden width of the MLP, and of the head.
        dropout: probability with which training zeroes values of embedded tokens, of each branch, and within the MLP.
        is_pair: whether an input is a pair of sequences, which pass through the same blocks.
        position_scale: factor of the learned positions that are added to the tokens.
        padding: ``keys``: attention does not see padding; ``branch``: mechanisms without masks of their own see it, and
            their branch is zero there, as in the authors' code for Primal-Attention.
    """

    kind: ClassVar[str] = "token-classifier"
    implementation: ClassVar[str] = "robench.models.tokens_impl:TokensModel"

    vocabulary_size: Annotated[int, Ge(2), Le(LARGEST)]
    is_pair: bool = False
    position_scale: Annotated[float, Ge(0), Le(LARGEST)] = 1.0
    padding: Literal["keys", "branch"] = "keys"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of a sequence, or of a pair of them."""
        return (2, self.num_steps) if self.is_pair else (self.num_steps,)

    @property
    def embedding_parameters(self) -> int:
        """Return the approximate number of parameters of tokens, positions and head."""
        return self.dim * (self.vocabulary_size + self.num_steps + 4 * self.feedforward)
