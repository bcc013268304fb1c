"""Rules of tokens: where padding may be, and the number of positions that a perturbation changed.

A sequence has as many positions as its dataset declares, so that outcomes never depend on what else is in a batch.
Positions after its last token hold ``PADDING``. A pair of sequences, such as two documents, is one input (2, T).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from robench.core.declared import PerturbationDeclaration
from robench.core.errors import BudgetExceededError, ContractError
from robench.core.protocols import Model
from robench.core.providers import title_of
from robench.domains.sequences import Symbols, check_padding, padded

PADDING = 0
# Tokens are rows of a model's table of embeddings.
LARGEST_TOKEN = 2**31 - 1
_SIDES = 2


class TokenRules(Symbols):
    """Rules of tokens (T,) and of pairs (2, T); see ``domains.base``."""

    name, remedy, dtype = "tokens", "take a perturbation that replaces tokens", torch.int64

    def collate(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return sequences (T,) as one batch (B, T), or pairs (2, T) as (B, 2, T), padded to the longest."""
        if len(kinds := sorted({each.ndim for each in inputs})) > 1:
            raise ContractError(
                f"a batch must have sequences or pairs alone, got inputs of {kinds[0]} and {kinds[1]} axes"
            )
        return padded([each.movedim(-1, 0) for each in inputs], PADDING).movedim(1, -1).contiguous()

    def excerpt(self, inputs: Tensor) -> Tensor:
        """Return the whole example."""
        return inputs

    def valid(self, inputs: Tensor) -> Tensor:
        """Return the positions of sequences (B, T), or of pairs (B, 2, T), that hold tokens, as booleans."""
        return inputs != PADDING

    def check_clean(self, inputs: Tensor, dataset: str) -> None:
        """Refuse other inputs than whole numbers (B, T) or (B, 2, T), padding before a token, and empty sequences."""
        _check_tokens(inputs, f"dataset {dataset!r} gave")

    def check_perturbed(
        self, perturbed: Tensor, clean: Tensor, declaration: PerturbationDeclaration, model: Model
    ) -> Mapping[str, Tensor]:
        """Return the number of positions that differ (B,), as ``num_changed``; both sides of a pair count."""
        title = title_of("perturbation", declaration, declaration.kind)
        wanted = (len(clean), *declaration.shape_of(tuple(clean.shape[1:])))
        if tuple(perturbed.shape) != wanted:
            raise ContractError(f"{title} returned inputs {tuple(perturbed.shape)}, wanted {wanted}")
        _check_tokens(perturbed, f"{title} returned")
        clean = pad(clean, (0, wanted[-1] - clean.shape[-1]), value=PADDING)
        num_changed = (perturbed != clean).flatten(1).sum(1).tolist()
        for row, num_tokens in enumerate((clean != PADDING).flatten(1).sum(1).tolist()):
            most = declaration.most_replaced(num_tokens)
            if most is None:
                break
            if num_changed[row] > most:
                found = f"{num_changed[row]} of {num_tokens} tokens in row {row} of a batch"
                raise BudgetExceededError(f"{title} replaced {found}, wanted at most {most}")
            if not torch.equal(perturbed[row] == PADDING, clean[row] == PADDING):
                raise ContractError(f"{title} moved the padding in row {row} of a batch, wanted tokens replaced alone")
        return {"num_changed": torch.tensor(num_changed)}


def _check_tokens(inputs: Tensor, subject: str) -> None:
    is_paired = inputs.ndim == 3 and inputs.shape[1] == _SIDES
    if inputs.dtype != torch.int64 or not (inputs.ndim == 2 or is_paired):
        raise ContractError(
            f"{subject} inputs {tuple(inputs.shape)} of {inputs.dtype}, wanted int64 tokens (B, T) or pairs (B, 2, T)"
        )
    if bool((is_outside := (inputs < 0) | (inputs > LARGEST_TOKEN)).any()):
        row = int(is_outside.flatten(1).any(1).nonzero()[0])
        token = int(inputs[is_outside][0])
        raise ContractError(
            f"{subject} the token {token} in row {row} of a batch, wanted 1 to {LARGEST_TOKEN}, or {PADDING} as padding"
        )
    check_padding(inputs == PADDING, subject, "a side of a pair" if is_paired else "a sequence", "token")
