"""Measured numbers behind papers' tables, in the printed unit, and which of them are of the authors' own weights.

Registries declare who trained weights. Where a checksum was published, that of a shipped entry or the one in the name
of the file, other bytes are not the authors', even if they are declared to be.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from robench.comparison.evidence import Difference
from robench.comparison.spread import NO_SEEDS, PER_CENT, Seeds
from robench.core.checkpoint import Checkpoint, entry_name
from robench.core.flags import concerns
from robench.core.records import Manifest
from robench.core.report import Estimate, Report, Row
from robench.core.suite import Column, Suite, views_of
from robench.costs.stored import StoredCost
from robench.declare import shipped_folder
from robench.declare.printed import Reading
from robench.papers.counts import CountsOfModels, shipped_counts

BY_CHECKSUM = "by checksum"
AS_DECLARED = "as declared"
# Digits of the SHA-256 at the end of a file's name, as torch.hub has them; digits alone may be a date.
_IN_NAME = re.compile(r"-(?=[0-9]*[a-f])([0-9a-f]{8,64})(\.[a-z]+)+")
# Readings of a protocol, where code and text differ.
READINGS: Mapping[Reading, str] = {"code": "authors' code", "text": "paper's text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """Measured number in the unit of the printed one, if there is one.

    Attributes:
        model: checkpoint, or entry whose seeds are averaged; None if the table names no model.
        formula: reading of the model's attention, ``paper`` or ``released``; None if there is only one.
        measured: None if it is not measured, or not finite.
        low, high: bounds of its 95 % interval, over training seeds if there are several, else over examples.
        num_seeds: training seeds in the mean; 1 for one checkpoint, 0 if nothing is measured.
        seeds: number of each training seed, if there are several; beside authors' weights, of the other trainings.
        of_authors: how the weights are known to be the authors' own, such as ``by checksum``; None for all others.
        raised: names of the flags that concern the number; ``notes``: what the report says beside the model's row.
    """

    unit: str
    model: str | None = None
    formula: str | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    num_examples: int | None = None
    num_seeds: int = 0
    seeds: Seeds = NO_SEEDS
    of_authors: str | None = None
    raised: tuple[str, ...] = ()
    is_audited: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsWeights:
    """Measured weights of a paper's authors; ``known`` says how they are known to be theirs."""

    checkpoint: str
    known: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Reports and declarations behind tables, by name.

    Attributes:
        reports: with means over seeds; suites without results are left out.
        of_authors: the authors' own weights, by entry; their row comes before that of other trainings.
        differences: finds the difference of two models in a column over the same examples, of single checkpoints, by
            the names of suite, models and column; ``errors``: the standard error over examples of the difference of
            their means over seeds, likewise.
        registries: further registry files, named in commands.
        costs: the latest first.
    """

    reports: Mapping[str, Report]
    suites: Mapping[str, Suite]
    checkpoints: Mapping[str, Checkpoint]
    of_authors: Mapping[str, AuthorsWeights] = field(default_factory=dict)
    differences: Callable[[str, str, str, str], Difference | None] | None = None
    errors: Callable[[str, str, str, str], float | None] | None = None
    registries: Sequence[Path] = ()
    counts: CountsOfModels = field(default_factory=shipped_counts)
    costs: Sequence[StoredCost] = ()

    def found(self, suite: str, model: str, key: str) -> tuple[Row, Estimate] | None:
        """Return a model's row of a suite's report and its number in a column; None if it is not measured."""
        return next(self._rows(suite, model, key), None)

    def _rows(self, suite: str, model: str, key: str) -> Iterator[tuple[Row, Estimate]]:
        report = self.reports.get(suite)
        for row in () if report is None else report.rows:
            cell = row.cells.get(key)
            if entry_name(row.model) == model and cell is not None and cell.estimate is not None:
                yield row, cell.estimate

    def column(self, suite: str, key: str) -> Column:
        """Return a column of a suite."""
        return next(each for each in self.suites[suite].columns if each.key == key)

    def formula(self, model: str) -> str | None:
        """Return the reading of a model's attention; None if there is only one."""
        checkpoint = self.checkpoints.get(model)
        architecture = None if checkpoint is None else checkpoint.architecture
        formula: str | None = getattr(getattr(architecture, "attention", None), "formula", None)
        return formula

    def number(self, suite: str, model: str, key: str, unit: str, *, complement: bool) -> Number:
        """Return a model's number in a column of a suite, without value if it is not measured or not finite."""
        found = self.found(suite, model, key)
        if found is None or not isfinite(found[1].value):
            return Number(unit=unit, model=model, formula=self.formula(model))
        row, estimate = found
        bounds = [
            in_unit(bound, unit, complement) if bound is not None and isfinite(bound) else None
            for bound in (estimate.low, estimate.high)
        ]
        low, high = reversed(bounds) if complement else bounds
        column = self.column(suite, key)
        views = {view.name: view for condition in self.suites[suite].conditions for view in views_of(condition)}
        attacks = [views[name].attack for name in column.conditions]
        is_attacked = any(attack.threat_model is not None or attack.search_norm is not None for attack in attacks)
        theirs = None if row.seeds else self.of_authors.get(model)
        of_seeds = next((each.of_seeds for _, each in self._rows(suite, model, key) if each.of_seeds), ())
        step = 100 / estimate.num_examples if unit == PER_CENT and estimate.num_examples else 0.0
        return Number(
            unit=unit,
            model=model,
            formula=self.formula(model),
            measured=in_unit(estimate.value, unit, complement),
            low=low,
            high=high,
            num_examples=estimate.num_examples,
            num_seeds=len(row.seeds) or 1,
            seeds=Seeds(tuple(in_unit(value, unit, complement) for value in of_seeds), step),
            of_authors=None if theirs is None else theirs.known,
            raised=tuple(flag.name for flag in row.raised if concerns(flag, is_attacked=is_attacked)),
            is_audited=row.flags is not None or not is_attacked,
            notes=row.notes,
        )

    def how_to(self, table: str, model: str, *, is_twin: bool = False) -> str:
        """Return the command that trains and measures a model of a table, or a twin of one."""
        words = ["robench", "reproduce", table, *["--twin"] * is_twin, "--rows", model]
        return shlex.join([*words, *(word for path in self.registries for word in ("--registry", str(path)))])


def in_unit(value: float, unit: str, complement: bool) -> float:
    """Return a measured value in the printed unit."""
    value = 1 - value if complement else value
    return 100 * value if unit == PER_CENT else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Authors:
    """Measured weights that are declared to be by authors, at most one checkpoint an entry.

    Attributes:
        left_out: further ones of the same entries; ``refused``: why others are not the authors', by checkpoint.
    """

    weights: Mapping[str, AuthorsWeights]
    left_out: Collection[str] = ()
    refused: Mapping[str, str]


def authors_of(checkpoints: Mapping[str, Checkpoint], manifests: Iterable[Manifest]) -> Authors:
    """Return the weights that registries declare to be by authors, as far as they are measured.

    Of several of an entry the one with the published checksum counts, or else the first by name.
    """
    digests: dict[str, set[str]] = {}
    for manifest in manifests:
        digests.setdefault(manifest.shard.checkpoint, set()).add(manifest.shard.weights_digest)
    weights: dict[str, AuthorsWeights] = {}
    left_out: list[str] = []
    refused: dict[str, str] = {}
    for name in sorted(digests.keys() & checkpoints.keys()):
        checkpoint = checkpoints[name]
        if checkpoint.weights.by != "authors":
            continue
        known, reason = _known(checkpoint, checkpoints, digests[name])
        if known is None:
            refused[name] = f"{name}: declared as the authors' weights, but {reason}, so that they count as a training"
            continue
        found = AuthorsWeights(checkpoint=name, known=known)
        other = weights.setdefault(checkpoint.entry, found)
        if other is not found:
            is_better = found.known == BY_CHECKSUM and other.known != BY_CHECKSUM
            kept, dropped = (found, other) if is_better else (other, found)
            weights[checkpoint.entry] = kept
            left_out.append(dropped.checkpoint)
    return Authors(weights=weights, left_out=tuple(left_out), refused=refused)


def _known(
    checkpoint: Checkpoint, checkpoints: Mapping[str, Checkpoint], digests: Collection[str]
) -> tuple[str | None, str]:
    """Return the way in which measured weights are known to be the authors'; or None and the reason against it."""
    declared, named = checkpoint.weights.sha256, _IN_NAME.search(checkpoint.weights.uri)
    for wanted, place in ((declared, "its entry"), (named and named[1], "the file's name")):
        if wanted is not None and (other := _other(digests, wanted)):
            return None, f"the SHA-256 of those measured is {other:.8}, that in {place} {wanted:.8}"
    shipped = checkpoints.get(checkpoint.belongs_to or checkpoint.name)
    is_published = shipped is not None and shipped.folder == shipped_folder() and shipped.weights.by == "authors"
    published = shipped.weights.sha256 if shipped is not None and is_published else None
    if published is None:
        return AS_DECLARED, ""
    other = _other(digests, published)
    if other is None:
        return BY_CHECKSUM, ""
    found = f"the published {published:.8} of {checkpoint.entry}"
    # A checksum in a user's registry declares that the authors published other weights, too.
    return (
        (None, f"their SHA-256 is {other:.8} and not {found}")
        if declared is None
        else (f"{AS_DECLARED}, with the SHA-256 {other:.8} in place of {found}", "")
    )


def _other(digests: Collection[str], wanted: str) -> str | None:
    return next((digest for digest in sorted(digests) if not digest.startswith(wanted)), None)
