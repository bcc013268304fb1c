"""Made-up results for leaderboards: suites with a sweep and corruptions, and stores filled with seeded outcomes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, outcome_of
from robench.core.columns import Outcomes
from robench.core.flags import Flag
from robench.core.protocols import Store
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Measurement, Shard
from robench.core.suite import Condition, Suite, views_of
from robench.declare import parse_suite
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of
from robench.tasks.classification import ClassificationOutcome

NUM_EXAMPLES = 120
TYPES = ("gaussian_noise", "contrast")
# Four conditions.
ADV = {
    "name": "adv",
    "version": 1,
    "description": "Made-up results under attacks",
    "seed": 0,
    "dataset": "digits",
    "batch_size": 20,
    "batches_per_shard": 3,
    "conditions": [
        {"name": "clean", "num_examples": NUM_EXAMPLES},
        {"name": "fgsm", "num_examples": NUM_EXAMPLES, "perturbation": {"kind": "fgsm", "epsilon": "8/255"}},
        {
            "name": "pgd",
            "num_examples": NUM_EXAMPLES,
            "perturbation": {"kind": "pgd", "epsilon": "8/255", "step_size": "2/255", "num_steps": 4},
        },
        {
            "name": "pgd-half",
            "num_examples": NUM_EXAMPLES,
            "perturbation": {"kind": "pgd", "epsilon": "4/255", "step_size": "1/255", "num_steps": 4},
        },
    ],
    "metrics": ["top1_accuracy", "robust_accuracy"],
}
SHIFT = {
    "name": "shift",
    "version": 2,
    "description": "Made-up results at rising budgets and under corruptions",
    "seed": 0,
    "dataset": "digits",
    "batch_size": 20,
    "batches_per_shard": 6,
    "audit": False,
    "conditions": [
        {"name": "clean", "num_examples": NUM_EXAMPLES},
        {
            "name": "sweep",
            "num_examples": NUM_EXAMPLES,
            "perturbation": {
                "kind": "pgd",
                "epsilons": ["0", "2/255", "4/255", "8/255"],
                "relative_step": "1/4",
                "num_steps": 4,
            },
        },
        *(
            {
                "name": f"{kind}-{severity}",
                "num_examples": NUM_EXAMPLES,
                "perturbation": {"kind": "corruption", "type": kind, "severity": severity, "constants": "cifar"},
            }
            for kind in TYPES
            for severity in (1, 2, 3, 4, 5)
        ),
    ],
    "metrics": ["top1_accuracy", "mean_error", "corruption_error"],
}
MASKED = Flag(
    name="zero gradients",
    source="Carlini et al. 2019",
    value=0.4,
    limit=0.1,
    is_raised=True,
    finding="40 % of the gradients are zero",
    advice="attack with square",
)
FINE = replace(MASKED, name="coupled rows", value=0.0, is_raised=False, finding="rows do not influence each other")


def adv_suite(**changes: object) -> Suite:
    """Return a suite of four conditions, with audits."""
    return parse_suite({**ADV, **changes})


def shift_suite(**changes: object) -> Suite:
    """Return a suite of a sweep and ten corruptions."""
    return parse_suite({**SHIFT, **changes})


def fill(
    store: Store,
    suite: Suite,
    skills: Mapping[str, float],
    *,
    half: Sequence[str] = (),
    flags: Mapping[str, tuple[Flag, ...]] | None = None,
    limit: int | None = None,
) -> None:
    """Put results of a whole suite into a store.

    Args:
        skills: probability of each model to be right under the condition in the middle.
        half: names of models whose second half of every second condition is missing.
        flags: flags that the audit of a model kept; only those models are audited.
        limit: only the first so many examples are put, a whole number of shards.
    """
    size = suite.batch_size * suite.batches_per_shard
    for model, skill in skills.items():
        for place, condition in enumerate(suite.conditions):
            harm = place / max(1, len(suite.conditions) - 1)
            measurement = _measurement(suite, condition, model)
            for start in range(0, limit or NUM_EXAMPLES, size):
                if model in half and place % 2 and start >= NUM_EXAMPLES / 2:
                    continue
                shard = Shard(measurement=measurement, start=start, stop=min(start + size, NUM_EXAMPLES))
                store.put(_record(shard, condition, model, skill, harm, limit))
        for audit in audits_of(suite) if model in (flags or {}) else ():
            measurement = replace(_measurement(suite, audit, model), batch_size=AUDIT_EXAMPLES)
            shard = Shard(measurement=measurement, start=0, stop=AUDIT_EXAMPLES)
            store.put(replace(_record(shard, audit, model, 1.0, 0.0, None), flags=(flags or {})[model]))


def _measurement(suite: Suite, condition: Condition, model: str) -> Measurement:
    return replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name=model),
        condition=condition,
        weights_digest=hashlib.sha256(model.encode("utf-8", "backslashreplace")).hexdigest(),
        dataset=DatasetIdentity(name=condition.dataset.name, fingerprint="e" * 64, num_examples=600),
        seed=suite.seed,
        batch_size=suite.batch_size,
    )


def _record(shard: Shard, condition: Condition, model: str, skill: float, harm: float, limit: int | None) -> Record:
    views = views_of(condition)
    rows = [
        _outcome(model, condition, index, view.epsilon, skill, harm + budget / len(views))
        for index in range(shard.start, shard.stop)
        for budget, view in enumerate(views)
    ]
    provenance = replace(PROVENANCE, limit=limit)
    return Record(shard=shard.header, outcomes=Outcomes.of(rows, ClassificationOutcome), provenance=provenance)


def _outcome(
    model: str, condition: Condition, index: int, epsilon: str | None, skill: float, harm: float
) -> ClassificationOutcome:
    # Examples are hard for all models alike, so that pairing has something to gain.
    hardness = Random(f"{condition.name} {index}").random()
    luck = Random(f"{model} {condition.name} {epsilon} {index}").random()
    is_right = 0.7 * hardness + 0.3 * luck < skill + (0.5 - harm) * 0.6
    return outcome_of(f"digits-{index:05d}", is_right, epsilon=epsilon)
