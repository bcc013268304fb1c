"""Domains of texts and of tokens: exact both ways, checked, and counted in words and places that changed."""

from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robench.core.errors import BudgetExceededError, ContractError
from robench.domains import DOMAINS
from robench.domains.code_points import CONTEXT_END, PADDING, decoded, encoded, encoded_batch, lines_of, padded
from robench.domains.texts_impl import num_changed
from robench.models.loaded import without_padding
from robench.perturbations.clean import Clean
from robench.perturbations.gradient_token_swap import GradientTokenSwap
from robench.perturbations.listops_insertion import ListOpsExtension

RULES = DOMAINS["texts"].rules
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_of_a_batch_come_back_exactly(texts: list[str]) -> None:
    batch = encoded_batch(texts)
    assert decoded(batch) == texts
    assert batch.dtype == RULES.dtype
    RULES.check_clean(batch, "mine")


def test_a_batch_is_padded_on_the_right_and_may_be_longer() -> None:
    batch = padded([encoded("abc"), encoded("d")], length=5)
    assert batch.tolist() == [[97, 98, 99, PADDING, PADDING], [100, *[PADDING] * 4]]
    assert torch.equal(RULES.collate([encoded("abc"), encoded("d")]), batch[:, :3])


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        (torch.zeros(2, 3), r"\(2, 3\) of torch.float32, wanted texts \(B, T\) as int32 code points"),
        (torch.zeros(3, dtype=torch.int32), r"\(3,\) of torch.int32, wanted texts"),
        (torch.tensor([[97, -1, 98]], dtype=torch.int32), "with padding within a text in row 0"),
        (torch.tensor([[0x110000]], dtype=torch.int32), "numbers outside Unicode's code points"),
        (torch.tensor([[-2]], dtype=torch.int32), "numbers outside Unicode's code points"),
        (torch.tensor([[0xD800]], dtype=torch.int32), "numbers outside Unicode's code points"),
    ],
)
def test_what_is_no_batch_of_texts_is_refused(inputs: torch.Tensor, problem: str) -> None:
    with pytest.raises(ContractError, match=f"dataset 'mine' gave inputs (.*)?{problem}"):
        RULES.check_clean(inputs, "mine")


@pytest.mark.parametrize(
    ("clean", "perturbed", "count"),
    [
        ("we the people\n", "we the people\n", 0),
        ("we the people\n", "we AAA people\n", 1),
        ("we the people\n", "we  the\tpeople", 0),
        ("we the\npeople\n", "we\nthe people\n", 3),
        ("we\n\nthe\n", "we\nthe\n", 2),
        ("we the", "we the people of", 2),
        (f"we{CONTEXT_END} the", f"AA{CONTEXT_END} the", 1),
        ("we <unk> people", "we <AAA> AAA", 1),
        ("we the people", "we <unk> people", 1),
        ("we <unk> people", "we <unk>", 1),
    ],
)
def test_changed_words_are_counted_by_place(clean: str, perturbed: str, count: int) -> None:
    assert num_changed(perturbed, clean) == count
    columns = RULES.check_perturbed(encoded_batch([perturbed, "a"]), encoded_batch([clean, "a"]), Clean(), None)
    assert columns["num_changed"].tolist() == [count, 0]


def test_perturbations_must_return_as_many_texts() -> None:
    with pytest.raises(ContractError, match="returned 1 texts, wanted 2"):
        RULES.check_perturbed(encoded_batch(["a"]), encoded_batch(["a", "b"]), Clean(), None)


def test_texts_have_no_limits_for_attacks_in_a_norm() -> None:
    with pytest.raises(ContractError, match="take an attack that changes words"):
        _ = RULES.limits


def test_an_excerpt_is_the_first_100_words_without_context() -> None:
    words = [f"w{place}" for place in range(150)]
    text = "before" + CONTEXT_END + "\n".join([" ".join(words[:60]), "", " ".join(words[60:])])
    (excerpt,) = decoded(RULES.excerpt(encoded(text))[None])
    assert [word for line in lines_of(excerpt) for word in line] == words[:100]
    assert lines_of(excerpt)[1] == []
    assert decoded(RULES.excerpt(encoded("two words"))[None]) == ["two words"]


TOKEN_RULES = DOMAINS["tokens"].rules
# Any: nothing here asks for the model.
NO_MODEL: Any = None
SEQUENCES = torch.tensor([[3, 1, 0], [2, 2, 2]])
PAIRS = torch.stack([SEQUENCES, SEQUENCES.flip(0)], dim=1)


@pytest.mark.parametrize("inputs", [SEQUENCES, PAIRS], ids=["sequences", "pairs"])
def test_sequences_and_pairs_are_valid_and_their_padding_is_known(inputs: torch.Tensor) -> None:
    TOKEN_RULES.check_clean(inputs, "d")
    valid = TOKEN_RULES.valid(inputs)
    assert valid is not None
    assert valid.tolist() == (inputs != 0).tolist()
    assert torch.equal(without_padding(inputs, valid), inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (SEQUENCES.float(), r"inputs \(2, 3\) of torch.float32, wanted int64 tokens \(B, T\) or pairs \(B, 2, T\)"),
        (SEQUENCES[0], r"inputs \(3,\) of torch.int64"),
        (torch.ones(2, 3, 4, dtype=torch.int64), r"inputs \(2, 3, 4\)"),
        (torch.tensor([[1, 2], [3, -4]]), "the token -4 in row 1 of a batch, wanted 1 to 2147483647"),
        (torch.tensor([[2**31, 0]]), "the token 2147483648 in row 0"),
        (torch.tensor([[1, 2], [0, 3]]), "padding within a sequence in row 1 of a batch, wanted it after its end"),
        (torch.tensor([[1, 2], [0, 0]]), "a sequence without tokens in row 1 of a batch, wanted at least one"),
        (PAIRS * torch.tensor([[[1], [1]], [[1], [0]]]), "a side of a pair without tokens in row 1 of a batch"),
    ],
)
def test_other_inputs_are_refused_with_the_row(inputs: torch.Tensor, message: str) -> None:
    with pytest.raises(ContractError, match=f"dataset 'd' gave {message}"):
        TOKEN_RULES.check_clean(inputs, "d")


def test_positions_that_differ_are_counted_on_both_sides() -> None:
    moved = PAIRS.clone()
    moved[1, 0, 0], moved[1, 1, 2] = 5, 6
    assert TOKEN_RULES.check_perturbed(moved, PAIRS, Clean(), NO_MODEL)["num_changed"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("perturbed", "message"),
    [
        (SEQUENCES[:, :2], r"returned inputs \(2, 2\), wanted \(2, 3\)"),
        (SEQUENCES * torch.tensor([[0], [1]]), "returned a sequence without tokens in row 0"),
    ],
)
def test_a_perturbation_returns_valid_tokens_of_the_same_shape(perturbed: torch.Tensor, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        TOKEN_RULES.check_perturbed(perturbed, SEQUENCES, Clean(), NO_MODEL)


def test_a_declared_budget_and_padding_are_checked() -> None:
    swap = GradientTokenSwap(rate=Fraction(1, 2), highest=9, num_queries=1)
    moved = SEQUENCES.clone()
    moved[0, 0] = moved[1, 2] = 5
    assert TOKEN_RULES.check_perturbed(moved, SEQUENCES, swap, NO_MODEL)["num_changed"].tolist() == [1, 1]
    # Of two tokens one, of three one: padding does not count.
    for row, wanted in ((0, "2 of 2 tokens in row 0"), (1, "2 of 3 tokens in row 1")):
        beyond = moved.clone()
        beyond[row, 1] = 6
        with pytest.raises(BudgetExceededError, match=f"replaced {wanted} of a batch, wanted at most 1"):
            TOKEN_RULES.check_perturbed(beyond, SEQUENCES, swap, NO_MODEL)
    shorter = torch.tensor([[3, 0, 0], [2, 2, 2]])
    with pytest.raises(ContractError, match="moved the padding in row 0"):
        TOKEN_RULES.check_perturbed(shorter, SEQUENCES, swap, NO_MODEL)


def test_a_declared_length_is_wanted_and_further_positions_count() -> None:
    longer = torch.nn.functional.pad(SEQUENCES, (0, 1))
    longer[1, 3] = 4
    extension = ListOpsExtension(factor=Fraction(3, 2))
    assert TOKEN_RULES.check_perturbed(longer, SEQUENCES, extension, NO_MODEL)["num_changed"].tolist() == [0, 1]
    with pytest.raises(ContractError, match=r"returned inputs \(2, 3\), wanted \(2, 4\)"):
        TOKEN_RULES.check_perturbed(SEQUENCES, SEQUENCES, extension, NO_MODEL)


def test_sequences_of_two_lengths_are_padded_and_no_sequence_is_a_pair() -> None:
    assert TOKEN_RULES.collate([torch.tensor([1, 2, 3]), torch.tensor([4])]).tolist() == [[1, 2, 3], [4, 0, 0]]
    with pytest.raises(ContractError, match="sequences or pairs alone, got inputs of 1 and 2 axes"):
        TOKEN_RULES.collate([torch.tensor([1]), torch.tensor([[1], [2]])])
