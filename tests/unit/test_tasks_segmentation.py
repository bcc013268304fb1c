"""Tasks of segmentation and language modeling: outcomes by hand and by loops over pixels, and their contradictions."""

import dataclasses
from math import inf, log, nan
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, interpolate

from robench.core.columns import Outcomes, Values
from robench.core.errors import ContractError, UsageError
from robench.datasets import DATASETS
from robench.datasets.base import stand_in
from robench.domains.code_points import CONTEXT_END, encoded_batch
from robench.tasks import TASKS, segmentation_losses_impl
from robench.tasks.base import Scoring
from robench.tasks.language_modeling import LanguageOutcome
from robench.tasks.language_modeling import inconsistencies as inconsistencies_of_texts
from robench.tasks.language_modeling_impl import MOST_EXCESS_NATS, NO_TOKEN, scored_tokens
from robench.tasks.language_modeling_impl import contradiction as contradiction_of_texts
from robench.tasks.segmentation import IGNORED, SegmentationOutcome, inconsistencies
from robench.tasks.segmentation_impl import RULES, confusion, contradiction, gap, pixel_cross_entropy, strips

SCORING = Scoring(dataset=stand_in("segmentation"))
SIZES = [((6, 8), (6, 8)), ((6, 8), (13, 21)), ((6, 8), (3, 5)), ((6, 8), (6, 9)), ((1, 1), (4, 4))]


def sample(size: tuple[int, int], mask: tuple[int, int], num_classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    outputs = torch.randn(3, num_classes, *size, generator=generator)
    targets = torch.randint(IGNORED, num_classes, (3, *mask), generator=generator)
    targets[1] = IGNORED
    return outputs, targets


@pytest.mark.parametrize(("size", "mask"), SIZES)
@pytest.mark.parametrize("rows_at_once", [1, 100])
def test_masks_are_as_of_whole_logits(size: Any, mask: Any, rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, targets = sample(size, mask)
    outputs = outputs.double().requires_grad_()
    monkeypatch.setattr(segmentation_losses_impl, "MOST_VALUES", 3 * 4 * mask[1] * rows_at_once)
    whole = interpolate(outputs, size=mask, mode="bilinear", align_corners=False)
    read = list(strips(outputs, targets))
    assert len(read) == -(-mask[0] // rows_at_once)
    assert torch.allclose(torch.cat([resized() for _, resized in read], 2), whole, atol=1e-12)
    found = pixel_cross_entropy(outputs, targets)
    losses = cross_entropy(whole, targets, ignore_index=IGNORED, reduction="none").flatten(1).sum(1)
    wanted = losses / (targets != IGNORED).flatten(1).sum(1).clamp(min=1)
    assert torch.allclose(found, wanted, atol=1e-12)
    one, other = (torch.autograd.grad(each.sum(), outputs, retain_graph=True)[0] for each in (found, wanted))
    assert torch.allclose(one, other, atol=1e-12)
    assert not one[1].any()


@pytest.mark.parametrize(("size", "mask"), SIZES)
def test_columns_count_pixels_as_a_loop_does(size: Any, mask: Any) -> None:
    outputs, targets = sample(size, mask)
    # Ties go to the lower class.
    outputs[0, 2] = outputs[0, 1]
    made = RULES.columns([outputs, outputs + 9], targets, SCORING)
    whole = interpolate(outputs.double(), size=mask, mode="bilinear", align_corners=False)
    for row in range(3):
        true, guessed, both, losses = [0] * 4, [0] * 4, [0] * 4, []
        for y in range(mask[0]):
            for x in range(mask[1]):
                target, logits = int(targets[row, y, x]), whole[row, :, y, x].tolist()
                if target == IGNORED:
                    continue
                guess = logits.index(max(logits))
                true[target] += 1
                guessed[guess] += 1
                both[target] += guess == target
                losses.append(np.log(np.exp(logits).sum()) - logits[target])
        classes = [each for each in range(4) if true[each] or guessed[each]]
        assert made["classes"].array[row].tolist() == classes
        for name, counts in (("num_true", true), ("num_predicted", guessed), ("num_both", both)):
            assert made[name].array[row].tolist() == [counts[each] for each in classes]
        assert bool(made["loss_nats"].mask[row]) == (not losses)
        if losses:
            assert made["loss_nats"].array[row] == pytest.approx(np.mean(losses), abs=1e-6)


def outcomes(outputs: torch.Tensor, targets: torch.Tensor) -> Outcomes:
    ids = Values(np.array([f"image-{row}" for row in range(len(targets))], np.dtypes.StringDType()))
    columns = {"example_id": ids, **RULES.columns([outputs], targets, SCORING)}
    return Outcomes(SegmentationOutcome, columns, len(targets))


def test_outputs_of_another_size_and_strange_classes_are_refused() -> None:
    outputs, targets = sample((6, 8), (6, 8))
    inputs = torch.zeros(3, 3, 12, 16)
    with pytest.raises(ContractError, match=r"6 x 8 pixels, and its inputs 12 x 16; resize them in the model"):
        RULES.columns([outputs], targets, dataclasses.replace(SCORING, inputs=inputs))
    with pytest.raises(UsageError, match=r"'m' does not fit segmentation: its logits have 6 x 8 pixels"):
        RULES.check_fit(outputs, 4, "m", "d", inputs)
    with pytest.raises(UsageError, match="gives 4 classes, but dataset 'd' has 5"):
        RULES.check_fit(outputs, 5, "m", "d", inputs[:, :, :6, :8])
    RULES.check_fit(outputs, None, "m", "d", inputs[:, :, :6, :8])
    for strange in (4, -2):
        targets[0, 0, 0] = strange
        with pytest.raises(ContractError, match=f"a mask has the class {strange}, and the model gives 4 classes"):
            RULES.columns([outputs], targets, SCORING)


def test_logits_come_out_of_what_libraries_return() -> None:
    outputs, _ = sample((6, 8), (6, 8))
    for returned in (outputs, {"out": outputs, "aux": None}, type("Returned", (), {"logits": outputs})()):
        assert RULES.outputs_of(returned, 3) is outputs


def test_a_model_far_from_its_expected_score_is_named() -> None:
    _outputs, targets = sample((6, 8), (6, 8), 3)
    right = torch.nn.functional.one_hot(targets.clamp(min=0), 3).movedim(-1, 1).float()
    assert contradiction(right, list(targets), 1.0, "d") == ""
    # A list, of images of several sizes.
    assert contradiction([right[0], right[2, :, :3]], [targets[0], targets[2, :3]], 1.0, "d") == ""
    assert "mean IoU of 0.0% on the first 2 images of 'd'" in contradiction(-right[::2], list(targets[::2]), 0.9, "d")


def test_rescoring_sees_how_far_recorded_counts_are() -> None:
    outputs, targets = sample((6, 8), (6, 8))
    recorded = outcomes(outputs, targets)
    assert gap(outputs, targets, recorded, SCORING).tolist() == [0.0, 0.0, 0.0]
    leads = outputs.topk(2, 1).values
    lead = (leads[:, 0] - leads[:, 1]).masked_fill(targets == IGNORED, torch.inf)
    nearest = int(lead[0].argmin())
    flipped = outputs.clone()
    first, second = (each.flatten()[nearest] for each in outputs[0].topk(2, 0).indices)
    for one, other in ((first, second), (second, first)):
        flipped[0, one].view(-1)[nearest] = outputs[0, other].view(-1)[nearest]
    found = gap(flipped, targets, recorded, SCORING)
    assert found[0] == pytest.approx(float(lead[0].min()), rel=1e-6)
    assert found[2] == 0.0
    other = targets.clone()
    other[0, 0, 0] = (other[0, 0, 0] + 1) % 4
    assert gap(outputs, other, recorded, SCORING)[0] == torch.inf


ROW = SegmentationOutcome(
    example_id="a", classes=(1, 4), num_true=(5, 3), num_predicted=(6, 2), num_both=(5, 2), loss_nats=0.5
)


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"classes": (4, 1)}, "classes", "not ascending"),
        ({"classes": (-2, 1)}, "classes", "below 0"),
        ({"classes": (1, 4, 5)}, "num_true", "one number for each"),
        ({"num_both": (5, 3)}, "num_both", "above its num_true or its num_predicted"),
        ({"num_both": (5, -1)}, "num_both", "below 0"),
        ({"num_true": (8, 0), "num_predicted": (8, 0), "num_both": (5, 0)}, "classes", "without a true or predicted"),
        ({"num_predicted": (6, 3)}, "num_predicted", "counts other pixels"),
        ({"loss_nats": -0.1}, "loss_nats", "at least 0"),
        ({"classes": (), "num_true": (), "num_predicted": (), "num_both": ()}, "loss_nats", "no pixel counts"),
    ],
)
def test_edited_outcomes_are_recognised(change: dict[str, Any], field: str, rule: str) -> None:
    sound = [dataclasses.replace(ROW, example_id="b"), dataclasses.replace(ROW, example_id="c")]
    assert not any(each.rows.any() for each in inconsistencies(Outcomes.of(sound), None))
    rows = Outcomes.of([sound[0], dataclasses.replace(ROW, **change), sound[1]])
    broken = [each for each in inconsistencies(rows, None) if each.rows.any()]
    assert (field, [False, True, False]) in [(each.field, each.rows.tolist()) for each in broken]
    assert any(rule in each.rule for each in broken)


def test_classes_beyond_the_datasets_are_recognised() -> None:
    dataset = dataclasses.replace(stand_in("segmentation"), num_classes=4)
    (broken,) = [each for each in inconsistencies(Outcomes.of([ROW]), Scoring(dataset=dataset)) if each.rows.any()]
    assert broken.rule == "must be below the number of classes, 4"


def test_counts_of_masks_are_those_of_the_whole() -> None:
    outputs, targets = sample((6, 8), (6, 8))
    counts = confusion(outputs, targets)
    assert counts.shape == (3, 3, 4)
    assert counts[:, 0].sum(1).tolist() == counts[:, 1].sum(1).tolist() == (targets != IGNORED).sum((1, 2)).tolist()


TASK = TASKS["language-modeling"]
LANGUAGE_RULES = TASK.rules
TEXTS = ["we the people\nof\n", "the union\n"]
# One number a token: (we, the, people, end, of, end) and (the, union, end).
OUTPUTS = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.5, 2.5, 0.5, NO_TOKEN, NO_TOKEN, NO_TOKEN]])


# The same of the clean texts.
CLEAN_OUTPUTS = torch.where(OUTPUTS == NO_TOKEN, OUTPUTS, OUTPUTS / 2)


def columns(perturbed: list[str] | None, clean: list[str] = TEXTS, **scored: torch.Tensor) -> dict[str, list[object]]:
    inputs = None if perturbed is None else encoded_batch(perturbed)
    scoring = Scoring(dataset=DATASETS["sotu"], inputs=inputs, **scored)
    found = LANGUAGE_RULES.columns([OUTPUTS], encoded_batch(clean), scoring)
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
    torch.testing.assert_close(LANGUAGE_RULES.objective(OUTPUTS, encoded_batch(TEXTS)), torch.tensor([3.5, 1.5]))


@pytest.mark.parametrize(
    ("wrong", "what"), [(nan, "NaN or infinite"), (inf, "NaN or infinite"), (-0.5, "negative, which no negative")]
)
def test_numbers_that_are_no_likelihoods_are_refused(wrong: float, what: str) -> None:
    outputs = OUTPUTS.clone()
    outputs[0, 1] = wrong
    with pytest.raises(ContractError, match=f"losses of 1 of 2 texts by model 'mine' are {what}"):
        LANGUAGE_RULES.check_outputs(outputs, 2, "mine")
    LANGUAGE_RULES.check_outputs(OUTPUTS, 2, "mine")


def test_texts_without_a_word_are_refused() -> None:
    with pytest.raises(ContractError, match="a text has no word to predict, so that model 'mine' has no loss on it"):
        LANGUAGE_RULES.check_outputs(torch.full((2, 3), NO_TOKEN), 2, "mine")


@pytest.mark.parametrize("output", [torch.zeros(3, 4), torch.zeros(2), [1.0], torch.zeros(2, 4).long()])
def test_modules_must_return_a_row_a_text(output: object) -> None:
    with pytest.raises(
        ContractError, match=r"for 2 texts, wanted the floating-point negative log-likelihoods of each text's tokens"
    ):
        LANGUAGE_RULES.outputs_of(output, 2)


def test_a_loss_far_above_the_expected_perplexity_contradicts_the_entry() -> None:
    # The mean loss of the nine tokens is 25.5 / 9 = 2.83 nats.
    limit = 25.5 / 9 - MOST_EXCESS_NATS
    assert TASK.metric == "perplexity"
    assert not contradiction_of_texts(OUTPUTS, [], torch.tensor(limit + 0.01).exp().item(), "sotu")
    found = contradiction_of_texts(OUTPUTS, [], torch.tensor(limit - 0.01).exp().item(), "sotu")
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
    found = list(inconsistencies_of_texts(Outcomes.of([outcome, end_of_line], LanguageOutcome), None))
    assert {f"{each.field} {each.rule}" for each in found if each.rows[0]} == wrong
    assert not any(each.rows[1] for each in found)
