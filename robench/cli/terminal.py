"""Output of all commands: data to stdout, everything else to stderr, with escaped control characters.

Names, paths and messages may be untrusted, so every line goes through ``core.inert.printable``: line breaks separate
the arguments, and those inside an argument are escaped. If stderr cannot be written, the output is lost and the command
continues. If stdout cannot, the command continues too, and ends with ``OutputError``.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from robench.core.errors import RobenchError
from robench.core.files import write_whole, writing
from robench.core.inert import NOTE_WIDTH, clipped, inert_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

# Longer lines on stderr are truncated: robench's own messages are shorter, but those of libraries may not be.
LINE_WIDTH = 4000


class OutputError(RobenchError):
    """Error for output that stdout refused, in whole or in part."""


class ReaderGoneError(OutputError):
    """Error for a closed reader of stdout, such as ``head``; the exit code is that of programs ended by SIGPIPE."""

    exit_code = 141


def out(*lines: str) -> None:
    """Print lines of data."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    # A full disk or a closed reader is detected here at once.
    sys.stdout.flush()


def out_encoding() -> str:
    """Return the encoding of stdout."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def out_document(text: str, *, if_lost: str = "") -> None:
    """Print text formatted by robench; ``if_lost`` names its other location, should stdout refuse it."""
    out(*text.removesuffix("\n").split("\n"))
    if isinstance(sys.stdout, _Guard):
        sys.stdout.advice = if_lost


def out_json(value: Any) -> None:
    """Print a value as JSON."""
    out_document(inert_json(value))


def out_entries(
    as_json: bool,
    entries: Any,
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    alignment: Sequence[str] = (),
) -> None:
    """Print entries as JSON, or as rows of a table."""
    if as_json:
        out_json(entries)
    else:
        out_table(headers, rows, alignment)


def put(content: str | bytes, path: Path | None, note: str = "") -> None:
    """Write a file whole and say so, with a note; without a path print the text."""
    if path is None:
        assert isinstance(content, str)
        out_document(content)
        return
    with writing(path):
        write_whole(path, content if isinstance(content, bytes) else content.encode())
    say(f"wrote {path}{note}")


def out_table(headers: Sequence[str], rows: Iterable[Sequence[str]], alignment: Sequence[str] = ()) -> None:
    """Print a table of texts, each truncated to the width of a note."""
    from tabulate import tabulate

    shown = [[clipped(cell, NOTE_WIDTH) for cell in row] for row in rows]
    out_document(
        tabulate(shown, headers=headers, tablefmt="plain", disable_numparse=True, colalign=tuple(alignment) or None)
    )


def say(*lines: str) -> None:
    """Print a message to stderr, or drop it if that cannot be written."""
    text = "".join(f"{clipped(line, LINE_WIDTH)}\n" for line in lines)
    # A ValueError is a stream that was closed; without stderr there is no stream at all.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()


def is_interactive() -> bool:
    """Return whether stderr is a terminal, so that a progress bar can be drawn there."""
    return sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("CI")


def bar_console() -> Console:
    """Return the console of progress bars: stderr."""
    from rich.console import Console

    return Console(stderr=True)


def check_output() -> None:
    """Check that everything printed on stdout was written.

    Raises:
        ReaderGoneError: it is a pipe without a reader; the message is empty unless there is advice.
        OutputError: it is closed, or its disk is full.
    """
    sys.stdout.flush()
    refusal = getattr(sys.stdout, "refusal", None)
    if refusal is None:
        return
    advice = getattr(sys.stdout, "advice", "")
    if isinstance(refusal, BrokenPipeError):
        raise ReaderGoneError(*([f"the reader of stdout is gone; {advice}"] if advice else []))
    reason = getattr(refusal, "strerror", None) or str(refusal)
    raise OutputError(f"stdout cannot be written ({reason}){f'; {advice}' if advice else ''}")


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Prevent the standard streams from raising while a command runs, and when the interpreter ends."""
    _fill_closed_descriptors()
    before = sys.stdout, sys.stderr
    guards = _Guard(before[0], gives_up=True), _Guard(before[1])
    sys.stdout, sys.stderr = guards
    try:
        yield
    finally:
        for guard in guards:
            guard.settle()
        sys.stdout, sys.stderr = before


@contextmanager
def unguarded_streams() -> Iterator[None]:
    """Restore Python's original streams for a user's script."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (each.stream if isinstance(each, _Guard) else each for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def route_messages() -> None:
    """Route messages of loggers and Python's warnings through ``say``."""
    handler = _Handler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(OnceEach())
    logging.getLogger("robench").handlers = [handler]
    # For unconfigured loggers; not a handler of the root logger, which a script would then not configure.
    logging.lastResort = _Handler(logging.WARNING)
    warnings.showwarning = _say_warning


class OnceEach(logging.Filter):
    """Filter that passes each message once: a dataset is opened for the checks, and again for measuring."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is new."""
        message = record.getMessage()
        is_new = message not in self._shown
        self._shown.add(message)
        return is_new


class _Handler(logging.Handler):
    """Logging handler that prints messages."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del file, line
    say(f"{category.__name__}: {message} ({filename}:{lineno})")


class _Guard(io.TextIOBase):
    """Text stream that never raises: unwritable output is dropped, and the reason is stored in ``refusal``.

    It has no ``buffer``, through which click would bypass it.

    Args:
        stream: None if the descriptor was closed when Python started.
        gives_up: whether to write nothing after the first refusal, since output after a gap is useless. Otherwise each
            write is tried: a full disk may have space again.
    """

    def __init__(self, stream: TextIO | None, *, gives_up: bool = False) -> None:
        self.stream = stream
        self.refusal: Exception | None = None
        self.advice = ""
        self._gives_up = gives_up
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a mere attribute of the base class
        """Return the encoding of the stream."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write, or store the reason for failing."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}")
        self._try("write", text)
        return len(text)

    def flush(self) -> None:
        """Flush the buffer, or store the reason for failing."""
        if self.stream is not None:
            self._try("flush")

    def _try(self, method: str, *arguments: str) -> None:
        if self._gives_up and self.refusal is not None:
            return
        try:
            if self.stream is None:
                raise OSError(errno.EBADF, "it is closed")
            getattr(self.stream, method)(*arguments)
        except (OSError, ValueError) as error:
            # The reason of an earlier refusal stays: a flush without output has none.
            self.refusal = self.refusal or error

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self.stream is not None and not self.stream.closed and self.stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor."""
        if self.stream is None:
            raise io.UnsupportedOperation("fileno")
        return self.stream.fileno()

    def writable(self) -> bool:
        """Return True: it is writable."""
        return True

    def settle(self) -> None:
        """Flush now or drop buffered output, since failing at interpreter exit would print an error."""
        if self.stream is None:
            return
        try:
            self.stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.stream.fileno())
                os.close(nowhere)
                self.stream.flush()


def _fill_closed_descriptors() -> None:
    """Occupy the descriptors of closed standard streams, so that newly opened files do not get them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is this one; Python's stream stays None, as before.
            os.open(os.devnull, os.O_RDWR)
