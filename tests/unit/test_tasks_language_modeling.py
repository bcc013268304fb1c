"""Language modeling: outcomes by hand, and outputs that are no likelihoods."""

from math import inf, log, nan

import pytest
import torch

from robench.core.columns import Outcomes
from robench.core.errors import ContractError
from robench.datasets import DATASETS
from robench.domains.code_points import CONTEXT_END, encoded_batch
from robench.tasks import TASKS
from robench.tasks.base import Scoring
from robench.tasks.language_modeling import LanguageOutcome, inconsistencies
from robench.tasks.language_modeling_impl import MOST_EXCESS_NATS, NO_TOKEN, contradiction, scored_tokens

TASK = TASKS["language-modeling"]
RULES = TASK.rules
TEXTS = ["we the people\nof\n", "the union\n"]
# One number a token: (we, the, people, end, of, end) and (the, union, end).
OUTPUTS = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.5, 2.5, 0.5, NO_TOKEN, NO_TOKEN, NO_TOKEN]])


# The same of the clean texts.
CLEAN_OUTPUTS = torch.where(OUTPUTS == NO_TOKEN, OUTPUTS, OUTPUTS / 2)


def columns(perturbed: list[str] | None, clean: list[str] = TEXTS, **scored: torch.Tensor) -> dict[str, list[object]]:
    inputs = None if perturbed is None else encoded_batch(perturbed)
    scoring = Scoring(dataset=DATASETS["sotu"], inputs=inputs, **scored)
    found = RULES.columns([OUTPUTS], encoded_batch(clean), scoring)
    return {
        name: [
            None if values.missing is not None and values.missing[row] else value
            for row, value in enumerate(values.array)
        ]
        for name, values in found.items()
    }


@pytest.mark.parametrize("inputs", [None, TEXTS])
def test_all_tokens_of_clean_texts_are_kept(inputs: list[str] | None) -> None:
    found = columns(inputs)
    assert found["loss_nats"] == found["kept_loss_nats"] == found["clean_kept_loss_nats"] == [21.0, 4.5]
    assert found["num_tokens"] == found["num_kept"] == [6, 3]
    assert found["unknown_loss_nats"] == found["num_unknown"] == [None, None]


def test_kept_tokens_are_those_of_the_clean_text() -> None:
    found = columns(["AAA the people\nBBB\n", "the union\n"])
    assert (found["loss_nats"], found["num_tokens"]) == ([21.0, 4.5], [6, 3])
    assert (found["kept_loss_nats"], found["num_kept"]) == ([15.0, 4.5], [4, 3])
    assert "clean_kept_loss_nats" not in found
    found = columns(["AAA the people\nBBB\n", "the union\n"], clean_outputs=CLEAN_OUTPUTS)
    assert (found["kept_loss_nats"], found["clean_kept_loss_nats"]) == ([15.0, 4.5], [7.5, 2.25])


def test_replacements_of_unknown_words_are_neither_kept_nor_swapped() -> None:
    clean = ["<unk> the <unk>\nof\n", "the <unk>\n"]
    found = columns(["<AAA> the <unk>\nBBB\n", "the <unk>\n"], clean, clean_outputs=CLEAN_OUTPUTS)
    assert (found["kept_loss_nats"], found["num_kept"]) == ([15.0, 4.5], [4, 3])
    assert (found["unknown_loss_nats"], found["num_unknown"]) == ([1.0, None], [1, None])
    assert found["clean_kept_loss_nats"] == [7.5, 2.25]
    # A word that becomes the unknown one is swapped.
    assert columns(["we <unk> people\nof\n", "the union\n"])["num_unknown"] == [None, None]


def test_lines_with_other_numbers_of_words_cannot_be_compared() -> None:
    found = columns(["we the people of\n\n", "the AAA\n"], clean_outputs=CLEAN_OUTPUTS)
    assert found["loss_nats"] == [21.0, 4.5]
    assert (found["kept_loss_nats"], found["num_kept"]) == ([None, 2.0], [None, 2])
    assert found["clean_kept_loss_nats"] == [None, 1.0]


def test_context_is_no_scored_token() -> None:
    assert scored_tokens(f"we the{CONTEXT_END} people\n\nof") == ["people", "\n", "\n", "of", "\n"]


def test_the_objective_is_the_mean_loss_of_a_token() -> None:
    torch.testing.assert_close(RULES.objective(OUTPUTS, encoded_batch(TEXTS)), torch.tensor([3.5, 1.5]))


@pytest.mark.parametrize(
    ("wrong", "what"), [(nan, "NaN or infinite"), (inf, "NaN or infinite"), (-0.5, "negative, which no negative")]
)
def test_numbers_that_are_no_likelihoods_are_refused(wrong: float, what: str) -> None:
    outputs = OUTPUTS.clone()
    outputs[0, 1] = wrong
    with pytest.raises(ContractError, match=f"losses of 1 of 2 texts by model 'mine' are {what}"):
        RULES.check_outputs(outputs, 2, "mine")
    RULES.check_outputs(OUTPUTS, 2, "mine")


def test_texts_without_a_word_are_refused() -> None:
    with pytest.raises(ContractError, match="a text has no word to predict, so that model 'mine' has no loss on it"):
        RULES.check_outputs(torch.full((2, 3), NO_TOKEN), 2, "mine")


@pytest.mark.parametrize("output", [torch.zeros(3, 4), torch.zeros(2), [1.0], torch.zeros(2, 4).long()])
def test_modules_must_return_a_row_a_text(output: object) -> None:
    with pytest.raises(
        ContractError, match=r"for 2 texts, wanted the floating-point negative log-likelihoods of each text's tokens"
    ):
        RULES.outputs_of(output, 2)


def test_a_loss_far_above_the_expected_perplexity_contradicts_the_entry() -> None:
    # The mean loss of the nine tokens is 25.5 / 9 = 2.83 nats.
    limit = 25.5 / 9 - MOST_EXCESS_NATS
    assert TASK.metric == "perplexity"
    assert not contradiction(OUTPUTS, [], torch.tensor(limit + 0.01).exp().item(), "sotu")
    found = contradiction(OUTPUTS, [], torch.tensor(limit - 0.01).exp().item(), "sotu")
    assert found.startswith(
        "has a loss of 2.83 nats a token at the beginning of the first 2 texts of 'sotu', where its registry"
    )
    assert "check its weights and its vocabulary" in found
    assert log(1) == 0


@pytest.mark.parametrize(
    ("words", "num_bytes", "wrong"),
    [
        (None, None, set()),
        (3, 12, set()),
        (4, 12, {"num_words is not below its num_tokens, which count ends of lines"}),
        (3, 2, {"num_bytes is below its num_words"}),
        (3, None, {"num_words and its num_bytes are not known together", "num_bytes is below its num_words"}),
    ],
)
def test_counts_of_a_text_contradict_each_other(words: int | None, num_bytes: int | None, wrong: set[str]) -> None:
    outcome = LanguageOutcome(example_id="a", loss_nats=9.0, num_tokens=4, num_words=words, num_bytes=num_bytes)
    end_of_line = LanguageOutcome(example_id="b", loss_nats=1.0, num_tokens=1)
    found = list(inconsistencies(Outcomes.of([outcome, end_of_line], LanguageOutcome), None))
    assert {f"{each.field} {each.rule}" for each in found if each.rows[0]} == wrong
    assert not any(each.rows[1] for each in found)
