"""``robench strength``: how near the attacks of a suite come to the smallest perturbations of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from robench.cli.options import executor_options, format_option, measuring_options, model_option, precision_option
from robench.cli.selection import OF_ONE_SUITE, Selection, selecting
from robench.cli.terminal import out_document, say

if TYPE_CHECKING:
    from robench.comparison import Strengths
    from robench.core.protocols import Store
    from robench.runs import PreparedRun

FORMATS = {"text": "text", "markdown": "markdown", "md": "markdown", "json": "json"}


@click.command("strength")
@selecting((*OF_ONE_SUITE, model_option(required=True), precision_option))
@measuring_options
@executor_options
@format_option(FORMATS, "tables")
def command(
    selection: Selection,
    format_name: str,
    # Further options have the names and types of the request's fields.
    **settings: Any,
) -> int:
    """Compare the attacks of a suite: optimality, distances, costs, and the images that one attack alone fools.

    A table for each model and norm, and of several models the mean. What is missing is measured first. Ends with 1 if
    an attack lacks examples.
    """
    from robench.cli.progress import WatchedRun, has_kept, kept_text, say_failures
    from robench.cli.run_command import kept_in
    from robench.comparison import STRENGTH_RENDERERS, strengths_of, with_comparable
    from robench.reports.results import Stored
    from robench.runs import in_rounds, prepare

    request, store = selection.request(audit=False, **settings), selection.store()
    suite, notes = with_comparable(request.suites[0])
    store.check_writable()
    prepared = prepare(replace(request, suites=(suite,)))

    def read(prepared: PreparedRun, store: Store) -> Strengths:
        seed = suite.seed if request.seed is None else request.seed
        results = Stored(suite, store, prepared.keys(suite), seed, request.precision)
        return strengths_of(suite, results, [each.name for each in request.checkpoints], request.limit)

    watch = WatchedRun()
    found = in_rounds(prepared, store, read, watch)
    (progress,) = watch.filled.values()
    text = STRENGTH_RENDERERS[FORMATS[format_name]](replace(found, notes=(*notes, *found.notes)))
    out_document(text, if_lost=kept_in(selection.results, has_kept(progress)))
    say_failures(progress)
    if watch.exit_code:
        say(f"Interrupted. {kept_text(progress)}")
    return watch.exit_code or (1 if found.missing or progress.num_failed else 0)
