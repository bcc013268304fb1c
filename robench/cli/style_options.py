"""Options of the appearance of tables, the same for ``report``, ``leaderboard``, ``compare`` and ``table``."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from robench.cli.options import added, option
from robench.core.errors import UsageError
from robench.core.inert import clipped
from robench.core.rendered import PLAIN_STYLE, Style

LATEX = ("latex",)
_OF_COLUMNS = "Only these columns: keys, metrics, conditions or patterns such as 'pgd*'."
_PLACES = click.Choice(["cell", "row", "none"])
columns_option = option("--columns", multiple=True, metavar="NAME|PATTERN", help=_OF_COLUMNS)
_OPTIONS = (
    option("--rename", "renames", multiple=True, metavar="OLD=NEW", help="New name of a model, column or heading."),
    option(
        "--intervals", type=_PLACES, default="cell", show_default=True, help="Beside numbers, in a row below, or none."
    ),
    option("--digits", type=click.IntRange(0, 9), metavar="N", help="Decimals of all numbers."),
    option("--transpose", "is_transposed", is_flag=True, help="Models as columns."),
    option("--caption", default="", metavar="LATEX", help="Caption of a floating table of LaTeX."),
    option("--label", default="", metavar="NAME", help="Label of the caption, such as tab:attacks."),
)
_NAMES = {"renames": "--rename", "is_transposed": "--transpose"}


def style_options(
    readers: Sequence[str] = ("text", "md", "markdown", *LATEX),
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options to a command, which takes their values as ``style``; ``readers`` are the formats that obey them.

    The command has ``format_name`` or ``formats``, and with an option one of them must be a reader.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def with_style(**values: Any) -> int:
            given = {field: values.pop(field) for field in Style.__slots__}
            style = Style(**given | {"renames": dict(map(_renamed, given["renames"]))})
            formats = values.get("formats") or (values["format_name"],)
            for field in Style.__slots__:
                taken_by = LATEX if field in ("caption", "label") else readers
                if getattr(style, field) != getattr(PLAIN_STYLE, field) and not {*formats} & {*taken_by}:
                    name = _NAMES.get(field, f"--{field}")
                    raise UsageError(
                        f"{name} is of --format {', '.join(taken_by)}, but the format is {', '.join(formats)}; choose"
                        f" another, or leave out {name}"
                    )
            if style.label and not style.caption:
                raise UsageError("--label is of a caption, but there is no --caption; add one, or leave out --label")
            return command(style=style, **values)

        return added(with_style, _OPTIONS)

    return decorate


def _renamed(given: str) -> tuple[str, str]:
    old, _, new = given.partition("=")
    if not (old and new):
        raise UsageError(f"--rename must be OLD=NEW, got {given!r}; write for example --rename pgd=PGD-20")
    return old, clipped(new)
