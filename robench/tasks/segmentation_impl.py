"""Rules of semantic segmentation: outputs are logits (B, K, h, w) of the inputs' size, targets int64 (B, H, W).

Where a mask has another size than the inputs, logits are resized to it; see ``segmentation_losses_impl``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from robench.core.columns import Outcomes, Values, lists_of
from robench.core.errors import ContractError, UsageError
from robench.tasks.base import Loss, Scoring
from robench.tasks.segmentation import COUNTS, IGNORED
from robench.tasks.segmentation_losses_impl import (
    LOSSES,
    num_counted,
    pixel_cross_entropy,
    predicted,
    strips,
    summed,
)

# A model whose mean IoU is below this part of the expected one has other weights, or classes in another order.
LEAST_PROPORTION = 0.25


def confusion(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the numbers of true, predicted and both pixels by class, (B, 3, K) int64."""
    num_classes = outputs.shape[1]

    def of_strip(logits: Tensor, classes: Tensor) -> Tensor:
        own, counted = predicted(logits), classes != IGNORED
        pixels = (classes, own, torch.where(own == classes, own, IGNORED))
        places = [torch.where(counted & (each != IGNORED), each, num_classes).flatten(1) for each in pixels]
        ones = torch.ones_like(places[0])
        counts = [each.new_zeros(len(each), num_classes + 1).scatter_add_(1, each, ones) for each in places]
        return torch.stack(counts, 1)[:, :, :num_classes]

    with torch.no_grad():
        return summed(outputs, targets, of_strip)


class SegmentationRules:
    """Rules of segmentation; see ``tasks.base.TaskRules`` and ``ManyAnswers``."""

    losses: Mapping[str, Loss] = LOSSES
    objective: Loss = staticmethod(pixel_cross_entropy)
    judged_by: Loss = staticmethod(pixel_cross_entropy)

    def outputs_of(self, output: object, num_rows: int) -> Tensor:
        """Extract the logits (B, classes, H, W) from a module's return value, which may be an object or a mapping.

        Raises:
            ContractError: it contains no such logits.
        """
        # Models of torchvision return a mapping, those of the transformers library an object.
        logits: object = output.get("out", output) if isinstance(output, Mapping) else getattr(output, "logits", output)
        if not isinstance(logits, torch.Tensor):
            raise ContractError(
                f"the model returned a {type(output).__name__}, wanted logits (batch, classes, height, width), an"
                " object with .logits or a mapping with 'out': wrap it so that it returns those alone"
            )
        if logits.ndim != 4 or len(logits) != num_rows or not logits.is_floating_point():
            raise ContractError(
                f"the model returned {tuple(logits.shape)} of {logits.dtype} for {num_rows} images, wanted "
                f"floating-point logits ({num_rows}, classes, height, width)"
            )
        return logits

    def of_one_size(self, examples: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return the centres of images (C, H, W), and those of their masks at the size of the images.

        Masks of other sizes are resized to their images', each pixel to the nearest target.
        """
        height, width = (min(image.shape[axis] for image, _ in examples) for axis in (1, 2))
        parts = []
        for image, mask in examples:
            top, left = (image.shape[1] - height) // 2, (image.shape[2] - width) // 2
            resized = interpolate(mask[None, None].double(), image.shape[1:], mode="nearest-exact")[0, 0].to(mask.dtype)
            place = slice(top, top + height), slice(left, left + width)
            parts.append((image[:, place[0], place[1]], resized[place]))
        images, masks = zip(*parts, strict=True)
        return torch.stack(images), torch.stack(masks)

    def check_outputs(self, outputs: Tensor, num_rows: int, model: str) -> None:
        """Refuse logits that are not (B, classes, H, W) finite numbers.

        Raises:
            ContractError: the logits are invalid; nothing is recorded.
        """
        if outputs.ndim != 4 or len(outputs) != num_rows:
            raise ContractError(
                f"model {model!r} returned shape {tuple(outputs.shape)}, wanted ({num_rows}, classes, height, width)"
            )
        if rows := int((~torch.isfinite(outputs)).flatten(1).any(1).sum()):
            raise ContractError(f"model {model!r} returned NaN or infinite logits for {rows} of {num_rows} images")

    def columns(self, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> Mapping[str, Values]:
        """Return the counts and the loss, (B,) each, of the first prediction."""
        logits = outputs[0]
        if scoring.inputs is not None:
            _check_size(logits, scoring.inputs)
        num_classes = logits.shape[1]
        if bool(((targets < 0) & (targets != IGNORED) | (targets >= num_classes)).any()):
            worst = int(targets.max())
            raise ContractError(
                f"a mask has the class {worst if worst >= num_classes else int(targets.min())}, and the model gives "
                f"{num_classes} classes; check num_classes and the masks of {scoring.dataset.name}"
            )
        counts = confusion(logits, targets).cpu().numpy()
        present = [np.flatnonzero(each[:2].any(0)) for each in counts]
        columns = {"classes": Values(lists_of(present))}
        for place, name in enumerate(COUNTS):
            columns[name] = Values(
                lists_of([each[place][classes] for each, classes in zip(counts, present, strict=True)])
            )
        with torch.no_grad():
            losses = pixel_cross_entropy(logits.double(), targets).clamp(min=0).cpu().numpy()
        is_empty = np.array([not len(classes) for classes in present])
        return columns | {"loss_nats": Values(losses, is_empty)}

    def check_fit(self, outputs: Tensor, num_classes: int | None, model: str, dataset: str, inputs: Tensor) -> None:
        """Refuse logits of another size than the inputs, or of another number of classes than the dataset's.

        Raises:
            UsageError: the message says what was found and what to do.
        """
        try:
            _check_size(outputs, inputs)
        except ContractError as error:
            raise UsageError(f"model {model!r} does not fit segmentation: {error}") from error
        if num_classes is not None and outputs.shape[1] != num_classes:
            raise UsageError(
                f"model {model!r} gives {outputs.shape[1]} classes, but dataset {dataset!r} has {num_classes}; "
                "choose a suite on the data that the model was trained for"
            )

    def labels_of(self, outputs: Tensor) -> Any:
        """Return the predicted class of each pixel, (B, H, W)."""
        return predicted(outputs)

    def is_fooled(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return (B,) false: of an image some pixels are right, and attacks go on to their end."""
        return torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)

    def num_right(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the number (B,) of pixels that get their class; ignored ones do not count."""

        def of_strip(logits: Tensor, classes: Tensor) -> Tensor:
            # No class is the ignored one.
            return (predicted(logits) == classes).flatten(1).sum(1)

        with torch.no_grad():
            return summed(outputs, labels, of_strip)

    def num_answers(self, labels: Tensor) -> Tensor:
        """Return the number (B,) of pixels that are not ignored, at least 1."""
        return num_counted(labels)

    def own_labels(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the predicted class of each pixel of the masks (B, H, W), ignored where they ignore it."""
        parts = [predicted(resized()) for _, resized in strips(outputs, labels)]
        return torch.where(labels == IGNORED, IGNORED, torch.cat(parts, 1))


RULES = SegmentationRules()


def _check_size(outputs: Tensor, inputs: Tensor) -> None:
    if outputs.shape[-2:] != inputs.shape[-2:]:
        found, wanted = (" x ".join(map(str, each.shape[-2:])) for each in (outputs, inputs))
        raise ContractError(
            f"its logits have {found} pixels, and its inputs {wanted}; resize them in the model, as its authors do "
            "(torch.nn.functional.interpolate)"
        )


def mean_iou_of(counts: Tensor) -> float:
    """Return the mean IoU of the counts (3, K), over the classes that are true or predicted somewhere; NaN of none."""
    true, guessed, both = counts.double()
    union = true + guessed - both
    return float((both / union)[union > 0].mean())


def contradiction(outputs: Sequence[Tensor], targets: Sequence[Tensor], expected: float, dataset: str) -> str:
    """Return whether the mean IoU is far below the expected one; see ``tasks.base``.

    On a few images it is lower than on all, since a class that is only predicted counts as 0.
    """
    counts = sum(
        confusion(each[None], target.to(each.device)[None])[0] for each, target in zip(outputs, targets, strict=True)
    )
    assert isinstance(counts, Tensor)  # of at least one example
    found = mean_iou_of(counts)
    if not found < LEAST_PROPORTION * expected:
        return ""
    return (
        f"has a mean IoU of {found:.1%} on the first {len(targets)} images of {dataset!r}, where its registry entry "
        f"expects {expected:.1%}: check its weights, its preprocessing (mean, std, resize) and the order of its classes"
    )


def gap(outputs: Tensor, targets: Tensor, recorded: Outcomes, scoring: Scoring) -> Tensor:
    """Return by how much the logits (B, K, H, W) must change to give the recorded counts; see ``tasks.base``.

    Counts say of no pixel which class it got. So many pixels as differ must change at least: the smallest leads of the
    predicted class over the next are theirs.
    """
    del scoring
    gaps = []
    for row in range(len(outputs)):
        logits, target = outputs[row : row + 1], targets[row : row + 1]
        counts = confusion(logits, target)[0].cpu()
        wanted = torch.zeros_like(counts)
        present = torch.from_numpy(recorded.column("classes")[row].copy())
        if len(present) and int(present.max()) >= wanted.shape[1]:
            gaps.append(torch.inf)
            continue
        for place, name in enumerate(COUNTS):
            wanted[place, present] = torch.from_numpy(recorded.column(name)[row].copy())
        if not torch.equal(wanted[0], counts[0]):
            gaps.append(torch.inf)
            continue
        # A pixel that changes its class takes one from a count of predicted ones and adds one to another.
        guessed, both = (wanted - counts)[1:].abs().sum(1).tolist()
        num_changed = max(guessed // 2, both)
        gaps.append(float(_leads(logits, target).sort().values[:num_changed].max()) if num_changed else 0.0)
    return torch.tensor(gaps, dtype=torch.float64)


def _leads(logits: Tensor, target: Tensor) -> Tensor:
    parts = []
    for rows, resized in strips(logits, target):
        first, second = resized().double().topk(2, 1).values[0]
        parts.append((first - second)[target[0, rows] != IGNORED])
    return torch.cat(parts).cpu()
