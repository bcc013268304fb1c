"""``robench compare``: two models on the same examples, from the store alone."""

import click

from robench.cli.names import complete_models
from robench.cli.options import all_seeds_option, format_option, option
from robench.cli.selection import OF_SUITES, Selection, selecting
from robench.cli.terminal import out_document

# ``md`` as robench report calls it.
FORMATS = {"text": "text", "markdown": "markdown", "md": "markdown", "json": "json", "csv": "csv"}


@click.command("compare")
@click.argument("first", metavar="A", shell_complete=complete_models)
@click.argument("second", metavar="B", shell_complete=complete_models)
@selecting((*OF_SUITES, all_seeds_option))
@option("--flipped", is_flag=True, help="Also list the examples that only one of the two is right about.")
@format_option(FORMATS, "table")
def command(selection: Selection, first: str, second: str, flipped: bool, format_name: str) -> int:
    """Compare models A and B example by example, on all columns of the suites.

    Differences are A less B, with 95 % intervals; p-values are two-sided, and multiplied by the suite's number of
    columns. No model, data or GPU is needed. Ends with 4 if the two were measured on different data. With --all-seeds
    means over training seeds are compared.
    """
    # Imported here, so that help needs no numpy.
    from robench.comparison import RENDERERS, compare_models
    from robench.declare import seeds_of_models

    suites = selection.found_suites()
    seeds = seeds_of_models((first, second), selection.registries) if selection.all_seeds else None
    comparison = compare_models(
        suites, selection.store(), first, second, limit=selection.limit, seed=selection.seed, seeds=seeds
    )
    out_document(RENDERERS[FORMATS[format_name]](comparison, flipped=flipped))
    return 0
