"""Results that are rendered as text in several formats: reports, leaderboards and papers' tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import ClassVar, Literal

from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.files import absolute, write_whole
from robench.core.plugins import imported

SUFFIXES = {".txt": "text", ".md": "md", ".csv": "csv", ".json": "json", ".html": "html", ".tex": "latex"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Appearance of a table in text, Markdown and LaTeX.

    Attributes:
        renames: new names of models, columns and words of their headings, by the old ones.
        intervals: place of an interval: ``cell`` beside its number, ``row`` in a row below, ``none`` nowhere.
        digits: decimals of all numbers; None for one of a per cent, and four significant digits of other units.
        is_transposed: whether models are columns.
        caption, label: of a floating table of LaTeX, as LaTeX; a table without caption does not float.
    """

    renames: Mapping[str, str] = field(default_factory=dict)
    intervals: Literal["cell", "row", "none"] = "cell"
    digits: int | None = None
    is_transposed: bool = False
    caption: str = ""
    label: str = ""


PLAIN_STYLE = Style()


class Rendered:
    """Base class of results with ``renderers``: ``module:mapping`` of those by format, imported on first use."""

    __slots__ = ()

    renderers: ClassVar[str]

    def render(self, format_name: str) -> str:
        """Return the result as text.

        Raises:
            UsageError: there is no such format.
        """
        found: Mapping[str, Callable[[object], str]] = imported(self.renderers)
        if format_name not in found:
            raise UsageError(f"format must be one of {', '.join(found)}, got {format_name!r}")
        return found[format_name](self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a file in the format of its suffix, such as ``.html`` or ``.csv``.

        Raises:
            UsageError: the suffix is of no format of this result.
            StoreUnwritableError: the file cannot be written; one that exists is unharmed.
        """
        file = absolute(path, "path")
        texts: Mapping[str, Callable[[object], str]] = imported(self.renderers)
        format_name = SUFFIXES.get(file.suffix, "")
        if format_name not in texts:
            suffixes = ", ".join(suffix for suffix, name in SUFFIXES.items() if name in texts)
            raise UsageError(f"the suffix of {file.name!r} names the format, and must be one of {suffixes}")
        content = texts[format_name](self).encode()
        try:
            write_whole(file, content)
        except OSError as error:
            raise StoreUnwritableError(f"{file} cannot be written: {error.strerror}") from error
