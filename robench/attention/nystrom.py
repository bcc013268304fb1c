"""Declaration of Nystrom attention."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase, Count, Formula, Positions, too_many
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Nystrom(AttentionBase):
    """Nystrom attention: softmax attention approximated through landmarks. Xiong et al. 2021, arXiv:2102.03902.

    Attributes:
        num_landmarks: number of segments of tokens, equal in length up to one token, whose means are the landmarks.
        formula: the pseudo-inverse starts at one scale for each example and head (``paper``), or at one scale for all
            heads of the batch (``released``).
        positions: logits of positions beside those of contents, a definition of robench's own: of ALiBi's distances
            (``alibi``) or of the backbone's learned vectors (``bilateral``); ``none`` as in the paper.
    """

    kind: ClassVar[str] = "nystrom"
    implementation: ClassVar[str] = "robench.attention.nystrom_impl:NystromAttention"
    not_causal: ClassVar[str] = "its landmarks are means over segments of tokens, later ones too"

    num_landmarks: Count
    formula: Formula = "paper"
    positions: Positions = "none"

    @property
    def mask_problem(self) -> str:
        """Return nothing: padding is left out of the segments, or in the released formula out of one kernel."""
        return ""

    @property
    def is_coupled(self) -> bool:
        """Return True for the released formula; the kernel of a single landmark is 1 and has no scale to share."""
        return self.formula == "released" and self.num_landmarks > 1

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        """Refuse more landmarks than the backbone has tokens."""
        return too_many("num_landmarks", self.num_landmarks, num_tokens)
