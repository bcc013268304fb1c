"""Containment of third-party code: its side effects on the process are undone and its errors never end the run.

Models and the modules that declare plug-ins run in the measuring process. Their output goes to stderr; the current
folder, signal handlers, tracing, random generators and torch's settings are afterwards as they were before; an error
that would end the process, such as ``sys.exit``, becomes a ``ContractError``. A crash, an endless loop and ``os._exit``
are for worker processes to survive (``executors/processes.py``); docs/reliability.md lists all of them. Torch and
numpy are not imported here: modules that are not loaded have no settings.
"""

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from robench.core.errors import ContractError, RobenchError, described
from robench.core.standard_output import StdoutDiverted

Handler = Callable[[int, FrameType | None], Any] | int | None

# Exit code of a forked copy of this process that returns from where the model forked.
FORKED = 70

Setting = tuple[Callable[[], Any], Callable[[Any], object]]
Generator = tuple[Callable[[], Any], Callable[[Any], object], Callable[[int], object]]
# Number of ``settings_of`` that affect the next forward pass; these take nanoseconds to read.
NUM_OF_A_PASS = 5


@cache
def settings_of(torch: Any) -> tuple[Setting, ...]:
    """Return a getter and a setter of each setting of torch's for the whole process, those of a forward pass first.

    Any: torch is not imported here.
    """
    cudnn = torch.backends.cudnn
    return (
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.get_num_threads, torch.set_num_threads),
        (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        # If none is set, torch reports the CPU.
        (torch.get_default_device, lambda value: torch.set_default_device(None if value.type == "cpu" else value)),
        (lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value)),
        (lambda: torch.is_autocast_enabled("cuda"), lambda value: torch.set_autocast_enabled("cuda", value)),
        (lambda: cudnn.benchmark, lambda value: setattr(cudnn, "benchmark", value)),
        (lambda: cudnn.deterministic, lambda value: setattr(cudnn, "deterministic", value)),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
        # torch sets this without telling: a number below float32's normal range is multiplied.
        (lambda: float(torch.full((), 1e-40) * 1.0) == 0.0, torch.set_flush_denormal),
    )


class KeptSettings:
    """Context manager that restores torch's process-wide settings on exit, or the given ``settings``.

    Of torch, only settings are restored that affect the arithmetic of the next forward pass.
    """

    __slots__ = ("_before", "_settings")

    def __init__(self, settings: Sequence[Setting] | None = None) -> None:
        torch = sys.modules.get("torch")
        of_a_pass = () if torch is None else settings_of(torch)[:NUM_OF_A_PASS]
        self._settings = of_a_pass if settings is None else settings

    def __enter__(self) -> None:
        self._before = [get() for get, _ in self._settings]

    def __exit__(self, *_: object) -> None:
        for (get, set_), value in zip(self._settings, self._before, strict=True):
            if get() != value:
                set_(value)


class Contained:
    """Context manager for code written by a model's author; may be nested.

    KeyboardInterrupt propagates if a signal raised it, such as Ctrl-C, and is treated as any other error if the model
    raised it. With ``keeps_environment``, environment variables that the code sets persist: a module may set them when
    it is imported, and read them when it runs.

    Raises:
        ContractError: in place of an error that is not an ``Exception`` and would have ended the process.
    """

    def __init__(self, *, keeps_environment: bool = False) -> None:
        self._settings = _OF_PYTHON if keeps_environment else (*_OF_PYTHON, ENVIRONMENT)

    def __enter__(self) -> None:
        self._process = os.getpid()
        torch = sys.modules.get("torch")
        # Undone in reverse order.
        self._kept = ExitStack()
        self._kept.enter_context(StdoutDiverted())
        self._kept.enter_context(KeptSettings((*self._settings, *(() if torch is None else settings_of(torch)))))
        if torch is None:
            self._kept.callback(_set_defaults)
        for get, set_, seed in _generators():
            self._kept.callback(set_, get())
            # What a model draws from generators of the whole process is the same in every process.
            seed(0)
        self._interrupts = _Interrupts()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
            # The model forked and both went on. The copy must not measure, write or print in the run's name.
            os._exit(FORKED)
        with self._kept:
            is_interrupt = self._interrupts.end() and isinstance(error, KeyboardInterrupt)
            if error is not None and not isinstance(error, Exception) and not is_interrupt:
                raise ContractError(
                    f"{described(error)}, which ends a process, was raised by the model's code. Let it raise an "
                    "ordinary exception"
                ) from error


@contextmanager
def attributed_to(title: str, refusal: type[RobenchError] | None = None) -> Iterator[None]:
    """Contain code of a model's author, and prefix the message of any error it raises with ``title``.

    Raises:
        ContractError: in place of any error that robench did not raise on purpose.
        RobenchError: a ``refusal`` of this type in place of any error, robench's own included.
    """
    try:
        with Contained():
            yield
    except Exception as error:  # any error of a model is for its author to read
        if refusal is None and isinstance(error, RobenchError):
            raise
        with Contained():  # even the text of an error may be code
            reason = described(error)
        raise (refusal or ContractError)(f"{title}: {reason}") from error


class _Interrupts:
    """Signal handlers that record whether a signal arrived before calling the original ones; main thread only."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def __init__(self) -> None:
        self._came = False
        self._before: dict[int, Handler] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self.NUMBERS:
            self._before[number] = signal.getsignal(number)
            if callable(self._before[number]):
                signal.signal(number, self._note)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        handler = self._before[number]
        assert callable(handler)
        handler(number, frame)

    def end(self) -> bool:
        """Restore the handlers, and return whether a signal arrived."""
        for number, handler in self._before.items():
            # None is a handler that Python did not set, and cannot set again.
            if handler is not None:
                signal.signal(number, handler)
        if self._before:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return self._came


def _generators() -> list[Generator]:
    """Return functions to read, set and seed each loaded process-wide random generator."""
    found: list[Generator] = [(random.getstate, random.setstate, random.seed)]
    if numpy := sys.modules.get("numpy.random"):
        found.append((numpy.get_state, numpy.set_state, numpy.seed))
    if torch := sys.modules.get("torch"):
        found.append((torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed))
    return found


def generator_states() -> dict[str, object]:
    """Return the state of each process-wide random generator by library name; two states can be compared."""
    states: dict[str, object] = {"random": random.getstate()}
    if numpy := sys.modules.get("numpy.random"):
        name, words, *rest = numpy.get_state()
        states["numpy"] = (name, words.tobytes(), *rest)
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_initialized():
            states["torch.cuda"] = tuple(state.numpy().tobytes() for state in torch.cuda.get_rng_state_all())
    return states


def _set_defaults() -> None:
    """Reset settings changed by the code that first imported torch."""
    if torch := sys.modules.get("torch"):
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_deterministic_debug_mode(0)
        torch.autograd.set_detect_anomaly(False)


def _set_environment(before: Mapping[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None


def _set_folder(folder: Path | None) -> None:
    with suppress(OSError):
        os.chdir(folder or ".")


ENVIRONMENT: Setting = (os.environ.copy, _set_environment)
# Further settings of Python that a model may change.
_OF_PYTHON: tuple[Setting, ...] = (
    (_folder, _set_folder),
    (sys.gettrace, sys.settrace),
    (sys.getprofile, sys.setprofile),
    (sys.getrecursionlimit, sys.setrecursionlimit),
)
