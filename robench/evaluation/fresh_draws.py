"""The victim as an attack meets it: every pass has draws of its own, and none of them those of the final prediction.

A model that draws random numbers and were attacked with the very draws of its prediction would look weaker than it is;
attacked with one fixed draw, stronger. So each pass that an attack makes without naming seeds gets fresh ones, from the
example, the attack's kind and the number of the pass. The final prediction's seeds have a kind of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import ContractError
from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from robench.core.protocols import Victim


class FreshDraws:
    """A victim (``core.protocols.Victim``) over one batch, whose examples have the seeds given."""

    def __init__(self, victim: Victim, seeds: Sequence[int]) -> None:
        self._victim = victim
        self._seeds = tuple(seeds)
        self._num_passes = 0

    @property
    def device(self) -> torch.device:
        """Where inputs must be."""
        return self._victim.device

    def logits(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Return the victim's logits; without ``seeds`` by draws that no other pass has.

        Raises:
            ContractError: other rows than the batch's, for which there are no seeds.
        """
        if seeds is None:
            if len(inputs) != len(self._seeds):
                raise ContractError(
                    f"an attack showed the model {len(inputs)} inputs of a batch of {len(self._seeds)}; "
                    "it must then pass the seeds of those examples"
                )
            stream = Stream(purpose="victim", query=self._num_passes)
            seeds = [stream_seed(seed, stream) for seed in self._seeds]
            self._num_passes += 1
        return self._victim.logits(inputs, seeds)
