"""Results that are rendered as text in several formats: reports, leaderboards and papers' tables."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import ClassVar

from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.files import absolute, write_whole
from robench.core.plugins import imported

SUFFIXES = {".txt": "text", ".md": "md", ".csv": "csv", ".json": "json", ".html": "html", ".tex": "latex"}


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
