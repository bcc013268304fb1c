"""Papers' tables by their names, from a results folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import UsageError
from robench.declare import find_datasets, find_suite, load_published, published_tables, read_registries
from robench.papers.sources import authors_models, measured_models, models_by_suite, reports_for
from robench.papers.table import Basis, PaperTable, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from robench.core.checkpoint import Checkpoint
    from robench.core.protocols import Store
    from robench.core.published import PublishedTable
    from robench.core.records import Manifest
    from robench.core.suite import Suite

_NAME = re.compile(r"([a-z0-9-]+):([1-9][0-9]*)")


def find_published(names: Sequence[str]) -> list[PublishedTable]:
    """Return the printed tables named ``PAPER:NUMBER``, each once; all of every paper if no name is given.

    Raises:
        UsageError: a name is malformed.
        UnknownNameError: there is no such table.
    """
    keys = [_key(name) for name in dict.fromkeys(names)] if names else list(published_tables())
    return [load_published(paper, number) for paper, number in keys]


def existing_tables() -> str:
    """Return the names of the papers' tables, for messages."""
    numbers: dict[str, list[int]] = {}
    for paper, number in published_tables():
        numbers.setdefault(paper, []).append(number)
    return ", ".join(f"{paper}:{min(each)} to {paper}:{max(each)}" for paper, each in numbers.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements that a results folder holds of some printed tables.

    Attributes:
        suites: suites of the tables, by name; ``checkpoints``: entries of the registries, by name.
        manifests: descriptions of all measurements of the folder.
        of_authors: models with the authors' own weights.
        models: measured checkpoints that count, by suite.
    """

    suites: Mapping[str, Suite]
    checkpoints: Mapping[str, Checkpoint]
    manifests: Sequence[Manifest]
    of_authors: Collection[str]
    models: Mapping[str, Sequence[str]]


def measured_of_tables(published: Sequence[PublishedTable], store: Store, registries: Sequence[Path]) -> Measured:
    """Find the measurements of printed tables in a store, by headers alone.

    Raises:
        RobenchError: a registry file or suite is invalid, or a file of the store cannot be read.
    """
    models = models_by_suite(published)
    datasets = find_datasets(registries)
    suites = {name: find_suite(name, datasets) for name in sorted(models)}
    checkpoints = read_registries(registries)
    manifests = list(store.manifests())
    of_authors = authors_models(checkpoints.values(), manifests)
    return Measured(
        suites=suites,
        checkpoints=checkpoints,
        manifests=manifests,
        of_authors=of_authors,
        models=measured_models(models, suites, manifests, of_authors),
    )


def tables_of(
    published: Sequence[PublishedTable], measured: Measured, store: Store, registries: Sequence[Path]
) -> list[PaperTable]:
    """Return the printed tables with the numbers of a store, in their order; ``registries`` are named in commands."""
    basis = Basis(
        reports=reports_for(measured.models, measured.suites, store),
        suites=measured.suites,
        checkpoints=measured.checkpoints,
        of_authors=measured.of_authors,
        registries=registries,
    )
    return [table_of(each, basis) for each in published]


def _key(name: str) -> tuple[str, int]:
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise UsageError(f"a table is PAPER:NUMBER, such as rpc:1, got {name!r}; there are {existing_tables()}")
    return parts[1], int(parts[2])
