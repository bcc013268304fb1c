"""Declaration of Patch-Fool: Adam on a patch, along the gradients of cross-entropy and of attention to the patch."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.base import Count, Epsilon, Norm, StepSize
from robench.attacks.local import AttentionTerm, LocalAscent
from robench.declarations.base import LARGEST, FieldProblem
from robench.declarations.supports import Patches
from robench.domains.images import IMAGES

# The published patch: a token of a transformer with patches of 16 x 16 pixels.
PATCH = Patches(size=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchFool(LocalAscent):
    """Patch-Fool. Fu et al. 2022, arXiv:2203.08392; published with 250 steps.

    Attributes:
        epsilon: largest change of a value within the patch; 1 for any change of pixels, less for the mild variant.
        patches: squares that may change; ``place`` is by default the published one, by attention.
        l0: pixels of the patches that may change, for the sparse variant; a learned mask chooses them.
        step_size: learning rate of Adam at the start, in units of the space.
        step_decay: factor of the learning rate after some steps; ``decay_every``: number of these steps.
        attention_weight: factor of the attention loss of each layer beside the cross-entropy; 0 for none.
        formula: ``paper``: attention to the patch summed over heads and queries, of all layers; ``released``: its
            logarithm after a mean over heads, averaged over queries, of layers 1 to half the depth.
    """

    kind: ClassVar[str] = "patch-fool"
    implementation: ClassVar[str] = "robench.attacks.patch_fool_impl:patch_fool"
    is_iterated: ClassVar[bool] = True
    needed_axes: ClassVar[tuple[str, ...]] = IMAGES.axes
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    epsilon: Epsilon = Fraction(1)
    patches: Patches | None = PATCH
    place: Literal["gradient", "attention", "random"] = "attention"
    step_size: StepSize = Fraction(22, 100)
    step_decay: Annotated[float, Gt(0), Le(1)] = 0.95
    decay_every: Count = 10
    attention_weight: Annotated[float, Ge(0), Le(LARGEST)] = 0.002
    formula: Literal["paper", "released"] = "paper"

    @property
    def attention_term(self) -> AttentionTerm | None:
        """Return the loss on the attention to the patch; None with a weight of 0."""
        return AttentionTerm(loss="received", weight=self.attention_weight) if self.attention_weight else None

    @property
    def most_passes(self) -> tuple[int, int] | None:  # type: ignore[override]  # the layers are the model's
        """Return None: the number of gradients of a step is that of the model's layers."""
        return None

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: there must be patches, a step size, and one pass a step."""
        problems = LocalAscent.contradictions(self)
        if self.patches is None:
            problems.append(("patches", "must be given for patch-fool, got none"))
        if self.step_size is None:
            problems.append(("step_size", "must be given for patch-fool, got none"))
        if self.num_draws > 1:
            problems.append(("num_draws", f"must be 1 for patch-fool, got {self.num_draws}"))
        return problems
