"""Worker process, child side: tasks are received and answers sent through a pipe."""

import logging
import os
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from robench.core.child_processes import end_with_parent
from robench.core.containment import Contained
from robench.core.memory import keep_freed_memory
from robench.core.standard_output import divert_for_good
from robench.core.user_code import unpickled

# Read by numerical libraries when first imported: one thread per worker, see evaluation/arithmetic.py.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Prefix of each message, unique to a worker, so that nothing else in the pipe can be taken for one.
TOKEN_SIZE = 16
LENGTH_SIZE = 8


class Heartbeat:
    """Message of a live worker, busy or not."""


def work(pipe: Connection, answer: Callable[..., object], token: bytes, seconds_between_beats: float) -> None:
    """Report that the worker is ready, and answer each task until None arrives or the parent is gone.

    A task is the arguments of ``answer``.

    A thread sends heartbeats meanwhile. None come while native code holds the interpreter, or from a stopped process.
    """
    # A separate process group: everything that a model starts can be ended with it.
    os.setsid()
    keep_freed_memory()
    end_with_parent(kills_group=True)
    divert_for_good()
    # Warnings about data were issued when the run was prepared.
    logging.getLogger("robench").setLevel(logging.ERROR)
    outbox = _Outbox(pipe, token)
    try:
        outbox.send(None)
        beating = threading.Thread(target=outbox.beat, args=(seconds_between_beats,), name="robench-heartbeat")
        beating.daemon = True
        beating.start()
        while (task := _received(pipe)) is not None:
            outbox.send(answer(*task))
    except (EOFError, OSError):
        # The pipe is closed: leave at once, before libraries' own threads hold the exit up.
        os._exit(1)


def _received(pipe: Connection) -> Any:
    content = pipe.recv_bytes()
    # A task may contain objects of other distributions, whose modules are imported here (contained, as in the run).
    with Contained(keeps_environment=True):
        return unpickled(content)


class _Outbox:
    """Sender of whole messages, one at a time, from several threads."""

    def __init__(self, pipe: Connection, token: bytes) -> None:
        self._pipe = pipe
        self._token = token
        self._lock = threading.Lock()

    def send(self, message: object) -> None:
        """Write a message; raise an OSError if the pipe is closed."""
        content = pickle.dumps(message)
        rest = memoryview(self._token + len(content).to_bytes(LENGTH_SIZE) + content)
        with self._lock:
            while rest:
                rest = rest[os.write(self._pipe.fileno(), rest) :]

    def beat(self, seconds: float) -> None:
        """Send heartbeats until the pipe is closed."""
        with suppress(OSError, ValueError):
            while True:
                time.sleep(seconds)
                self.send(Heartbeat())


class GarbledError(Exception):
    """Error for bytes in a worker's pipe that are not messages."""


class Inbox:
    """Decoder of messages from the bytes of a worker's pipe."""

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._held = bytearray()

    def messages(self, received: bytes) -> list[object]:
        """Return the complete messages. Raises GarbledError: the bytes do not form a message."""
        self._held += received
        whole: list[object] = []
        head = TOKEN_SIZE + LENGTH_SIZE
        while self._held:
            if not (self._token.startswith(self._held[:TOKEN_SIZE])):
                raise GarbledError
            end = head + int.from_bytes(self._held[TOKEN_SIZE:head])
            if len(self._held) < head or len(self._held) < end:
                break
            try:
                whole.append(pickle.loads(self._held[head:end]))
            except Exception as error:
                raise GarbledError from error
            del self._held[:end]
        return whole
