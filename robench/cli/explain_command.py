"""``robench explain``: what the kept results of one model say, and what happened to one example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.completion import complete_models
from robench.cli.options import (
    AbsolutePath,
    all_examples_option,
    data_root_option,
    dataset_option,
    device_option,
    json_option,
    limit_option,
    one_suite_option,
    option,
    registry_option,
    results_option,
    seed_option,
)
from robench.cli.terminal import out_document, say
from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.files import write_whole
from robench.declare import find_suites
from robench.reports import explain
from robench.store import FolderStore

if TYPE_CHECKING:
    from robench.core.suite import Suite
    from robench.reports import Explanation


@click.command("explain")
@click.argument("model", shell_complete=complete_models)
@one_suite_option
@option("--example", metavar="ID", help="Also show the outcome of this example under every condition.")
@option(
    "--picture",
    type=AbsolutePath(),
    metavar="FILE",
    help="Also draw the example under every condition, as PNG; this runs the attacks on it once more.",
)
@dataset_option
@registry_option
@limit_option
@all_examples_option
@results_option
@seed_option
@device_option
@data_root_option
@json_option
def command(
    model: str,
    suite: str,
    example: str | None,
    picture: Path | None,
    dataset: str | None,
    registries: tuple[Path, ...],
    limit: int | None,
    all_examples: bool,
    results: Path,
    seed: int | None,
    device: str,
    data_root: Path | None,
    as_json: bool,
) -> int:
    """Explain the kept results of MODEL: each attack with its budget, flags and what they mean, failures.

    Without results of the suite the exit code is 1. No model, data or GPU is needed, except for --picture. 'robench
    export images' draws several examples.
    """
    if picture is not None and example is None:
        raise UsageError("--picture draws one example; name it with --example")
    (found,) = find_suites([suite], registries, dataset, all_examples=all_examples)
    explanation = explain(found, FolderStore(results), model, example=example, limit=limit, seed=seed)
    out_document(explanation.render("json" if as_json else "text"))
    if picture is not None:
        _draw(picture, found, explanation, registries, device, data_root)
    return 0


def _draw(
    file: Path,
    suite: Suite,
    explanation: Explanation,
    registries: tuple[Path, ...],
    device: str,
    data_root: Path | None,
) -> None:
    # Imported here, so that help needs no torch.
    from robench.cli.picturing import pictures_of
    from robench.exports.pictures import grid_of, png_of

    # Conditions on the first dataset that has the example; corrupted copies of it are examples of their own.
    measured = [view for view in explanation.views if view.name in explanation.outcomes]
    names = [view.name for view in measured if view.dataset == measured[0].dataset]
    drawn = pictures_of(
        suite,
        explanation.model,
        names,
        registries=registries,
        device=device,
        seed=explanation.seed,
        data_root=data_root,
        examples=[explanation.example or ""],
    )
    try:
        write_whole(file, png_of(grid_of(drawn)))
    except OSError as error:
        raise StoreUnwritableError(f"{file} cannot be written: {error.strerror or error}") from error
    say(f"wrote {file}")
