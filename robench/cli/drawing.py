"""Writing of a figure to the file that a command names."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from robench.cli.options import gathered, option, path_option
from robench.cli.terminal import say
from robench.core.errors import UsageError
from robench.core.files import write_whole, writing
from robench.declare import read_registries
from robench.figures import COLUMN, SUFFIXES, Plot, check_matplotlib, rendered, with_panels


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """File of a figure, its panels, all if none is named, and its width in inches."""

    output: Path
    panels: tuple[str, ...] = ()
    width: float = COLUMN


panel_option = option(
    "--panel",
    "panels",
    multiple=True,
    metavar="TEXT",
    help="Only panels whose title contains TEXT, such as a metric or a type of corruption.",
)
output_option = path_option("--output", "FILE", f"File to write, ending in {', '.join(SUFFIXES)}.", required=True)
width_option = option(
    "--width",
    type=click.FloatRange(2, 20),
    default=COLUMN,
    show_default=True,
    metavar="INCHES",
    help="Width at which texts have 8 points: a column by default, 6.75 is a page of two columns.",
)
of_panels = gathered("target", Target, (panel_option, width_option, output_option))


def format_of(output: Path) -> str:
    """Return the format of a figure by the suffix of its file; refuse others, and a missing matplotlib."""
    suffix = output.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"the suffix of {output} is {suffix!r}; end the file's name in {', '.join(SUFFIXES)}")
    check_matplotlib()
    return SUFFIXES[suffix]


def draw(plot_of: Callable[[], Plot], target: Target, registries: tuple[Path, ...] = ()) -> int:
    """Write a plot to a file; places in the registries decide the colours of its models."""
    # What needs no results is refused first.
    format_name = format_of(target.output)
    plot = with_panels(plot_of(), target.panels)
    content = rendered(plot, format_name, target.width, read_registries(registries) if plot.models else ())
    with writing(target.output):
        write_whole(target.output, content)
    if plot.left_out:
        say(
            f"Not drawn: {', '.join(plot.left_out)}. Without --model the eight best are drawn, and never a model that "
            "has no number."
        )
    if plot.not_curves:
        say(f"Not drawn: {', '.join(plot.not_curves)}. A curve is an attack at two budgets or more.")
    say(f"wrote {target.output}")
    return 0
