"""From scores to outcomes, one judge a task: success is decided here and never by an attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.columns import Outcomes, Values
from robench.core.outcomes import ClassificationOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robench.core.protocols import Batch, Perturbed
    from robench.evaluation.contracts import Distances

    Judge = Callable[[torch.Tensor, Batch, "Measured", int], Outcomes]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the harness knows of a perturbed batch beside the victim's scores.

    Attributes:
        other_logits: of further predictions of the same inputs, each with draws of its own.
        epsilon: the budget, where a sweep has several.
        classes: those that may be predicted; None for all.
        has_right_class: whether any class is right; of out-of-distribution examples none is.
        scores_say_all: whether more than the prediction may be read off the scores; not where an attack stopped early,
            unless the point at which it did is what was asked for.
    """

    distances: Distances
    perturbed: Perturbed
    other_logits: tuple[torch.Tensor, ...] = ()
    epsilon: str | None = None
    classes: tuple[int, ...] | None = None
    has_right_class: bool = True
    scores_say_all: bool = True


def judge_classification(logits: torch.Tensor, batch: Batch, measured: Measured, num_examples: int) -> Outcomes:
    """Return the outcomes of the first ``num_examples`` rows of (B, classes) logits.

    A class's place is one plus the number of classes with a higher score, and of lower-numbered ones with the same
    score, so that ties are decided alike on every device (as ``numpy.argmax`` decides them).
    """
    targets = batch.targets.cpu()
    scores, *others = (_scores(each, measured.classes) for each in (logits, *measured.other_logits))
    log_shares = torch.log_softmax(scores, dim=1)
    places, *other_places = (_places(each, targets, measured) for each in (scores, *others))
    num_correct = torch.stack([each == 0 for each in (places, *other_places)]).sum(0)
    predictions = torch.from_numpy(scores.numpy().argmax(1))
    losses = -log_shares.gather(1, targets[:, None])[:, 0]
    confidences = log_shares.amax(1).exp()
    distances, perturbed = measured.distances, measured.perturbed
    counted = {
        "found": perturbed.found,
        "num_queries": perturbed.num_queries,
        "num_gradients": perturbed.num_gradients,
        "num_clamped": perturbed.num_clamped,
        "correct_top5": places < 5 if measured.scores_say_all else None,
        "confidence": confidences if measured.scores_say_all else None,
        "loss_nats": losses if measured.scores_say_all and measured.has_right_class else None,
        "num_predictions": torch.full_like(targets, 1 + len(others)) if others else None,
        "num_correct": num_correct if others else None,
    }
    always = {
        "linf": distances.linf,
        "l2": distances.l2,
        "l1": distances.l1,
        "target": targets,
        "prediction": predictions,
        "correct_top1": places == 0,
    }
    known = always | {name: column for name, column in counted.items() if column is not None}
    columns = {name: Values(column.cpu().numpy()[:num_examples]) for name, column in known.items()}
    if "num_clamped" in columns:
        # Missing for 0, as in records that were kept before anything was counted.
        array = columns["num_clamped"].array
        columns["num_clamped"] = Values(array, array == 0)
    texts = {"example_id": batch.ids[:num_examples]}
    if measured.epsilon is not None:
        texts["epsilon"] = (measured.epsilon,) * num_examples
    columns |= {name: Values(np.array(text, np.dtypes.StringDType())) for name, text in texts.items()}
    return Outcomes(ClassificationOutcome, columns, num_examples)


def _scores(logits: torch.Tensor, classes: tuple[int, ...] | None) -> torch.Tensor:
    """Return (B, classes) scores in float64 on the CPU, minus infinity for classes that may not be predicted."""
    scores = logits.double().cpu()
    if classes is None:
        return scores
    masked = torch.full_like(scores, -torch.inf)
    masked[:, list(classes)] = scores[:, list(classes)]
    return masked


def _places(scores: torch.Tensor, targets: torch.Tensor, measured: Measured) -> torch.Tensor:
    """Return how many classes are ahead of the target, (B,); all of them where no class is right."""
    if not measured.has_right_class:
        return torch.full_like(targets, scores.shape[1])
    of_target = scores.gather(1, targets[:, None])
    ties = (scores == of_target) & (torch.arange(scores.shape[1]) < targets[:, None])
    return ((scores > of_target) | ties).sum(1)


JUDGES: Mapping[str, Judge] = {"classification": judge_classification}
