"""Records of models whose every verdict is given by hand, for comparisons and checks."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, outcome_of, record_of
from robench.attacks.fgsm import Fgsm
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Column, Condition, Role, Suite
from robench.datasets.digits import DIGITS
from robench.metrics.contributions import Contributions, Sample
from robench.perturbations.clean import Clean
from robench.store import MemoryStore

CLEAN = Condition(name="clean", dataset=DIGITS, perturbation=Clean())
FGSM = Condition(name="fgsm", dataset=DIGITS, perturbation=Fgsm(epsilon=Fraction(8, 255)))
SUITE = Suite(
    name="small",
    version=1,
    seed=0,
    task="classification",
    batch_size=2,
    conditions=(CLEAN, FGSM),
    metrics=("top1_accuracy", "robust_accuracy"),
    columns=(
        Column(key="clean/top1_accuracy", label="clean top-1", metric="top1_accuracy", conditions=("clean",)),
        Column(key="fgsm/top1_accuracy", label="fgsm top-1", metric="top1_accuracy", conditions=("fgsm",)),
        Column(
            key="robust",
            label="robust",
            metric="robust_accuracy",
            conditions=("clean", "fgsm"),
            roles=(Role(name="clean"), Role()),
        ),
    ),
    audit=False,
)


def record(
    condition: Condition,
    verdicts: str,
    model: str,
    *,
    start: int = 0,
    size: int | None = None,
    weights: str = "a",
    tensors: str | None = None,
    data: str = "d",
    seed: int = 0,
    batch_size: int = 2,
    time: str = "2026-11-21T10:00:00+00:00",
    versions: dict[str, str] | None = None,
    limit: int | None = None,
) -> Record:
    """A shard of as many examples as there are characters, 1 for right."""
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name=model),
        condition=condition,
        weights_digest=f"{model}-{weights}",
        tensors_digest=tensors,
        dataset=DatasetIdentity(name="digits", fingerprint=data, num_examples=size or start + len(verdicts)),
        seed=seed,
        batch_size=batch_size,
    )
    shard = Shard(measurement=measurement, start=start, stop=start + len(verdicts)).header
    rows = [outcome_of(f"digits/{start + index:04d}", verdict == "1") for index, verdict in enumerate(verdicts)]
    known = {"torch": "2.15"} if versions is None else versions
    return record_of(shard, rows, replace(PROVENANCE, finished_at=time, versions=known, limit=limit))


def store_of(*models: tuple[str, str, str], **settings: str) -> MemoryStore:
    """A store of models, each a name and its verdicts clean and under FGSM."""
    store = MemoryStore()
    for name, clean, fgsm in models:
        for condition, verdicts in ((CLEAN, clean), (FGSM, fgsm)):
            store.put(record(condition, verdicts, name, **settings))
    return store


def verdicts(text: str, name: str = "") -> Contributions:
    """Binary outcomes of examples, 1 for right."""
    return values(np.array([each == "1" for each in text]), name)


def values(of_examples: ArrayLike, name: str = "") -> Contributions:
    """One value per example, whose mean is the number."""
    array = np.asarray(of_examples)
    ids = np.array([f"digits/{index:04d}" for index in range(len(array))], np.dtypes.StringDType())
    return Contributions((Sample(ids, array, name),))


def flipped(num_examples: int, only_first: int, only_second: int, right: int) -> Sequence[str]:
    """Verdicts of two models, which differ on so many examples and are both right on ``right``."""
    wrong = num_examples - only_first - only_second - right
    first = "1" * only_first + "0" * only_second + "1" * right + "0" * wrong
    second = "0" * only_first + "1" * only_second + "1" * right + "0" * wrong
    return first, second
