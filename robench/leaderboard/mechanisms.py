"""Mechanisms of a leaderboard: rows of entries, each over its training seeds, and groups with rankings of their own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import isfinite
from statistics import stdev

from robench.comparison.pairing import Testable
from robench.core.checkpoint import Checkpoint, entry_name
from robench.core.report import Cell
from robench.leaderboard.board import BoardRow, ConditionProvenance
from robench.reports.seeds import crossed_interval, mean_cell, mean_rows

# Groups of models that no file of settings gives one.
ADVERSARIAL = "adversarial training"
OTHERS = "standard or undeclared training"


def grouped(
    rows: Iterable[BoardRow], groups: Mapping[str, Sequence[str]], checkpoints: Mapping[str, Checkpoint]
) -> list[BoardRow]:
    """Return the rows by group, in the order of ``groups`` and then the default ones; without any where all are of one.

    A row is in the first of ``groups`` with a pattern that its model's name, or that of its entry, matches. Others are
    in one of two groups: of models whose recipe in a registry trains on adversarial examples, and of all others.
    """

    def group_of(model: str) -> str:
        names, checkpoint = (model, entry_name(model)), checkpoints.get(model)
        for group, patterns in groups.items():
            if any(fnmatchcase(name, pattern) for name in names for pattern in patterns):
                return group
        recipe = None if checkpoint is None else checkpoint.training
        return ADVERSARIAL if recipe is not None and recipe.is_adversarial else OTHERS

    order = [*groups, OTHERS, ADVERSARIAL]
    found = sorted((replace(row, group=group_of(row.model)) for row in rows), key=lambda row: order.index(row.group))
    return found if len({row.group for row in found}) > 1 else [replace(row, group="") for row in found]


def mechanism_rows(
    rows: Sequence[BoardRow], testable: Mapping[str, Mapping[str, Testable]]
) -> tuple[tuple[BoardRow, ...], dict[str, dict[str, Testable]]]:
    """Return a row for each entry, and what tests of them are about; both also of entries with one checkpoint.

    A number is the mean over the seeds that were measured, with the interval of ``reports.seeds.crossed_interval``; of
    one seed it is that seed's own. Where a measured seed lacks examples, it is missing.
    """

    def cell_of(key: str, of: Sequence[BoardRow]) -> Cell:
        found = [row for row in of if row.cells[key].num_examples] or of[:1]
        contributions = [testable.get(key, {}).get(row.model) for row in found]
        cells = [row.cells[key] for row in found]
        cell = cells[0] if len(cells) == 1 else mean_cell(cells, lambda seeds: crossed_interval(seeds, contributions))
        if cell.estimate is None:
            return cell
        seeds = cell.estimate.of_seeds
        deviation = stdev(seeds) if seeds and all(map(isfinite, seeds)) else None
        return replace(cell, estimate=replace(cell.estimate, deviation=deviation, num_lacking=len(of) - len(found)))

    by_name = {row.model: row for row in rows}
    means = []
    for row in mean_rows(rows, cell_of):
        measured: dict[str, tuple[ConditionProvenance, ...]] = {}
        suites: dict[str, dict[str, None]] = {}
        for seed in (by_name[name] for name in row.seeds or (row.model,)):
            measured |= {key: (*measured.get(key, ()), *found) for key, found in seed.measured.items()}
            for flag, names in zip(seed.flags or (), seed.flag_suites, strict=True):
                suites.setdefault(flag.name, {}).update(dict.fromkeys(names))
        flag_suites = tuple(tuple(suites[flag.name]) for flag in row.flags or ())
        means.append(replace(row, measured=measured, flag_suites=flag_suites) if row.seeds else row)
    tested: dict[str, dict[str, Testable]] = {}
    for key, models in testable.items():
        for row in means:
            estimate = row.cells[key].estimate
            own = [models[name] for name in row.seeds or (row.model,) if name in models]
            if estimate is not None and own:
                tested.setdefault(key, {})[row.model] = estimate.of_seeds or own[0]
    return tuple(means), tested
