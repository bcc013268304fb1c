"""Outcomes of smoothed models: a class by the votes of some draws, and a certificate by those of others.

The algorithm is CERTIFY of Cohen et al. 2019, arXiv:1902.02918: the draws that bound the probability of a class are
independent of the draws that choose it. A model abstains where the draws do not show a probability above 1/2.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from robench.core.columns import Values
from robench.core.errors import ContractError
from robench.core.seeds import LazySeeds
from robench.evaluation.coupling import LOGITS_LIMIT, measure_coupling
from robench.metrics.certified_radii import certified_radius, least_probability
from robench.models.smoothed import SmoothedModel

SELECTION, ESTIMATION = "selection", "estimation"


def certified_columns(
    model: SmoothedModel, inputs: Tensor, targets: Tensor, seeds: Sequence[Sequence[int]]
) -> dict[str, Values]:
    """Return the columns of classification for one pass of inputs (B, ...) and targets (B,).

    ``seeds`` have one seed per example for each prediction.

    Raises:
        ContractError: the condition has several predictions; or the model under the noise is not a function of each
            input alone, so that its votes prove nothing.
    """
    if len(seeds) != 1:
        raise ContractError(f"a smoothed model has one prediction of many draws, got num_predictions {len(seeds)}")
    _require_function(model, inputs, seeds[0])
    smoothing = model.smoothing
    selected = model.votes(inputs, seeds[0], SELECTION, smoothing.selection).argmax(dim=1)
    counts = model.votes(inputs, seeds[0], ESTIMATION, smoothing.draws)
    votes = counts.gather(1, selected[:, None])[:, 0].cpu().numpy()
    least = least_probability(votes, smoothing.draws, float(smoothing.alpha))
    radius, abstained = certified_radius(least, float(smoothing.sigma)), least <= 0.5
    prediction, target = selected.cpu().numpy(), targets.cpu().numpy()
    unknown = np.ones(len(votes), np.bool_)
    return {
        "target": Values(target),
        "prediction": Values(prediction),
        "correct_top1": Values((prediction == target) & ~abstained),
        "correct_top5": Values(np.zeros(len(votes), np.bool_), unknown),
        "confidence": Values(np.zeros(len(votes)), unknown),
        "loss_nats": Values(np.zeros(len(votes)), unknown),
        "votes": Values(votes),
        "abstained": Values(abstained),
        "certified_radius": Values(radius, abstained),
    }


def _require_function(model: SmoothedModel, inputs: Tensor, seeds: Sequence[int]) -> None:
    lazy = LazySeeds(lambda: tuple(seeds), len(seeds))
    with torch.no_grad():
        model.base.outputs(inputs, lazy)
    found = measure_coupling(model.base, inputs, seeds, num_copied=1)
    if lazy.were_read or (found is not None and found.repeated.logits > LOGITS_LIMIT):
        reason = "it draws random numbers of its own"
    elif found is not None and (found.is_coupled or found.changes):
        reason = found.finding
    else:
        return
    raise ContractError(f"the model cannot be smoothed, since its draws are not independent: {reason}")
