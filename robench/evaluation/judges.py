"""From scores to outcomes, one judge a task: success is decided here and never by an attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from robench.core.outcomes import ClassificationOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robench.core.outcomes import Outcome
    from robench.core.protocols import Batch, Perturbed
    from robench.evaluation.contracts import Distances

    Judge = Callable[[torch.Tensor, Batch, "Measured", int], tuple[Outcome, ...]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the harness knows of a perturbed batch beside the victim's scores.

    Attributes:
        other_logits: of further predictions of the same inputs, each with draws of its own.
        epsilon: the budget, where a sweep has several.
        scores_say_all: whether more than the prediction may be read off the scores; not where an attack stopped early.
    """

    distances: Distances
    perturbed: Perturbed
    other_logits: tuple[torch.Tensor, ...] = ()
    epsilon: str | None = None
    scores_say_all: bool = True


def judge_classification(
    logits: torch.Tensor, batch: Batch, measured: Measured, num_examples: int
) -> tuple[ClassificationOutcome, ...]:
    """Return the outcomes of the first ``num_examples`` rows of (B, classes) logits.

    A class's place is one plus the number of classes with a higher score, and of lower-numbered ones with the same
    score, so that ties are decided alike on every device (as ``numpy.argmax`` decides them).
    """
    scores = logits.double().cpu()
    targets = batch.targets.cpu()
    log_shares = torch.log_softmax(scores, dim=1)
    places = _places(scores, targets)
    predictions_made = (scores, *(each.double().cpu() for each in measured.other_logits))
    num_correct = torch.stack([_places(each, targets) == 0 for each in predictions_made]).sum(0)
    num_predictions = len(predictions_made) if measured.other_logits else None
    predictions = torch.from_numpy(scores.numpy().argmax(1))
    losses = -log_shares.gather(1, targets[:, None])[:, 0]
    confidences = log_shares.amax(1).exp()
    distances, perturbed = measured.distances, measured.perturbed
    linf, l2, l1 = (values.tolist() for values in (distances.linf, distances.l2, distances.l1))
    found, num_queries, num_gradients = (
        [None] * len(targets) if values is None else values.tolist()
        for values in (perturbed.found, perturbed.num_queries, perturbed.num_gradients)
    )
    return tuple(
        ClassificationOutcome(
            example_id=batch.ids[i],
            epsilon=measured.epsilon,
            linf=linf[i],
            l2=l2[i],
            l1=l1[i],
            found=found[i],
            num_queries=num_queries[i],
            num_gradients=num_gradients[i],
            target=int(targets[i]),
            prediction=int(predictions[i]),
            correct_top1=bool(places[i] == 0),
            correct_top5=bool(places[i] < 5) if measured.scores_say_all else None,
            confidence=float(confidences[i]) if measured.scores_say_all else None,
            loss_nats=float(losses[i]) if measured.scores_say_all else None,
            num_predictions=num_predictions,
            num_correct=int(num_correct[i]) if num_predictions else None,
        )
        for i in range(num_examples)
    )


def _places(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return how many classes are ahead of the target, (B,)."""
    of_target = scores.gather(1, targets[:, None])
    ties = (scores == of_target) & (torch.arange(scores.shape[1]) < targets[:, None])
    return ((scores > of_target) | ties).sum(1)


JUDGES: Mapping[str, Judge] = {"classification": judge_classification}
