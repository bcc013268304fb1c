"""Kept results that later ones are checked against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """All that must be the same of a suite for its numbers to be comparable, but for weights and data.

    Attributes:
        suite, version: name and version of the suite.
        seed: root of all randomness; ``task`` and ``batch_size`` as of the suite.
        limit: the first examples of each condition that were asked for; None for all.
        dataset: name of the dataset that was given to a suite that names none.
        models: names of the models.
        conditions: key of the dataset and perturbation of each condition, by its name.
        columns: keys of the columns.
        all_examples: whether conditions cover whole datasets in place of numbers of examples that the suite states.
        plugins: version, or digest of the code, of every plug-in of others that decides conditions or metrics, by its
            distribution or module.
    """

    suite: str
    version: int
    seed: int
    task: str
    batch_size: int
    limit: int | None
    dataset: str | None
    models: tuple[str, ...]
    conditions: Mapping[str, str]
    columns: tuple[str, ...]
    plugins: Mapping[str, str]
    all_examples: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Outcomes of some models under some suites.

    Attributes:
        protocols: protocol of each suite.
        records: one record of each condition and model, from the first example on, under the model's name.
    """

    protocols: tuple[Protocol, ...]
    records: tuple[Record, ...]
