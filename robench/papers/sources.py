"""Reports behind printed tables, read from a store: one per suite, of the models in the tables."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from robench.core.checkpoint import PLAIN_LAYOUT, entry_name
from robench.reports import needs, over_seeds
from robench.reports.build import report_of_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from robench.core.checkpoint import Checkpoint
    from robench.core.protocols import Store
    from robench.core.published import PublishedTable
    from robench.core.records import Manifest
    from robench.core.report import Report
    from robench.core.suite import Suite

# Ending of the files that robench's own training writes at ImageNet scale; authors' are of torch.save.
_OWN_SUFFIX = ".safetensors"


def models_by_suite(tables: Iterable[PublishedTable]) -> dict[str, set[str]]:
    """Return the models of the tables' cells and twins, by the suite that measures them."""
    models: dict[str, set[str]] = {}
    for table in tables:
        for cell in table.cells:
            if cell.missing is None and cell.suite is not None and cell.model is not None:
                models.setdefault(cell.suite, set()).add(cell.model)
            if cell.twin is not None:
                models.setdefault(cell.twin.suite, set()).add(cell.twin.model)
    return models


def authors_models(checkpoints: Iterable[Checkpoint], manifests: Iterable[Manifest]) -> frozenset[str]:
    """Return the models whose weights are the authors' own.

    Those are entries with a checksum, whose bytes robench did not train, and without measurements of other weights.
    """
    checkpoints = tuple(checkpoints)
    trained_here = {each.weights.sha256 for each in checkpoints if _is_trained_here(each)}
    digests: dict[str, set[str]] = {}
    for manifest in manifests:
        digests.setdefault(manifest.shard.checkpoint, set()).add(manifest.shard.weights_digest)
    return frozenset(
        each.name
        for each in checkpoints
        if (pinned := each.weights.sha256) is not None
        and pinned not in trained_here
        and all(digest.startswith(pinned) for digest in digests.get(each.name, ()))
    )


def measured_models(
    models: Mapping[str, Collection[str]],
    suites: Mapping[str, Suite],
    manifests: Sequence[Manifest],
    of_authors: Collection[str],
) -> dict[str, list[str]]:
    """Return the measured checkpoints that count, by suite; seeds of retrained models are included.

    Args:
        models: entries by suite, see ``models_by_suite``.
        suites: by name.
        manifests: descriptions of all stored measurements.
        of_authors: models with the authors' own weights, whose further seeds do not count.
    """
    measured = {}
    for name, wanted in sorted(models.items()):
        is_needed = needs(suites[name], seed=suites[name].seed)
        found = {each.shard.checkpoint for each in manifests if is_needed(each.shard)}
        if rows := [model for model in sorted(found) if _is_wanted(model, wanted, of_authors)]:
            measured[name] = rows
    return measured


def reports_for(measured: Mapping[str, Sequence[str]], suites: Mapping[str, Suite], store: Store) -> dict[str, Report]:
    """Return a report for each suite with measured models, with means over seeds; see ``measured_models``."""
    return {name: over_seeds(report_of_store(suites[name], store, models=rows)) for name, rows in measured.items()}


def _is_wanted(model: str, wanted: Collection[str], of_authors: Collection[str]) -> bool:
    entry = entry_name(model)
    return entry in wanted and (model == entry or entry not in of_authors)


def _is_trained_here(checkpoint: Checkpoint) -> bool:
    if checkpoint.seed_of is not None:
        return True
    weights, training = checkpoint.weights, checkpoint.training
    is_written_here = PurePath(weights.uri).suffix == _OWN_SUFFIX and weights.layout == PLAIN_LAYOUT
    return training is not None and (training.is_embedded or is_written_here)
