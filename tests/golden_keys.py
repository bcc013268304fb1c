"""The keys that results of shipped suites and checkpoints are kept under; run as a program, writes golden/keys.json.

A key that changes orphans results, so that a change there needs a reason in its commit's message: a new version of an
implementation, or a protocol that changed.
"""

import json
from functools import cache
from pathlib import Path

from robench.core.checkpoint import Checkpoint
from robench.core.shard import DatasetIdentity, Measurement
from robench.core.suite import Condition, Suite
from robench.declare import read_registry, read_suite, shipped_registry, shipped_suites
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of

GOLDEN = Path(__file__).parent / "golden" / "keys.json"
REFERENCE = "digits-vit"
Keys = dict[str, dict[str, str]]


@cache
def golden_keys() -> dict[str, Keys]:
    """Return the keys of every condition of every suite, for one checkpoint, and of every checkpoint under one.

    Digests of weights and data stand for whatever is there, so that neither is needed.
    """
    checkpoints = read_registry(shipped_registry())
    suites = {name: read_suite(path) for name, path in shipped_suites().items()}
    reference, clean = checkpoints[REFERENCE], suites["digits-adv"].conditions[0]
    return {
        "suites": {name: _of_suite(suite, reference) for name, suite in suites.items()},
        "checkpoints": {
            name: {clean.name: _key(checkpoint, clean, 100)}
            for name, checkpoint in sorted(checkpoints.items())
            # Weights aside, seeds are their entry.
            if checkpoint.seed_of is None
        },
    }


def _of_suite(suite: Suite, checkpoint: Checkpoint) -> dict[str, str]:
    measured = {each.name: _key(checkpoint, each, suite.batch_size) for each in suite.conditions}
    return measured | {each.name: _key(checkpoint, each, AUDIT_EXAMPLES) for each in audits_of(suite)}


def _key(checkpoint: Checkpoint, condition: Condition, batch_size: int) -> str:
    return Measurement(
        checkpoint=checkpoint,
        condition=condition,
        weights_digest="0" * 64,
        dataset=DatasetIdentity(name=condition.dataset.name, fingerprint=condition.dataset.name, num_examples=1),
        seed=0,
        batch_size=batch_size,
    ).key


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(golden_keys(), indent=1) + "\n")
