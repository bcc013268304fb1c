"""Declarations of policies: Decision Transformers, and behaviour cloning beside them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.declarations.base import LARGEST
from robench.domains.episodes import NUM_BEFORE
from robench.models.base import ArchitectureBase
from robench.models.transformer import Count, Transformer, Width


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTransformer(Transformer):
    """Decision Transformer: a causal transformer over returns to go, observations and actions, three tokens a step.

    Attributes:
        num_observations, num_actions: numbers of values of an observation and of an action.
        context: number of time steps that it sees.
        max_steps: largest number of steps of an episode, each with an embedding of its own.
        return_scale: number by which returns are divided.
        padding: ``released`` for windows that are padded on the left up to the context, as by the code of Decision
            Transformer and PrimalAttention_RL: attention leaves the padding out if the mechanism takes masks, and
            otherwise reads it, as Primal does in its cumulative means. ``none`` for short windows.
        feedforward: hidden width of the MLP.
        dropout: probability with which training zeroes values of tokens, of each branch, and within the MLP.
    """

    kind: ClassVar[str] = "decision-transformer"
    implementation: ClassVar[str] = "robench.models.decision_impl:DecisionModel"

    num_observations: Width
    num_actions: Width
    context: Annotated[int, Ge(1), Le(4096)] = 20
    max_steps: Annotated[int, Ge(1), Le(LARGEST)] = 1000
    return_scale: Annotated[float, Gt(0), Le(LARGEST)] = 1000.0
    padding: Literal["none", "released"] = "none"
    feedforward: Width
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.1
    depth: Count = 3

    @property
    def reads_causally(self) -> bool:
        """Return True."""
        return True

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of a window of a whole context."""
        return self.context, NUM_BEFORE + self.num_observations + self.num_actions

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of a whole context."""
        return 3 * self.context

    @property
    def mlp_parameters(self) -> int:
        """Return the number of parameters of the matrices of a block's MLP."""
        return 2 * self.dim * self.feedforward

    @property
    def embedding_parameters(self) -> int:
        """Return the approximate number of parameters of embeddings and head."""
        return self.dim * (self.num_observations + 2 * self.num_actions + self.max_steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourCloning(ArchitectureBase):
    """Policy of the present observation alone: an MLP with two hidden layers, ReLU, and tanh on its actions.

    Attributes:
        num_observations, num_actions: numbers of values of an observation and of an action.
        dim: width of the hidden layers.
    """

    kind: ClassVar[str] = "behaviour-cloning"
    implementation: ClassVar[str] = "robench.models.decision_impl:CloningModel"

    num_observations: Width
    num_actions: Width
    dim: Width = 256

    @property
    def couples_rows(self) -> bool:
        """Return False."""
        return False
