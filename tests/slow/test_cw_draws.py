"""CW on a published model that draws: every example of a batch, alone and among the others."""

import torch
from attack_examples import rows_of

from robench import load_checkpoint, load_dataset
from robench.attacks.cw import Cw
from robench.core.seeds import example_seed
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

NUM_EXAMPLES = 24


def test_no_point_depends_on_the_other_examples() -> None:
    victim, dataset = load_checkpoint("digits-mom-vit"), load_dataset("digits")
    batch = dataset.batch(0, NUM_EXAMPLES)
    seeds = [example_seed(0, dataset.identity.fingerprint, "cw", each) for each in batch.ids]
    declared = Cw(num_steps=50, num_search_steps=3, initial_c=1.0, learning_rate=0.01)
    whole = perturb(declared, batch, victim, ExampleDraws(seeds), NUM_EXAMPLES)
    differ = []
    for row in range(NUM_EXAMPLES):
        alone = perturb(declared, rows_of(batch, [row]), victim, ExampleDraws([seeds[row]]), NUM_EXAMPLES)
        differ += [] if torch.equal(alone.inputs[0], whole.inputs[row]) else [row]
    assert whole.num_queries is not None
    assert len(set(whole.num_queries.tolist())) > 1
    assert differ == []
