"""Suites, models and results that a command is about, from the options that name them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robench.cli.names import complete_models, models_of_registry, models_of_results, only_conditions
from robench.cli.options import (
    all_examples_option,
    dataset_option,
    gathered,
    limit_option,
    model_option,
    one_suite_option,
    option,
    registry_option,
    results_option,
    seed_numbers,
    seed_option,
    suite_option,
)
from robench.cli.terminal import say
from robench.core.checkpoint import Checkpoint
from robench.core.shard import EXACT_DTYPE, Precision
from robench.core.suite import Suite

if TYPE_CHECKING:
    from robench.comparison import ManyToOne
    from robench.costs import Counts
    from robench.leaderboard import Leaderboard
    from robench.runs import RunRequest
    from robench.store import FolderStore

# Of commands about suites; that read results of all models or some; and that need models to be named.
OF_SUITES = (
    *(suite_option(required=True), dataset_option, registry_option, limit_option, all_examples_option),
    *(results_option, seed_option),
)
OF_RESULTS = (*OF_SUITES, model_option(required=False))
OF_MODELS = (*OF_SUITES, model_option(required=True))
# The same for one suite.
OF_ONE_SUITE = (one_suite_option, *OF_SUITES[1:])
# Of comparisons over training seeds.
control_option = option(
    "--control",
    metavar="MODEL",
    shell_complete=complete_models,
    help="Compare two or more models with this one, over training seeds, by Dunnett's test.",
)
seeds_option = option(
    "--seeds", type=seed_numbers, metavar="SEEDS", help="Training seeds that are compared, such as 0-4."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Values of the options that say which suites, models and results a command is about."""

    suites: tuple[str, ...] = ()
    dataset: str | None = None
    models: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    registries: tuple[Path, ...] = ()
    limit: int | None = None
    all_examples: bool = False
    results: Path = Path("results")
    seed: int | None = None
    precision: Precision = EXACT_DTYPE
    all_seeds: bool = False

    def found_suites(self) -> tuple[Suite, ...]:
        """Return the suites; raises like ``declare.find_suites``."""
        # Imported in all methods, so that help is fast.
        from robench.declare import find_suites

        suites = find_suites(self.suites, self.registries, self.dataset, all_examples=self.all_examples)
        return only_conditions(suites, self.only)

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the entries of the registry that the models match, with their seeds if all are asked for."""
        from robench.declare import find_checkpoints

        names = models_of_registry(self.models, self.registries)
        return tuple(find_checkpoints(names, self.registries, all_seeds=self.all_seeds))

    def store(self) -> FolderStore:
        """Return the store of the results folder, or of an archive of results, unpacked while the command runs."""
        from robench.papers.archive import is_archive, unpacked
        from robench.store import FolderStore

        if not is_archive(self.results):
            return FolderStore(self.results)
        return FolderStore(click.get_current_context().with_resource(unpacked(self.results)))

    def rows(self, store: FolderStore) -> list[str] | None:
        """Return the names of the models with results, with all their seeds if asked for; None for all models.

        Raises:
            UnknownNameError: a pattern matches no model with results, or the seeds of an unknown model are asked for.
        """
        from robench.declare import find_checkpoints

        names = models_of_results(self.models, store)
        if self.all_seeds:
            names = [checkpoint.name for checkpoint in find_checkpoints(names, self.registries, all_seeds=True)]
        return names or None

    def leaderboard(
        self, *, is_tested: bool = True, settings: Path | None = None, rules: Sequence[str] = ()
    ) -> Leaderboard:
        """Return the leaderboard of the results; see ``leaderboard_of``.

        ``settings`` is a leaderboard file, whose headline may name costs by the rules as well.
        """
        from robench.declare import read_registries
        from robench.declare.yaml_source import read_yaml
        from robench.leaderboard import PLAIN, board_columns, leaderboard_of, settings_of
        from robench.leaderboard.costs import cost_columns

        suites, chosen = self.found_suites(), PLAIN
        if settings is not None:
            chosen = settings_of(read_yaml(settings), board_columns(suites), cost_columns(rules) if rules else ())
        store = self.store()
        return leaderboard_of(
            suites,
            store,
            models=self.rows(store),
            limit=self.limit,
            seed=self.seed,
            checkpoints=read_registries(self.registries),
            average_seeds=self.all_seeds,
            is_tested=is_tested,
            settings=chosen,
        )

    def compared_with(
        self, control: str, names: Sequence[str], seeds: Collection[int] | None, *, pair_seeds: bool = False
    ) -> ManyToOne:
        """Return models, by name or pattern, compared with a control over training seeds.

        ``seeds`` are the compared ones, None for all; ``pair_seeds`` pairs equal ones.
        """
        from robench.comparison import compare_with_control
        from robench.declare import seeds_of_models

        models = (control, *(name for name in models_of_registry(names, self.registries) if name != control))
        return compare_with_control(
            self.found_suites(),
            self.store(),
            control,
            dict(zip(models, seeds_of_models(models, self.registries, seeds), strict=True)),
            limit=self.limit,
            seed=self.seed,
            are_paired=pair_seeds,
        )

    def counts(self, models: Sequence[str]) -> dict[str, Counts]:
        """Return the counts of models of the registries; others are named in a message."""
        from robench.declare import read_registries
        from robench.runs.costs import counts_of_models

        known = read_registries(self.registries)
        counts, reasons = counts_of_models({name: known[name] for name in models if name in known})
        for name in models:
            if name not in counts:
                say(f"{name} is not counted: {reasons.get(name, 'no registry that was read has it')}")
        return counts

    def with_costs(self, board: Leaderboard, rules: Sequence[str]) -> Leaderboard:
        """Return a leaderboard with columns of parameters and multiply-adds; see ``leaderboard.costs``."""
        from robench.leaderboard.costs import with_costs

        return with_costs(board, self.counts([row.model for row in board.rows]), rules)

    def request(self, **settings: Any) -> RunRequest:
        """Return the request to measure the models; ``settings`` are its further fields."""
        from robench.runs import RunRequest

        return RunRequest(
            suites=self.found_suites(),
            checkpoints=self.checkpoints(),
            limit=self.limit,
            seed=self.seed,
            precision=self.precision,
            all_seeds=self.all_seeds,
            **settings,
        )


def selecting(options: Sequence[Callable[[Any], Any]]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add options to a command, which takes their values together as ``selection``."""
    return gathered("selection", Selection, options)
