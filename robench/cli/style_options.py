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
READERS = ("text", "md", "markdown", *LATEX)
columns_option = option(
    "--columns",
    multiple=True,
    metavar="NAME|PATTERN",
    help="Only these columns: keys, metrics, conditions or patterns such as 'pgd*'.",
)
_INTERVALS = click.Choice(["cell", "row", "none"])
# By field of a style.
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "renames": (
        "--rename",
        {"multiple": True, "metavar": "OLD=NEW", "help": "New name of a model, column or heading."},
    ),
    "intervals": (
        "--intervals",
        {
            "type": _INTERVALS,
            "default": "cell",
            "show_default": True,
            "help": "Beside numbers, in a row below, or none.",
        },
    ),
    "digits": ("--digits", {"type": click.IntRange(0, 9), "metavar": "N", "help": "Decimals of all numbers."}),
    "is_transposed": ("--transpose", {"is_flag": True, "help": "Models as columns."}),
    "caption": ("--caption", {"metavar": "LATEX", "default": "", "help": "Caption of a floating table of LaTeX."}),
    "label": ("--label", {"metavar": "NAME", "default": "", "help": "Label of the caption, such as tab:attacks."}),
}


def style_options(readers: Sequence[str] = READERS) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options to a command, which takes their values as ``style``; ``readers`` are the formats that obey them.

    The command has ``format_name`` or ``formats``, and with an option one of them must be a reader.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def with_style(**values: Any) -> int:
            given = {field: values.pop(field) for field in _OPTIONS}
            style = Style(**given | {"renames": dict(map(_rename, given["renames"]))})
            formats = values.get("formats") or (values["format_name"],)
            for field, (name, _) in _OPTIONS.items():
                taken_by = LATEX if field in ("caption", "label") else readers
                if getattr(style, field) != getattr(PLAIN_STYLE, field) and not {*formats} & {*taken_by}:
                    raise UsageError(
                        f"{name} is of --format {', '.join(taken_by)}, but the format is {', '.join(formats)}; choose"
                        f" another, or leave out {name}"
                    )
            if style.label and not style.caption:
                raise UsageError("--label is of a caption, but there is no --caption; add one, or leave out --label")
            return command(style=style, **values)

        return added(with_style, [option(name, field, **given) for field, (name, given) in _OPTIONS.items()])

    return decorate


def _rename(given: str) -> tuple[str, str]:
    old, _, new = given.partition("=")
    if not (old and new):
        raise UsageError(f"--rename must be OLD=NEW, got {given!r}; write for example --rename pgd=PGD-20")
    return old, clipped(new)
