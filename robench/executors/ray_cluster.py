"""Connection to a Ray cluster, and the workers that it has room for."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from math import ceil, floor
from typing import Any

from robench.core.containment import ENVIRONMENT, KeptSettings
from robench.core.errors import UsageError, described
from robench.core.providers import install_command
from robench.core.standard_output import StdoutDiverted
from robench.executors.ray import Ray

# Results of shards are small; a fraction of all memory, Ray's default, is for data that robench does not send.
OBJECT_STORE_BYTES = 200_000_000
# Ray itself waits minutes for an address at which nothing is.
SECONDS_TO_ANSWER = 10.0
# Function by which Ray prints what other processes report.
PRINTER = "print_to_stdstream"
# Quotients of shares such as 1 / 0.2 are not exact.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Wanted:
    """Resources of one worker.

    >>> Wanted(num_cpus=1, num_gpus=0.4).places({"CPU": 16, "GPU": 2})
    4
    """

    num_cpus: float
    num_gpus: float

    def places(self, resources: Mapping[str, float]) -> int:
        """Return the number of workers that a machine has room for; a fraction of a GPU is of a single one."""
        cpus, gpus = resources.get("CPU", 0), resources.get("GPU", 0)
        of_cpus = floor(cpus / self.num_cpus + _ROUNDING)
        if not self.num_gpus:
            return of_cpus
        if self.num_gpus < 1:
            return min(of_cpus, floor(gpus) * floor(1 / self.num_gpus + _ROUNDING))
        return min(of_cpus, floor(gpus / self.num_gpus + _ROUNDING))

    def __str__(self) -> str:
        return f"{self.num_cpus:g} CPUs" + (f" and {self.num_gpus:g} GPUs" if self.num_gpus else "")


class Cluster:
    """Ray cluster, to which at most one connection is made.

    ``device`` is ``auto``, ``cpu`` or ``cuda``; ``num_workers`` None asks for as many workers as there is room for.

    Raises:
        UsageError: the device is a single GPU, which Ray assigns itself.
    """

    def __init__(self, declaration: Ray, device: str, num_workers: int | None) -> None:
        if device not in ("auto", "cpu", "cuda"):
            raise UsageError(
                f"device {device!r} cannot be chosen on a Ray cluster, which assigns GPUs itself; use auto, cpu or cuda"
            )
        self._declaration = declaration
        self._device = device
        self._num_workers = num_workers
        self._ray: Any = None
        self._is_ours = False
        self._log_level = logging.NOTSET
        self._printer: Any = None

    @property
    def ray(self) -> Any:
        """Return the module ``ray``, connected to the cluster.

        Raises:
            UsageError: Ray is not installed, or no cluster answers.
        """
        if self._ray is None:
            ray = _installed()
            self._is_ours = not ray.is_initialized()
            if self._is_ours:
                self._connect(ray)
            self._ray = ray
        return self._ray

    def close(self) -> None:
        """End the connection if it was made here, and with it a Ray that was started here."""
        ray, self._ray = self._ray, None
        if ray is not None and self._is_ours:
            with StdoutDiverted():
                ray.shutdown()
            self._restore(ray)

    def machines(self) -> list[Mapping[str, float]]:
        """Return the resources of each machine of the cluster."""
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def wanted(self) -> Wanted:
        """Return the resources of a worker: with GPUs, unless the cluster has none or the CPU is asked for."""
        has_gpus = any(machine.get("GPU", 0) for machine in self.machines())
        uses_gpus = self._device == "cuda" or (self._device == "auto" and has_gpus)
        return Wanted(self._declaration.cpus_per_worker, self._declaration.gpus_per_worker if uses_gpus else 0.0)

    def num_workers(self) -> int:
        """Return the number of workers that are asked for, or that there is room for.

        Raises:
            UsageError: there is no room for them.
        """
        wanted, machines = self.wanted(), self.machines()
        room = sum(map(wanted.places, machines))
        if room < (self._num_workers or 1):
            asked = f"{self._num_workers} workers" if self._num_workers else "a worker"
            raise UsageError(
                f"the Ray cluster has room for {room} workers of {wanted} ({shown(machines)}), but the run needs "
                f"{asked}; start more machines, or lower --workers, cpus_per_worker or gpus_per_worker"
            )
        return self._num_workers or room

    def _connect(self, ray: Any) -> None:
        address = self._declaration.address
        settings: dict[str, object] = {"address": address}
        if address is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            needed = ceil((self._num_workers or 1) * self._declaration.cpus_per_worker)
            settings = {
                "address": "local",
                "num_cpus": max(cores, needed),
                "object_store_memory": OBJECT_STORE_BYTES,
                "include_dashboard": False,
            }
        self._silence(ray)
        with StdoutDiverted(), _kept_handlers(), KeptSettings([ENVIRONMENT]):
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                _check_answer(address or "")
                ray.init(**settings, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=False)
            # Broad because each way of not answering has a class of its own.
            except Exception as error:
                self._restore(ray)
                reason = described(error).splitlines()[0].rstrip(".")
                where = "on this machine cannot be started" if address is None else f"at {address!r} cannot be used"
                raise UsageError(
                    f"Ray {where} ({reason}). Check with 'ray status' that the cluster is up, and that it "
                    "has this release of Ray and Python"
                ) from error

    def _silence(self, ray: Any) -> None:
        """Keep Ray from telling of its settings on stderr, and of lost machines on stdout."""
        logger = logging.getLogger(ray.__name__)
        self._log_level = logger.level
        logger.setLevel(logging.CRITICAL)
        worker = ray._private.worker
        self._printer = getattr(worker, PRINTER, None)
        setattr(worker, PRINTER, lambda *_, **__: None)

    def _restore(self, ray: Any) -> None:
        logging.getLogger(ray.__name__).setLevel(self._log_level)
        setattr(ray._private.worker, PRINTER, self._printer)


def shown(machines: list[Mapping[str, float]]) -> str:
    """Return the resources of machines in words.

    >>> shown([{"CPU": 16.0, "GPU": 2.0, "memory": 1e9}, {"CPU": 8.0}])
    '2 machines with 24 CPUs and 2 GPUs'
    """
    cpus, gpus = (sum(machine.get(name, 0) for machine in machines) for name in ("CPU", "GPU"))
    return f"{len(machines)} machine{'s' * (len(machines) != 1)} with {cpus:g} CPUs and {gpus:g} GPUs"


def _installed() -> Any:
    """Return the module ``ray``. Any: robench is checked without it."""
    try:
        with StdoutDiverted():
            return import_module("ray")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this executor needs Ray ({error}), which is not installed: {install_command('ray')}"
        ) from error


def _check_answer(address: str) -> None:
    """Raise an OSError if nothing answers at ``host:port``; other forms of an address are left to Ray."""
    host, _, port = address.removeprefix("ray://").strip("/").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_ANSWER).close()


@contextmanager
def _kept_handlers() -> Iterator[None]:
    """Undo Ray's own handling of signals, by which it would end the process."""
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
