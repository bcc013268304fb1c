"""Shards on a device: the records of a CPU, and few waits a batch beside those of the attack."""

from fractions import Fraction
from typing import Any

import pytest
import torch
from classified_examples import Examples
from counting_device import DEVICE, waits_counted
from torch import nn

from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.core.records import Record
from robench.declarations.preprocessing import ImagePreprocessing
from robench.evaluation.evaluate import evaluate
from robench.models.loaded import LoadedModel
from robench.perturbations.clean import Clean

SIZE, BATCH_SIZE = 16, 8
EPSILON = Fraction(8, 255)
EXAMPLES = Examples(SIZE, (3, 4, 4), num_classes=10)
PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def model_on(device: torch.device) -> LoadedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.Tanh(), nn.Linear(16, 10))
    return LoadedModel(module, PREPROCESSING, device)


def record_on(device: torch.device, perturbation: Any) -> tuple[Record, int]:
    shard = EXAMPLES.shard(perturbation, batch_size=BATCH_SIZE)
    with waits_counted() as waited:
        model = model_on(device)
        waited.counts.clear()
        return evaluate(shard, model, EXAMPLES), waited.total


@pytest.mark.parametrize(
    ("perturbation", "a_batch"),
    [
        (Clean(), 8),
        (UniformNoise(epsilon=EPSILON), 10),
        (Fgsm(epsilon=EPSILON), 11),
        # The same as of one step: none of PGD's own waits.
        (Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=10), 11),
    ],
)
def test_a_batch_waits_for_its_checks_and_its_columns_alone(perturbation: Any, a_batch: int) -> None:
    record, num_waits = record_on(DEVICE, perturbation)
    on_cpu, none = record_on(torch.device("cpu"), perturbation)
    assert none == 0
    # A shard of many passes ends with a comparison of the model's answer with that at the start.
    at_the_end = 4 if sum(perturbation.most_passes or (0,)) >= 10 else 0
    assert num_waits <= a_batch * SIZE // BATCH_SIZE + at_the_end
    assert record.outcomes == on_cpu.outcomes
    assert record.shard == on_cpu.shard
    assert record.provenance.device == DEVICE.type
