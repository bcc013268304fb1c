"""The thread that stores results."""

import threading
import time

import pytest

from examples import HEADER, NEXT_HEADER, record_of
from robench.core.errors import StoreError
from robench.core.records import Failure, Record
from robench.scheduling.measure import MAX_WAITING, Writer

FIRST, SECOND = record_of(HEADER), record_of(NEXT_HEADER)


def test_results_are_stored_in_order_by_another_thread_and_all_at_the_end() -> None:
    stored: list[tuple[Record | Failure, str]] = []

    def store(result: Record | Failure) -> None:
        time.sleep(0.01)
        stored.append((result, threading.current_thread().name))

    with Writer(store) as writer:
        for result in (FIRST, SECOND) * 3:
            writer.put(result)
    assert [result for result, _ in stored] == [FIRST, SECOND] * 3
    assert {name for _, name in stored} == {"robench-writer"}


def test_putting_waits_for_no_write_until_too_many_wait() -> None:
    gate = threading.Event()
    stored: list[Record | Failure] = []

    def store(result: Record | Failure) -> None:
        gate.wait()
        stored.append(result)

    with Writer(store) as writer:
        # One is being written, and the rest wait.
        for _ in range(MAX_WAITING):
            writer.put(FIRST)
        assert stored == []
        gate.set()
    assert len(stored) == MAX_WAITING


def test_at_once_is_before_the_next_result() -> None:
    stored: list[tuple[Record | Failure, str]] = []
    with Writer(lambda result: stored.append((result, threading.current_thread().name)), at_once=True) as writer:
        for count, result in enumerate((FIRST, SECOND), start=1):
            writer.put(result)
            assert len(stored) == count
    assert stored == [(each, threading.current_thread().name) for each in (FIRST, SECOND)]


def test_an_error_reaches_the_next_put_and_nothing_more_is_stored() -> None:
    asked: list[Record | Failure] = []

    def store(result: Record | Failure) -> None:
        asked.append(result)
        raise StoreError("disk full")

    def put_until_refused() -> None:
        with Writer(store) as writer:
            while True:
                writer.put(FIRST)
                time.sleep(0.001)

    with pytest.raises(StoreError, match="disk full"):
        put_until_refused()
    assert len(asked) == 1


def test_an_error_of_the_last_write_is_raised_at_the_end() -> None:
    def store(result: Record | Failure) -> None:
        raise StoreError("disk full")

    with pytest.raises(StoreError, match="disk full"), Writer(store) as writer:
        writer.put(FIRST)


def test_what_was_put_before_an_error_of_the_block_is_stored_and_that_error_raised() -> None:
    stored: list[Record | Failure] = []

    def interrupted() -> None:
        with Writer(stored.append) as writer:
            writer.put(FIRST)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stored == [FIRST]
