"""Rules of time series: steps of padding at the end, which no perturbation moves.

A series has as many steps as the longest one of its dataset, so that outcomes never depend on what else is in a batch.
Steps after its own last one hold ``PADDING`` in every channel. The number is so large that adding a budget to it gives
the same number in float32, and a model gets zeros in its place: gradients there are zero, and distances too.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor

from robench.core.declared import PerturbationDeclaration
from robench.core.errors import ContractError
from robench.core.protocols import Model
from robench.core.providers import title_of
from robench.domains import sequences
from robench.domains.real_valued import RealValued

PADDING = 2.0**100
# Beyond all measured values; in float32 no sum of two such values comes near the padding.
LARGEST_VALUE = 2.0**60


class PaddedSeries(RealValued):
    """Rules of series (T, C); see ``domains.base``."""

    def collate(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return series (T, C) as one batch (B, T, C), padded to the longest one."""
        if len({each.shape[1:] for each in inputs}) > 1:
            return super().collate(inputs)
        return padded(inputs)

    def valid(self, inputs: Tensor) -> Tensor:
        """Return the steps of series (B, T, C) that are not padding, as (B, T) booleans."""
        return (inputs != PADDING).any(-1)

    def check_clean(self, inputs: Tensor, dataset: str) -> None:
        """Refuse other inputs than series, values that are too large or not finite, and padding within a series."""
        super().check_clean(inputs, dataset)
        subject, is_padding = f"dataset {dataset!r} gave", inputs == PADDING
        if bool((~is_padding & (inputs.abs() > LARGEST_VALUE)).any()):
            raise ContractError(f"{subject} series with values beyond {LARGEST_VALUE:.3g}, wanted standardised ones")
        if not bool((is_padding == is_padding[..., :1]).all()):
            raise ContractError(f"{subject} series with padding in some channels of a step, wanted it in all or none")
        sequences.check_padding(is_padding[..., 0], subject, "a series", "step")

    def check_perturbed(
        self, perturbed: Tensor, clean: Tensor, declaration: PerturbationDeclaration, model: Model
    ) -> Mapping[str, Tensor]:
        """Return distances as ``RealValued`` does, and refuse series of other lengths and values that are too large."""
        title, is_padding = title_of("perturbation", declaration, declaration.kind), clean == PADDING
        # Before distances, which moved padding makes huge.
        if perturbed.shape == clean.shape and bool((perturbed != clean)[is_padding].any()):
            raise ContractError(f"{title} changed padding, wanted series of the same lengths")
        distances = super().check_perturbed(perturbed, clean, declaration, model)
        if bool((perturbed.abs() > LARGEST_VALUE)[~is_padding].any()):
            raise ContractError(f"{title} returned values beyond {LARGEST_VALUE:.3g}")
        return distances


def lengths(inputs: Tensor) -> Tensor:
    """Return the numbers of steps of series (B, T, C) without padding, as (B,)."""
    return (inputs != PADDING).any(-1).sum(-1)


def padded(series: Sequence[Tensor], num_steps: int = 0) -> Tensor:
    """Return series (T, C) as one batch (B, N, C), as long as the longest, or ``num_steps`` if that is more."""
    return sequences.padded(series, PADDING, num_steps)
