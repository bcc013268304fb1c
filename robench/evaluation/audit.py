"""Can a model's robustness number be believed? All checks of one model, on examples that it gets right when clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.core.errors import UsageError
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.evaluation.arithmetic import fixed_arithmetic
from robench.evaluation.comparisons import comparisons
from robench.evaluation.contracts import check_clean, check_logits
from robench.evaluation.indicators import indicators
from robench.evaluation.probe import clean_correct
from robench.evaluation.victim_checks import victim_checks
from robench.perturbations.draws import ExampleDraws

if TYPE_CHECKING:
    from fractions import Fraction

    from robench.core.flags import Flag
    from robench.core.protocols import Dataset, Victim

AUDIT = "audit"


def audit(
    victim: Victim, dataset: Dataset, epsilon: Fraction, num_examples: int, batch_size: int = 100, seed: int = 0
) -> list[Flag]:
    """Return every check of a classifier at a budget in l-infinity (pixel units); nothing is written.

    Raises:
        ContractError: the dataset or the victim broke its promise.
        UsageError: the victim gets none of the examples right.
    """
    batch = dataset.batch(0, min(num_examples, len(dataset)))
    check_clean(batch, dataset.identity.name)
    fingerprint = dataset.identity.fingerprint
    seeds = [example_seed(seed, fingerprint, AUDIT, each) for each in batch.ids]
    prediction = Stream(purpose="prediction")
    predictions = [stream_seed(example_seed(seed, fingerprint, "prediction", each), prediction) for each in batch.ids]
    with fixed_arithmetic(victim.device):
        on_device = type(batch)(
            ids=batch.ids, inputs=batch.inputs.to(victim.device), targets=batch.targets.to(victim.device)
        )
        draws = ExampleDraws(seeds, victim.device, predictions)
        probe = clean_correct(victim, on_device, draws, epsilon, batch_size)
        if not len(probe):
            raise UsageError(f"the model is right about none of {len(batch.ids)} examples, so nothing can be attacked")
        with torch.no_grad():
            logits = victim.logits(probe.batch.inputs[:1], probe.draws.prediction_seeds[:1])
        check_logits(logits, 1, "audited")
        return [*victim_checks(probe), *indicators(probe), *comparisons(probe, logits.shape[1])]
