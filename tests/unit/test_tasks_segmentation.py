"""Rules of segmentation beside loops over pixels, and contradictions in their outcomes."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, interpolate

from robench.core.columns import Outcomes, Values
from robench.core.errors import ContractError, UsageError
from robench.datasets.base import stand_in
from robench.tasks import segmentation_losses_impl
from robench.tasks.base import Scoring
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
