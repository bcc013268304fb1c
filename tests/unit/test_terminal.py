"""What is printed: inert, on a stream that may refuse it, in an encoding that may lack it."""

import errno
import io
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable

import pytest

from examples import SHARD, failure_of
from robench.cli.progress import progress_shown
from robench.cli.terminal import (
    LINE_WIDTH,
    OutputError,
    ReaderGoneError,
    check_output,
    guarded_streams,
    out,
    out_document,
    out_json,
    out_table,
    route_messages,
    say,
    unguarded_streams,
)
from robench.core.inert import inert_json
from robench.scheduling import Progress
from robench.scheduling.display import ProgressLines

HOSTILE = "a\x1b[31m\x9b2J\u202e\u200b\ud83d\r\x07\x7f\nforged"
ESCAPED = r"a\x1b[31m\x9b2J\u202e\u200b\ud83d\r\x07\x7f\nforged"


class Refusing(io.StringIO):
    """A stream on which nothing can be written for as long as it refuses."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.refuses = True

    def write(self, text: str) -> int:
        if self.refuses:
            raise OSError(self.number, os.strerror(self.number))
        return super().write(text)


def encoded(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize("print_it", [out, say])
def test_a_line_stays_one_unobeyed_line(capsys: pytest.CaptureFixture[str], print_it: Callable[..., None]) -> None:
    print_it(HOSTILE, "next")
    captured = capsys.readouterr()
    assert captured.out + captured.err == f"{ESCAPED}\nnext\n"


def test_a_table_keeps_one_line_for_each_row_and_cuts_long_cells(capsys: pytest.CaptureFixture[str]) -> None:
    out_table(["name", "text"], [[HOSTILE, "x" * 10_000], ["b", "c"]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith(ESCAPED)
    assert max(map(len, lines)) < 500


def test_a_long_message_is_cut_and_long_data_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    say("x" * 10_000)
    out("x" * 10_000)
    captured = capsys.readouterr()
    assert (len(captured.err), len(captured.out)) == (LINE_WIDTH + 1, 10_001)


def test_json_gives_back_what_went_in_and_is_printable_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    out_json({HOSTILE: ["é", HOSTILE]})
    text = capsys.readouterr().out
    assert json.loads(text) == {HOSTILE: ["é", HOSTILE]}
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


def test_json_refuses_what_it_cannot_say() -> None:
    with pytest.raises(ValueError, match="nan"):
        inert_json([float("nan")])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    streams = encoded(encoding), encoded(encoding)
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    with guarded_streams():
        out("é — 字")
        say("é — 字")
        check_output()
    first = b"\\xe9" if encoding == "ascii" else b"\xe9"
    for stream in streams:
        assert stream.buffer.getvalue() == first + b" \\u2014 \\u5b57\n"  # type: ignore[attr-defined]  # a BytesIO


class TestRefusals:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EPIPE])
    def test_stderr_that_refuses_is_tried_again(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        stream = Refusing(number)
        monkeypatch.setattr(sys, "stderr", stream)
        with guarded_streams():
            say("lost")
            sys.stderr.write("lost too\n")
            stream.refuses = False
            say("seen")
        assert stream.getvalue() == "seen\n"

    def test_progress_that_meets_a_full_disk_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", Refusing(errno.ENOSPC))
        display = ProgressLines(say, 0)
        for done in range(3):
            result = failure_of(SHARD.header) if done else None
            display(Progress(num_shards=2, num_kept_before=0, num_done=done, num_failed=done, result=result))

    def test_a_progress_bar_that_meets_a_full_disk_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CI", raising=False)
        stream = Refusing(errno.ENOSPC)
        monkeypatch.setattr(stream, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stderr", stream)
        with guarded_streams(), progress_shown(2) as on_progress:
            assert not isinstance(on_progress, ProgressLines)
            failure = failure_of(SHARD.header)
            on_progress(Progress(num_shards=2, num_kept_before=0, num_done=1, num_failed=1, result=failure))

    def test_stdout_that_refuses_is_told_at_the_end_with_what_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = Refusing(errno.ENOSPC)
        monkeypatch.setattr(sys, "stdout", stream)
        with guarded_streams():
            out_document("a table\n", if_lost="it is kept in r")
            stream.refuses = False
            out("what follows a gap")
            with pytest.raises(OutputError, match=r"^stdout cannot be written \(No space left on device\); it is kept"):
                check_output()
        assert stream.getvalue() == ""

    def test_a_reader_that_left_needs_no_message_unless_all_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for advice, lines in (("", ()), ("it is kept", ("the reader of stdout is gone; it is kept",))):
            monkeypatch.setattr(sys, "stdout", Refusing(errno.EPIPE))
            with guarded_streams():
                out_document("a table", if_lost=advice)
                with pytest.raises(ReaderGoneError) as caught:
                    check_output()
            assert (caught.value.lines, caught.value.exit_code) == (lines, 141)

    def test_streams_that_were_closed_before_python_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", None)
        say("nobody hears")
        with guarded_streams():
            say("nobody hears")
            assert not sys.stderr.isatty()
            out("lost")
            with pytest.raises(OutputError, match="it is closed"):
                check_output()

    def test_nothing_printed_is_nothing_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        with guarded_streams():
            check_output()

    def test_a_script_gets_the_streams_as_they_are(self) -> None:
        before = sys.stdout, sys.stderr
        with guarded_streams():
            assert (sys.stdout, sys.stderr) != before
            with unguarded_streams():
                assert (sys.stdout, sys.stderr) == before
            assert (sys.stdout, sys.stderr) != before
        assert (sys.stdout, sys.stderr) == before


class TestMessagesOfLibraries:
    @pytest.fixture(autouse=True)
    def _routed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(logging, "lastResort", logging.lastResort)
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr(logging.getLogger("robench"), "handlers", [])
        monkeypatch.setattr(logging.getLogger("robench"), "propagate", False)
        route_messages()

    def test_robenchs_own_loggers_say_each_message_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        for _ in range(2):
            logging.getLogger("robench.store").warning("%s is damaged", HOSTILE)
        assert capsys.readouterr().err == f"WARNING: {ESCAPED} is damaged\n"

    def test_unconfigured_loggers(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(logging.getLogger("foreign"), "propagate", False)
        logging.getLogger("foreign").warning(HOSTILE)
        assert capsys.readouterr().err == f"{ESCAPED}\n"

    def test_warnings(self, capsys: pytest.CaptureFixture[str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning(UserWarning(HOSTILE), UserWarning, "file.py", 7)
        assert capsys.readouterr().err == f"UserWarning: {ESCAPED} (file.py:7)\n"
