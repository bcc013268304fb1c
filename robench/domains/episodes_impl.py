"""Rules of episodes: inputs are first windows, which no perturbation changes; what it disturbs is what follows."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from robench.core.declared import PerturbationDeclaration
from robench.core.errors import ContractError
from robench.core.protocols import Model
from robench.core.providers import title_of
from robench.domains.episodes import NUM_BEFORE
from robench.domains.sequences import Symbols


class EpisodeRules(Symbols):
    """Rules of windows (K, F); see ``domains.base``."""

    name, remedy, dtype = "episodes", "take a perturbation that disturbs episodes", torch.float32

    def collate(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return windows (K, F) of as many steps each as one batch (B, K, F)."""
        if len(shapes := sorted({tuple(each.shape) for each in inputs})) > 1:
            raise ContractError(f"a batch must have windows of one shape, got {shapes[0]} and {shapes[1]}")
        return torch.stack(list(inputs))

    def excerpt(self, inputs: Tensor) -> Tensor:
        """Return the whole example."""
        return inputs

    def valid(self, inputs: Tensor) -> None:
        """Return None: there is no padding."""

    def check_clean(self, inputs: Tensor, dataset: str) -> None:
        """Refuse other inputs than finite windows (B, K, F) of float32."""
        if inputs.dtype != self.dtype or inputs.ndim != 3 or inputs.shape[2] <= NUM_BEFORE:
            found = f"{tuple(inputs.shape)} of {inputs.dtype}"
            raise ContractError(f"dataset {dataset!r} gave inputs {found}, wanted float32 windows (B, steps, features)")
        if not bool(inputs.isfinite().all()):
            row = int((~inputs.isfinite()).flatten(1).any(1).nonzero()[0, 0])
            raise ContractError(f"dataset {dataset!r} gave a value that is not finite in row {row} of a batch")

    def check_perturbed(
        self, perturbed: Tensor, clean: Tensor, declaration: PerturbationDeclaration, model: Model
    ) -> Mapping[str, Tensor]:
        """Return no distances; refuse another shape. Playing an episode refuses another first observation."""
        if perturbed.shape != clean.shape:
            title = title_of("perturbation", declaration, declaration.kind)
            raise ContractError(f"{title} returned {tuple(perturbed.shape)}, wanted {tuple(clean.shape)}")
        return {}
