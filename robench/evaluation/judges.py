"""From scores to outcomes, one judge a task: success is decided here and never by an attack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.core.outcomes import ClassificationOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robench.core.outcomes import Outcome
    from robench.core.protocols import Batch
    from robench.evaluation.contracts import Distances

    Judge = Callable[[torch.Tensor, Batch, Distances, int], tuple[Outcome, ...]]


def judge_classification(
    logits: torch.Tensor, batch: Batch, distances: Distances, num_examples: int
) -> tuple[ClassificationOutcome, ...]:
    """Return the outcomes of the first ``num_examples`` rows of (B, classes) logits.

    A class's place is one plus the number of classes with a higher score, and of lower-numbered ones with the same
    score, so that ties are decided alike on every device (as ``numpy.argmax`` decides them).
    """
    scores = logits.double().cpu()
    targets = batch.targets.cpu()
    log_shares = torch.log_softmax(scores, dim=1)
    of_target = scores.gather(1, targets[:, None])
    ahead = (scores > of_target) | ((scores == of_target) & (torch.arange(scores.shape[1]) < targets[:, None]))
    places = ahead.sum(1)
    predictions = torch.from_numpy(scores.numpy().argmax(1))
    losses = -log_shares.gather(1, targets[:, None])[:, 0]
    confidences = log_shares.amax(1).exp()
    linf, l2, l1 = (values.tolist() for values in (distances.linf, distances.l2, distances.l1))
    return tuple(
        ClassificationOutcome(
            example_id=batch.ids[i],
            linf=linf[i],
            l2=l2[i],
            l1=l1[i],
            target=int(targets[i]),
            prediction=int(predictions[i]),
            correct_top1=bool(places[i] == 0),
            correct_top5=bool(places[i] < 5),
            confidence=float(confidences[i]),
            loss_nats=float(losses[i]),
        )
        for i in range(num_examples)
    )


JUDGES: Mapping[str, Judge] = {"classification": judge_classification}
