"""Decision Transformer, and behaviour cloning.

Source: Chen et al. 2021, arXiv:2106.01345, and its code (kzl/decision-transformer): return to go, observation and
action of a step are embedded by linear layers, the number of the step is embedded and added to all three instead of
positions, a LayerNorm follows, then blocks as in GPT-2 with a LayerNorm after the last, and the action is read off the
token of the observation by a linear layer and tanh. Observations are standardised by mean and deviation of the training
set, which are buffers of the model, and actions are multiplied by ``action_scale``, the largest of the training set.

Where this differs: windows of fewer steps than the context are short, where that code pads them on the left and masks
the padding, with equal outputs of mechanisms that leave padding out. ``padding: released`` pads them as well: in
episodes with step 0, returns to go of 0, observations of 0 once standardised, and actions of 0.
"""

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from robench.attention.state import ForwardState
from robench.core.errors import ContractError
from robench.domains.episodes import NUM_BEFORE
from robench.models.decision import BehaviourCloning, DecisionTransformer
from robench.models.transformer_impl import TransformerModel, encoder_block, mlp_of

INITIAL_DEVIATION = 0.02
TOKENS_OF_STEP = 3


class DecisionModel(TransformerModel):
    """Decision Transformer from windows (B, K, F) to actions (B, A) of the last step."""

    observation_mean: Tensor
    observation_std: Tensor
    action_scale: Tensor

    def __init__(self, architecture: DecisionTransformer) -> None:
        super().__init__()
        self.architecture, self.context = architecture, architecture.context
        dim = architecture.dim
        add_statistics(self, architecture.num_observations, architecture.num_actions)
        self.embed_step = nn.Embedding(architecture.max_steps, dim)
        self.embed_return = nn.Linear(1, dim)
        self.embed_observation = nn.Linear(architecture.num_observations, dim)
        self.embed_action = nn.Linear(architecture.num_actions, dim)
        self.embed_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(architecture.dropout)
        make_mlp = partial(mlp_of, dim, architecture.feedforward, nn.ReLU())
        self.blocks = nn.ModuleList(
            encoder_block(architecture, layer, make_mlp, dropout=architecture.dropout)
            for layer in range(architecture.depth)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, architecture.num_actions)

    def forward(
        self, inputs: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return actions (B, A) of the last step of windows (B, K, F)."""
        return self.actions_of(inputs, seeds, losses_B)[:, -1]

    def actions_of(
        self, inputs: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return actions (B, K, A) of every step of windows (B, K, F), each from the steps up to it.

        Raises:
            ContractError: the windows have other features, or more steps than the context.
        """
        return self.read_out(self.through_blocks(inputs, seeds, losses_B))

    def through_blocks(
        self,
        inputs: Tensor,
        seeds: tuple[int, ...] | None = None,
        losses_B: list[Tensor] | None = None,
        mask_BN: Tensor | None = None,
        branch_BN: Tensor | None = None,
    ) -> Tensor:
        """Return the tokens (B, 3 K, C) that leave the last block, of the steps of the windows alone."""
        if self.architecture.padding == "none":
            return super().through_blocks(inputs, seeds, losses_B, mask_BN, branch_BN)
        assert mask_BN is None and branch_BN is None  # noqa: PT018  # windows have their padding themselves
        padded = self.padded(inputs)
        counts_B = TOKENS_OF_STEP * (padded[..., 0] < 0).sum(1)
        first_BNC = x_BNC = self.first_tokens(padded)
        state = ForwardState(seeds=seeds, losses_B=losses_B)
        for block in self.blocks:
            given = (x_BNC, first_BNC)
            x_BNC = without_padding(block, given, seeds, counts_B) if block.takes_masks else block(*given, state)
        return x_BNC[:, -TOKENS_OF_STEP * inputs.shape[1] :]

    def padded(self, inputs: Tensor) -> Tensor:
        """Return windows of the whole context, with steps numbered -1 before those of windows (B, K, F)."""
        padding = inputs.new_zeros(len(inputs), max(0, self.context - inputs.shape[1]), inputs.shape[2])
        padding[..., 0] = -1
        padding[..., NUM_BEFORE : NUM_BEFORE + len(self.observation_mean)] = self.observation_mean
        return torch.cat([padding, inputs], dim=1)

    def first_tokens(self, inputs: Tensor) -> Tensor:
        """Return the tokens (B, 3 K, C): return to go, observation and action of each step."""
        architecture = self.architecture
        num_features = NUM_BEFORE + architecture.num_observations + architecture.num_actions
        if inputs.shape[1] > architecture.context or inputs.shape[2] != num_features:
            raise ContractError(
                f"the policy takes windows of up to {architecture.context} steps with {num_features} features, got "
                f"{tuple(inputs.shape[1:])}"
            )
        step_BK, return_BK, observation_BKD, action_BKA = parts_of(inputs, architecture.num_observations)
        step_BKC = self.embed_step(step_BK.long().clamp(0, architecture.max_steps - 1))
        standardised_BKD = (observation_BKD - self.observation_mean) / self.observation_std
        tokens = (
            self.embed_return(return_BK[..., None] / architecture.return_scale),
            self.embed_observation(standardised_BKD),
            self.embed_action(action_BKA / self.action_scale),
        )
        stacked_BKTC = torch.stack([each + step_BKC for each in tokens], dim=2)
        first_BNC: Tensor = self.dropout(self.embed_norm(stacked_BKTC.flatten(1, 2)))
        return first_BNC

    def read_out(self, x_BNC: Tensor) -> Tensor:
        """Return actions (B, K, A) from the tokens of observations."""
        actions_BKA: Tensor = self.head(self.norm(x_BNC[:, 1::TOKENS_OF_STEP])).tanh() * self.action_scale
        return actions_BKA


class CloningModel(nn.Module):
    """MLP from the present observation of windows (B, K, F) to actions (B, A)."""

    context = 1
    observation_mean: Tensor
    observation_std: Tensor
    action_scale: Tensor

    def __init__(self, architecture: BehaviourCloning) -> None:
        super().__init__()
        self.architecture = architecture
        add_statistics(self, architecture.num_observations, architecture.num_actions)
        sizes = (architecture.num_observations, architecture.dim, architecture.dim)
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(architecture.dim, architecture.num_actions))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return actions (B, A) of the last step of windows (B, K, F)."""
        return self.actions_of(inputs)[:, -1]

    def actions_of(self, inputs: Tensor, *unused: object) -> Tensor:
        """Return actions (B, K, A) of every step, each from its observation."""
        _, _, observation_BKD, _ = parts_of(inputs, self.architecture.num_observations)
        actions: Tensor = self.layers((observation_BKD - self.observation_mean) / self.observation_std)
        return actions.tanh() * self.action_scale


def without_padding(
    block: nn.Module, given: tuple[Tensor, ...], seeds: tuple[int, ...] | None, counts_B: Tensor
) -> Tensor:
    """Return the tokens (B, N, C) that leave a block which mixes padding, the first tokens, on its own."""
    rows_of = [(count, (counts_B == count).nonzero().flatten()) for count in counts_B.unique().tolist()]
    mixed = []
    for count, rows in rows_of:
        state = ForwardState(seeds=None if seeds is None else tuple(seeds[row] for row in rows.tolist()))
        parts = zip(*(each[rows].tensor_split([count], dim=1) for each in given), strict=True)
        mixed.append(torch.cat([block(*part, state) for part in parts if part[0].shape[1]], dim=1))
    return torch.cat(mixed)[torch.cat([rows for _, rows in rows_of]).argsort()]


def add_statistics(module: nn.Module, num_observations: int, num_actions: int) -> None:
    """Add the buffers that a training sets: mean and deviation (D,) of observations, and scale (A,) of actions."""
    module.register_buffer("observation_mean", torch.zeros(num_observations))
    module.register_buffer("observation_std", torch.ones(num_observations))
    module.register_buffer("action_scale", torch.ones(num_actions))


def parts_of(windows: Tensor, num_observations: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return steps (B, K), returns to go (B, K), observations (B, K, D) and actions (B, K, A) of windows (B, K, F)."""
    end = NUM_BEFORE + num_observations
    return windows[..., 0], windows[..., 1], windows[..., NUM_BEFORE:end], windows[..., end:]
