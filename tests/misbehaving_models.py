"""Models that misbehave, one way each; robench imports them as a user's own code (``backbone: python``).

``build(kind)`` returns a model that does so on each batch of 20 rows, which is the size of the tests' suites, and
``build(kind, at_once=True)`` on every input, so that it does so in the preflight check already.
"""

import atexit
import ctypes
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

BATCH_SIZE = 20
_DONE: set[str] = set()


class TextlessError(Exception):
    """An error whose text is code."""

    def __str__(self) -> str:
        raise SystemExit("no text")


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def misbehave(model: nn.Module, x: torch.Tensor, logits: torch.Tensor) -> NoReturn:
        raise error

    return misbehave


def doing(*calls: Callable[[], object], once: bool = False) -> Callable[..., torch.Tensor]:
    """Return a misbehaviour that calls these functions and then answers as it should."""

    def misbehave(model: nn.Module, x: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        name = str(model.kind)
        if not (once and name in _DONE):
            _DONE.add(name)
            for call in calls:
                call()
        return logits

    return misbehave


def returning(answer: Callable[[torch.Tensor], object]) -> Callable[..., object]:
    return lambda model, x, logits: answer(logits)


def fork_that_lives() -> None:
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)


def fork_that_dies() -> None:
    if os.fork() == 0:
        os._exit(1)


def fork_then_exit() -> None:
    fork_that_lives()
    os._exit(3)


def sleep_with_the_interpreter_held() -> None:
    ctypes.PyDLL(None).sleep(600)


def recurse() -> None:
    recurse()


def print_a_lot() -> None:
    print("printed by the model")  # noqa: T201
    assert sys.__stdout__ is not None
    sys.__stdout__.write("printed by the model, and held back")
    ctypes.CDLL(None).printf(b"printed by the model, in C\n")


def replace_stdout() -> None:
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123


def close_streams() -> None:
    assert sys.stdout is not None
    assert sys.stderr is not None
    sys.stdout.close()
    sys.stderr.close()
    os.close(1)


def log_to_stdout() -> None:
    logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, force=True)
    logging.getLogger("their.model").warning("logged by the model")


def warn_a_lot() -> None:
    for i in range(1000):
        warnings.warn(f"warning {i} of the model", stacklevel=1)


def ignore_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def train_mode(model: nn.Module, x: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    model.train()
    return logits


def write_into_input(model: nn.Module, x: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    x.mul_(0)
    return logits


def noise(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.normal(size=shape)).float()  # what such models use


KINDS: dict[str, Callable[..., Any]] = {
    "honest": returning(lambda logits: logits),
    # It wants to end.
    "exit-0": doing(lambda: sys.exit(0)),
    "exit-text": doing(lambda: sys.exit("done")),
    "os-exit-0": doing(lambda: os._exit(0)),
    "os-exit-3": doing(lambda: os._exit(3)),
    "abort": doing(os.abort),
    "segfault": doing(lambda: ctypes.string_at(0)),
    "kill-itself": doing(lambda: os.kill(os.getpid(), signal.SIGKILL)),
    # It does not end.
    "hang": doing(lambda: time.sleep(600)),
    "hang-in-c": doing(sleep_with_the_interpreter_held),
    "hanging-thread": doing(lambda: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()),
    # Processes.
    "fork-lives": doing(fork_that_lives, once=True),
    "fork-dies": doing(fork_that_dies),
    "fork-both": doing(os.fork, once=True),
    "fork-then-exit": doing(fork_then_exit),
    # Errors.
    "raise": raising(ValueError("not today")),
    "raise-without-text": raising(TextlessError()),
    "raise-50-mb": raising(ValueError("x" * 50_000_000)),
    "raise-group": raising(BaseExceptionGroup("several", [SystemExit(0), ValueError("one of them")])),
    "raise-generator-exit": raising(GeneratorExit("why not")),
    "raise-keyboard-interrupt": raising(KeyboardInterrupt("not the user's")),
    "raise-stop-iteration": raising(StopIteration("no more")),
    "recursion": doing(recurse),
    "huge-memory": doing(lambda: torch.empty(10**15)),
    # Standard streams.
    "print": doing(print_a_lot),
    "write-to-descriptor-1": doing(lambda: os.write(1, b"printed by the model")),
    "replace-stdout": doing(replace_stdout),
    "close-streams": doing(close_streams, once=True),
    "close-descriptor-2": doing(lambda: os.close(2), once=True),
    "log-to-stdout": doing(log_to_stdout),
    "warn-1000-times": doing(warn_a_lot),
    "print-at-exit": doing(lambda: atexit.register(print, "printed by the model at the end"), once=True),
    # Settings of the process.
    "chdir": doing(lambda: os.chdir("/")),
    "clear-environment": doing(os.environ.clear),
    "ignore-signals": doing(ignore_signals),
    "settrace": doing(lambda: sys.settrace(lambda *_: None)),
    "recursion-limit": doing(lambda: sys.setrecursionlimit(10**6)),
    "threads": doing(lambda: torch.set_num_threads(4)),
    "default-dtype": doing(lambda: torch.set_default_dtype(torch.float64)),
    "no-gradients": doing(lambda: torch.set_grad_enabled(False)),
    "deterministic": doing(lambda: torch.use_deterministic_algorithms(True)),
    "seed": doing(lambda: torch.manual_seed(1), lambda: random.seed(1), lambda: np.random.seed(1)),
    # Answers.
    "train-mode": train_mode,
    "write-into-input": write_into_input,
    "nan": returning(lambda logits: logits * torch.nan),
    "inf": returning(lambda logits: logits + torch.inf),
    "another-shape": returning(lambda logits: logits[:, None]),
    "fewer-rows": returning(lambda logits: logits[1:]),
    "float64": returning(lambda logits: logits.double()),
    "integers": returning(lambda logits: logits.long()),
    "booleans": returning(lambda logits: logits > 0),
    "numpy": returning(lambda logits: logits.detach().numpy()),
    "none": returning(lambda logits: None),
    "random-torch": returning(lambda logits: logits + torch.randn(logits.shape)),
    "coupled": returning(lambda logits: logits - logits.mean(0)),
    "random-numpy": returning(lambda logits: logits + noise(*logits.shape)),
}


class Model(nn.Module):
    """A linear classifier that also misbehaves."""

    def __init__(self, kind: str, at_once: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 32 * 32, 10)
        self.kind = kind
        self.at_once = at_once

    def forward(self, x: torch.Tensor) -> Any:
        logits = self.linear(x.flatten(1))
        return KINDS[self.kind](self, x, logits) if self.at_once or len(x) == BATCH_SIZE else logits


def build(kind: str, at_once: bool = False) -> nn.Module:
    return Model(kind, at_once)


def build_badly(kind: str) -> nn.Module:
    model = Model(kind, True)
    model(torch.zeros(1, 3, 32, 32))
    return model
