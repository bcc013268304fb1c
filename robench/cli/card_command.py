"""``robench card``: a Hugging Face model card of a model's results, from the store."""

import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from robench.cli.names import complete_models, say_limited, shown
from robench.cli.options import (
    all_examples_option,
    all_seeds_option,
    dataset_option,
    limit_option,
    path_option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.selection import Selection, selecting
from robench.cli.store_command import shipped_for
from robench.cli.terminal import put
from robench.core.checkpoint import Checkpoint, entry_name
from robench.core.errors import UnknownNameError, UsageError, did_you_mean
from robench.core.suggestions import closest
from robench.core.suite import Suite
from robench.declare import find_checkpoints, find_datasets
from robench.leaderboard import leaderboard_of
from robench.leaderboard.card import CardSuite, render_card
from robench.reports import Listing, holdings_of, without_shared

_MOST_LISTED = 20


@click.command("card")
@click.argument("model", shell_complete=complete_models)
@selecting(
    (
        *(suite_option(required=False), dataset_option, registry_option, limit_option, all_examples_option),
        *(results_option, seed_option, all_seeds_option),
    )
)
@path_option("--output", "FILE", "File to write, such as README.md; default: standard output.")
def command(selection: Selection, model: str, output: Path | None) -> int:
    """Write a model card of MODEL for the Hugging Face Hub: metadata, and Markdown about its results.

    Without --suite it has the shipped suites that were run with MODEL, as 'robench status' lists them.
    Numbers that lack examples are listed as missing, and are not in the metadata. No model, data or GPU is needed.
    """
    selection = replace(selection, models=(model,))
    asked, store = selection.found_suites(), selection.store()
    listing = Listing(store)
    known = {each.shard.checkpoint for each in listing.manifests}
    names = selection.rows(store) or []
    if len({entry_name(each) for each in names}) > 1:
        raise UsageError(f"{model!r} matches {len(names)} models, but a card is of one; name it")
    if not known.intersection(names):
        listed = ", ".join(sorted(known)[:_MOST_LISTED]) + (", ..." if len(known) > _MOST_LISTED else "")
        meant = did_you_mean(model, known) if closest(model, sorted(known)) else ""
        raise UsageError(f"no results for {model!r} in {store.path}; models with results: {listed or 'none'}.{meant}")
    given = dict(zip(dict.fromkeys(selection.suites), asked, strict=True)) or _own_suites(selection, listing, names)
    checkpoints: dict[str, Checkpoint] = {}
    with suppress(UnknownNameError):
        # Reading this entry alone saves a second.
        checkpoints[model] = find_checkpoints([model], selection.registries)[0]
    suites = []
    for name, suite in given.items():
        board = leaderboard_of(
            [suite],
            store,
            models=names,
            limit=selection.limit,
            seed=selection.seed,
            checkpoints=checkpoints,
            average_seeds=selection.all_seeds,
            is_tested=False,
        )
        say_limited(board.limited, name)
        if board.rows:
            suites.append(CardSuite(suite, board, _command(name, suite, selection, model)))
    if not suites:
        raise UsageError(
            f"no results for {model!r} under {', '.join(given) or 'any shipped suite'} in {store.path}; name a suite "
            "with --suite, and give the --limit of the run if it had one"
        )
    entry = checkpoints.get(model)
    card = render_card(model, None if entry is None else entry.trained_on, suites)
    put(card, output)
    return 0


def _own_suites(selection: Selection, listing: Listing, names: list[str]) -> dict[str, Suite]:
    """Return the shipped suites with results of a model that no other suite shares, by name and dataset.

    Of complete suites whose results are all another's, only those count that were run by their name.
    """
    shipped = shipped_for(listing, find_datasets(selection.registries), selection.dataset)
    suites = [suite.whole() if selection.all_examples else suite for suite in shipped]
    found = [holding for suite in suites for holding in holdings_of(suite, listing, seed=selection.seed)]
    chosen = without_shared(each for each in found if each.model in names)
    # Records from before suites were noted name none.
    own = {(each.suite, each.dataset) for each in [each for each in chosen if each.is_named] or chosen}
    return {
        suite.name if suite.given_dataset is None else f"{suite.name} on {suite.given_dataset}": suite
        for suite in suites
        if (suite.name, suite.given_dataset) in own
    }


def _command(given: str, suite: Suite, selection: Selection, model: str) -> str:
    """Return the command that measures a model under a suite again."""
    name = shown(given) if given in selection.suites else suite.name
    values = {
        "--dataset": suite.given_dataset,
        "--limit": selection.limit,
        "--seed": selection.seed,
    }
    words = ["robench", "run", "--suite", name, "--model", model]
    words += [word for flag, value in values.items() if value is not None for word in (flag, str(value))]
    words += [word for path in selection.registries for word in ("--registry", shown(path))]
    words += ["--all-examples"] if selection.all_examples else []
    words += ["--all-seeds"] if selection.all_seeds else []
    return shlex.join(words)
