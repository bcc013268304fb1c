"""Texts as tensors of code points: exact both ways, checked, and counted in changed words."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robench.core.errors import ContractError
from robench.domains import DOMAINS
from robench.domains.code_points import CONTEXT_END, PADDING, decoded, encoded, encoded_batch, lines_of, padded
from robench.domains.texts_impl import num_changed
from robench.perturbations import Clean

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
    with pytest.raises(
        ContractError, match=f"dataset 'mine' gave inputs .*{problem}|dataset 'mine' gave inputs {problem}"
    ):
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
