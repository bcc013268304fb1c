"""Flags of attacks that know attention: raised where they find significantly more than the strongest other attack."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robench.attacks.local import AttentionTerm
from robench.attacks.pgd import Pgd
from robench.core.protocols import Batch
from robench.core.seeds import LazySeeds
from robench.datasets import DATASETS
from robench.declarations.supports import Patches
from robench.evaluation.attention_audit import attention_comparisons
from robench.evaluation.probe import Probe
from robench.metrics.sanity import KNOWS_ATTENTION
from robench.perturbations.draws import ExampleDraws
from robench.reports.flags import Tried, flags_of

PLAIN = Pgd(epsilon=Fraction(2, 255), relative_step=Fraction(1, 4), num_steps=20)
KNOWING = {
    "distance": replace(PLAIN, attention=AttentionTerm(loss="distance")),
    "mechanism": replace(PLAIN, gradients="mechanism"),
    "placed": replace(PLAIN, patches=Patches(size=4), place="attention"),
}


def tried(name: str, attack: Pgd, num_fooled: int) -> Tried:
    survives = np.arange(100) >= num_fooled
    return Tried(name, DATASETS["digits"], attack, attack.threat_model, survives)


def raised(*attacks: Tried) -> list[str]:
    flags = flags_of([], attacks) or ()
    return [each.finding for each in flags if each.name == KNOWS_ATTENTION.name and each.is_raised]


def test_the_strongest_attack_that_knows_attention_is_named_beside_the_strongest_other() -> None:
    weak, strong = tried("weak", replace(PLAIN, num_steps=5), 5), tried("pgd", PLAIN, 20)
    known = [tried("distance", KNOWING["distance"], 31), tried("mechanism", KNOWING["mechanism"], 40)]
    (finding,) = raised(weak, strong, *known)
    assert finding == "mechanism against pgd: 20.0 points fewer survive (p = 3.8e-06)"
    assert raised(weak, strong, tried("distance", KNOWING["distance"], 20)) == []


def test_p_is_multiplied_by_the_number_of_attacks_that_the_best_is_chosen_from() -> None:
    strong, other = tried("pgd", PLAIN, 20), tried("distance", KNOWING["distance"], 20)
    best = tried("mechanism", KNOWING["mechanism"], 28)
    # 8 images of 8: p = 2 / 2^8 = 0.0078, of two attacks 0.016.
    assert len(raised(strong, best)) == 1
    assert raised(strong, best, other) == []


def test_attacks_under_other_threat_models_are_not_compared() -> None:
    assert raised(tried("pgd", PLAIN, 20), tried("placed", KNOWING["placed"], 90)) == []
    beside = tried("patch", replace(PLAIN, patches=Patches(size=4)), 60)
    assert len(raised(tried("pgd", PLAIN, 20), beside, tried("placed", KNOWING["placed"], 90))) == 1


class Hidden:
    """Model of one layer with 16 tokens, whose outputs may be rounded: then their gradients alone are zero."""

    device = torch.device("cpu")
    normalisation = (torch.zeros(3, 1, 1), torch.ones(3, 1, 1))

    def __init__(self, *, is_rounded: bool) -> None:
        self.is_rounded = is_rounded
        self.keys = torch.randn(48, 8, generator=torch.Generator().manual_seed(1))

    def outputs(self, inputs: Tensor, seeds: Any = None) -> Tensor:
        return self.outputs_and_layers(inputs)[0]

    def outputs_and_layers(self, inputs: Tensor, seeds: Any = None) -> tuple[Tensor, list[Any]]:
        tokens = inputs.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).reshape(len(inputs), 16, 48)
        scores = (tokens - 0.5) @ self.keys
        weights = (3 * scores @ scores.transpose(-2, -1)).softmax(-1)
        logits = torch.stack([weights[:, :, :8].sum((1, 2)), weights[:, :, 8:].sum((1, 2))], 1)
        if self.is_rounded:
            logits = logits.round()
        heads = dict.fromkeys(("queries_BHND", "keys_BHMD"), scores[:, None])
        return logits, [Layer(tokens_BNC=tokens, weights_BHNM=weights[:, None], **heads)]

    def with_gradients(self, mode: str) -> "Hidden":
        return self


class Layer:
    def __init__(self, **tensors: Tensor) -> None:
        vars(self).update(tensors)

    def rows(self, n: int) -> "Layer":
        return Layer(**{name: each[:n] for name, each in vars(self).items()})


@pytest.mark.parametrize("is_rounded", [True, False])
def test_a_model_that_hides_its_outputs_but_not_its_attention_is_found_out(is_rounded: bool) -> None:
    model = Hidden(is_rounded=is_rounded)
    inputs = 0.4 + 0.2 * torch.rand(60, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    targets = model.outputs(inputs).argmax(1)
    batch = Batch(ids=tuple(map(str, range(60))), inputs=inputs, targets=targets)
    probe = Probe(
        model=model,
        batch=batch,
        draws=ExampleDraws(range(60), torch.device("cpu"), LazySeeds(lambda: range(60), 60)),
        epsilon=Fraction(1, 10),
        half_range=Fraction(1, 2),
        batch_size=60,
    )
    in_ball, in_patch = attention_comparisons(probe)
    assert in_ball.is_raised is is_rounded
    assert in_ball.finding.startswith("PGD that moves attention against PGD of 20 steps")
    assert in_patch.finding.split(" against ")[1].startswith("PGD in 1-patch-2x2")
