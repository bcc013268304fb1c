"""The one place that prints: data to stdout, everything else to stderr, and nothing that a terminal would obey.

Names, paths and messages come from files that strangers write, so every line goes through ``core.inert.printable``: the
line breaks are those between the arguments, and one inside an argument is escaped. Where stderr cannot be written, what
was to be said is lost and the command goes on. Where stdout cannot, the command goes on too, and ends with
``OutputError``.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from robench.core.errors import RobenchError
from robench.core.inert import NOTE_WIDTH, clipped, inert_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

# Longer lines on stderr are cut: no message of robench's own is as long, but what a library raises may be.
LINE_WIDTH = 4000


class OutputError(RobenchError):
    """Error of output that stdout refused: all that was to be printed is lost, or some of it."""


class ReaderGoneError(OutputError):
    """The reader of stdout left, as ``head`` does; the exit code is that of programs which SIGPIPE ends."""

    exit_code = 141


def out(*lines: str) -> None:
    """Print lines of data."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    # Here a full disk or a reader that left is known at once.
    sys.stdout.flush()


def out_document(text: str, *, if_lost: str = "") -> None:
    """Print text that robench has laid out itself; ``if_lost`` says where it is kept, should stdout refuse it."""
    out(*text.removesuffix("\n").split("\n"))
    if isinstance(sys.stdout, _Guard):
        sys.stdout.advice = if_lost


def out_json(value: Any) -> None:
    """Print a value as JSON."""
    out_document(inert_json(value))


def out_table(headers: Sequence[str], rows: Iterable[Sequence[str]], alignment: Sequence[str] = ()) -> None:
    """Print a table of texts, each cut to the width of a note."""
    # Imported here, so that help does without.
    from tabulate import tabulate

    shown = [[clipped(cell, NOTE_WIDTH) for cell in row] for row in rows]
    out_document(
        tabulate(shown, headers=headers, tablefmt="plain", disable_numparse=True, colalign=tuple(alignment) or None)
    )


def say(*lines: str) -> None:
    """Tell the user something on stderr, or not, where that cannot be written."""
    text = "".join(f"{clipped(line, LINE_WIDTH)}\n" for line in lines)
    # A ValueError is a stream that was closed; without stderr there is no stream at all.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()


def is_interactive() -> bool:
    """Return whether somebody watches stderr, so that a progress bar can be drawn there."""
    return sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("CI")


def bar_console() -> Console:
    """Return the console on which a progress bar is drawn: stderr."""
    # Imported here, so that help needs no rich.
    from rich.console import Console

    return Console(stderr=True)


def check_output() -> None:
    """Make sure that all that was printed on stdout was written.

    Raises:
        ReaderGoneError: it is a pipe that nobody reads any more; without a message, unless there is advice.
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
    """Let no stream raise for as long as a command runs, nor when the interpreter ends."""
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
    """Give a script of the user's the streams as Python opened them."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (each.stream if isinstance(each, _Guard) else each for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def route_messages() -> None:
    """Let the messages of robench's and of libraries' loggers, and Python's warnings, be said like all others."""
    handler = _Handler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(OnceEach())
    logging.getLogger("robench").handlers = [handler]
    # Of loggers that nobody configured; no handler of the root logger, which a script would then not configure either.
    logging.lastResort = _Handler(logging.WARNING)
    warnings.showwarning = _say_warning


class OnceEach(logging.Filter):
    """Lets each message through once: a dataset is opened for the checks, and again by whoever measures."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is new."""
        message = record.getMessage()
        is_new = message not in self._said
        self._said.add(message)
        return is_new


class _Handler(logging.Handler):
    """Says what is logged."""

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
    """A text stream that refuses nothing: what cannot be written is lost, and the reason is kept in ``refusal``.

    It has no ``buffer``, past which click would write.

    Args:
        stream: None where the descriptor was closed when Python started.
        gives_up: writes nothing more after the first refusal, since what follows a gap is worth nothing. Otherwise each
            write is tried: a disk that was full may not be any more.
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
        """Encoding of the stream."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write, or keep the reason why not."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}")
        self._try("write", text)
        return len(text)

    def flush(self) -> None:
        """Write what is held back, or keep the reason why not."""
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
            # The reason of an earlier refusal stays: of a flush in which nothing was written, there is none.
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
        """Return that it can be written to."""
        return True

    def settle(self) -> None:
        """Write what is held back now, or never: when the interpreter ends, it would complain."""
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
    """Open nothing in the place of standard streams that are closed, where the next file would be taken for them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest that is free, which is this one; of the streams of Python there is none, as before.
            os.open(os.devnull, os.O_RDWR)
