"""Domain of tokens: which inputs are refused, for sequences and for pairs, and what a perturbation changed."""

from fractions import Fraction
from typing import Any

import pytest
import torch

from robench.core.errors import BudgetExceededError, ContractError
from robench.domains import DOMAINS
from robench.models.loaded import without_padding
from robench.perturbations.clean import Clean
from robench.perturbations.gradient_token_swap import GradientTokenSwap
from robench.perturbations.listops_insertion import ListOpsExtension

RULES = DOMAINS["tokens"].rules
# Any: nothing here asks for the model.
NO_MODEL: Any = None
SEQUENCES = torch.tensor([[3, 1, 0], [2, 2, 2]])
PAIRS = torch.stack([SEQUENCES, SEQUENCES.flip(0)], dim=1)


@pytest.mark.parametrize("inputs", [SEQUENCES, PAIRS], ids=["sequences", "pairs"])
def test_sequences_and_pairs_are_valid_and_their_padding_is_known(inputs: torch.Tensor) -> None:
    RULES.check_clean(inputs, "d")
    valid = RULES.valid(inputs)
    assert valid is not None
    assert valid.tolist() == (inputs != 0).tolist()
    assert torch.equal(without_padding(inputs, valid), inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            SEQUENCES.float(),
            r"gave inputs \(2, 3\) of torch.float32, wanted int64 tokens \(B, T\) or pairs \(B, 2, T\)",
        ),
        (SEQUENCES[0], r"gave inputs \(3,\) of torch.int64"),
        (torch.ones(2, 3, 4, dtype=torch.int64), r"gave inputs \(2, 3, 4\)"),
        (torch.tensor([[1, 2], [3, -4]]), "gave the token -4 in row 1 of a batch, wanted 1 to 2147483647"),
        (torch.tensor([[2**31, 0]]), "gave the token 2147483648 in row 0"),
        (torch.tensor([[1, 2], [0, 3]]), "gave padding within a sequence in row 1 of a batch, wanted it after its end"),
        (torch.tensor([[1, 2], [0, 0]]), "gave a sequence without tokens in row 1 of a batch, wanted at least one"),
        (PAIRS * torch.tensor([[[1], [1]], [[1], [0]]]), "gave a side of a pair without tokens in row 1 of a batch"),
    ],
)
def test_other_inputs_are_refused_with_the_row(inputs: torch.Tensor, message: str) -> None:
    with pytest.raises(ContractError, match=f"dataset 'd' {message}"):
        RULES.check_clean(inputs, "d")


def test_positions_that_differ_are_counted_on_both_sides() -> None:
    moved = PAIRS.clone()
    moved[1, 0, 0], moved[1, 1, 2] = 5, 6
    assert RULES.check_perturbed(moved, PAIRS, Clean(), NO_MODEL)["num_changed"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("perturbed", "message"),
    [
        (SEQUENCES[:, :2], r"returned inputs \(2, 2\), wanted \(2, 3\)"),
        (SEQUENCES * torch.tensor([[0], [1]]), "returned a sequence without tokens in row 0"),
    ],
)
def test_a_perturbation_returns_valid_tokens_of_the_same_shape(perturbed: torch.Tensor, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        RULES.check_perturbed(perturbed, SEQUENCES, Clean(), NO_MODEL)


def test_a_declared_budget_and_padding_are_checked() -> None:
    swap = GradientTokenSwap(rate=Fraction(1, 2), highest=9, num_queries=1)
    moved = SEQUENCES.clone()
    moved[0, 0] = moved[1, 2] = 5
    assert RULES.check_perturbed(moved, SEQUENCES, swap, NO_MODEL)["num_changed"].tolist() == [1, 1]
    # Of two tokens one, of three one: padding does not count.
    for row, wanted in ((0, "2 of 2 tokens in row 0"), (1, "2 of 3 tokens in row 1")):
        beyond = moved.clone()
        beyond[row, 1] = 6
        with pytest.raises(BudgetExceededError, match=f"replaced {wanted} of a batch, wanted at most 1"):
            RULES.check_perturbed(beyond, SEQUENCES, swap, NO_MODEL)
    shorter = torch.tensor([[3, 0, 0], [2, 2, 2]])
    with pytest.raises(ContractError, match="moved the padding in row 0"):
        RULES.check_perturbed(shorter, SEQUENCES, swap, NO_MODEL)


def test_a_declared_length_is_wanted_and_further_positions_count() -> None:
    longer = torch.nn.functional.pad(SEQUENCES, (0, 1))
    longer[1, 3] = 4
    extension = ListOpsExtension(factor=Fraction(3, 2))
    assert RULES.check_perturbed(longer, SEQUENCES, extension, NO_MODEL)["num_changed"].tolist() == [0, 1]
    with pytest.raises(ContractError, match=r"returned inputs \(2, 3\), wanted \(2, 4\)"):
        RULES.check_perturbed(SEQUENCES, SEQUENCES, extension, NO_MODEL)


def test_sequences_of_two_lengths_are_padded_and_no_sequence_is_a_pair() -> None:
    assert RULES.collate([torch.tensor([1, 2, 3]), torch.tensor([4])]).tolist() == [[1, 2, 3], [4, 0, 0]]
    with pytest.raises(ContractError, match="sequences or pairs alone, got inputs of 1 and 2 axes"):
        RULES.collate([torch.tensor([1]), torch.tensor([[1], [2]])])
