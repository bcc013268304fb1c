"""Declaration of semantic segmentation: one class for each pixel, and its consistent outcomes.

An outcome holds counts of pixels by class, from which every number follows: those of a set of images are sums of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robench.core.outcomes import Outcome
from robench.tasks.base import Broken, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.tasks.base import Scoring

# Target of pixels that count nowhere.
IGNORED = -1
COUNTS = ("num_true", "num_predicted", "num_both")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentationOutcome(Outcome):
    """Outcome of a segmentation model on one image, over the pixels whose target is not ``IGNORED``.

    Attributes:
        classes: classes that occur among the targets or the predictions, ascending; empty if all pixels are ignored.
        num_true: number of pixels whose target is each of these classes; ``num_predicted``: number of pixels that the
            model assigns to it (ties go to the lower class); ``num_both``: number of pixels of both.
        loss_nats: mean cross-entropy of the pixels, in nats; None if there are none.
    """

    classes: tuple[int, ...]
    num_true: tuple[int, ...]
    num_predicted: tuple[int, ...]
    num_both: tuple[int, ...]
    loss_nats: float | None = None


SEGMENTATION = Task(
    name="segmentation",
    title="One class of several for each pixel of an image",
    outcome=SegmentationOutcome,
    implementation="robench.tasks.segmentation_impl:RULES",
    metric="mean_iou",
    losses=("ce", "segpgd", "cospgd", "masked-ce", "balanced-ce", "js"),
    contradiction="robench.tasks.segmentation_impl:contradiction",
    gap="robench.tasks.segmentation_impl:gap",
    is_audited=True,
    proportion="robench.tasks.segmentation:proportion_right",
    answers_as="mask",
    consistency="robench.tasks.segmentation:inconsistencies",
    hub_types={"images": "image-segmentation"},
)


def proportion_right(outcomes: Outcomes) -> NDArray[np.float64]:
    """Return the proportion (N,) of right pixels of each image; see ``tasks.base.Proportion``."""
    import numpy as np

    right, true = (
        np.fromiter((each.sum() for each in outcomes.column(name)), np.float64, len(outcomes))
        for name in ("num_both", "num_true")
    )
    return right / np.maximum(true, 1)


def inconsistencies(outcomes: Outcomes, scoring: Scoring | None) -> Iterator[Broken]:
    """Yield contradictions in the outcomes of a segmentation model; see ``tasks.base.Consistency``."""
    import numpy as np

    classes = outcomes.column("classes")
    true, predicted, both = (outcomes.column(name) for name in COUNTS)

    def rows(is_broken: Iterable[Any]) -> NDArray[np.bool_]:
        return np.fromiter(is_broken, np.bool_, len(outcomes))

    yield Broken("classes", rows(each.size > 0 and each.min() < 0 for each in classes), "are below 0")
    yield Broken("classes", rows((np.diff(each) <= 0).any() for each in classes), "are not ascending")
    if scoring is not None and (count := scoring.dataset.num_classes) is not None:
        wanted = f"must be below the number of classes, {count}"
        yield Broken("classes", rows(each.size > 0 and each.max() >= count for each in classes), wanted)
    for name in COUNTS:
        uneven = rows(len(one) != len(other) for one, other in zip(classes, outcomes.column(name), strict=True))
        yield Broken(name, uneven, "has not one number for each of its classes")
        if uneven.any():
            return
    counts = list(zip(true, predicted, both, strict=True))
    yield Broken("num_both", rows((least < 0).any() for _, _, least in counts), "is below 0")
    yield Broken(
        "num_both",
        rows((least > np.minimum(one, other)).any() for one, other, least in counts),
        "is above its num_true or its num_predicted",
    )
    unused = rows((np.maximum(one, other) < 1).any() for one, other, _ in counts)
    yield Broken("classes", unused, "have one without a true or predicted pixel")
    uneven = rows(one.sum() != other.sum() for one, other, _ in counts)
    yield Broken("num_predicted", uneven, "counts other pixels than its num_true")
    loss, is_empty = outcomes.filled("loss_nats", 0.0), rows(each.size == 0 for each in classes)
    yield Broken("loss_nats", ~(np.isfinite(loss) & (loss >= 0)), "must be finite and at least 0")
    yield Broken("loss_nats", outcomes.known("loss_nats") & is_empty, "is known, and no pixel counts")
