"""Freed memory is kept: after the first few, tensors of one size cost no new pages."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from math import inf

import pytest

from robench.cli import main as command_line
from robench.executors import ray_impl, worker

SCRIPT = """
import resource
import torch
{}
def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(9 * 2**20).add_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
for _ in range(12):
    pages()
print(sum(pages() for _ in range(20)))
"""
# Of the first calls some get new pages: aligned memory fits a freed block only if that is somewhat larger, so that
# two to six blocks come first, by what else is on the heap.
KEEPING = "from robench.core.memory import keep_freed_memory; keep_freed_memory()"

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told")


@cache
def pages_of(statement: str, **environment: str) -> int:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    command = [sys.executable, "-c", SCRIPT.format(statement)]
    done = subprocess.run(command, env=others | environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
def test_tensors_of_a_size_that_was_freed_get_no_new_pages() -> None:
    assert pages_of(KEEPING) < 0.05 * pages_of("")


@pytest.mark.slow
def test_the_users_own_settings_stay() -> None:
    assert pages_of(KEEPING, MALLOC_MMAP_THRESHOLD_="131072") > 0.9 * pages_of("") > 0


class CalledError(Exception):
    pass


def called() -> None:
    raise CalledError


@pytest.mark.parametrize(
    ("module", "start"),
    [
        (command_line, command_line.main),
        (worker, lambda: worker.work(None, print, b"", inf)),  # type: ignore[arg-type]
        (ray_impl, lambda: ray_impl.RayWorker([], ".")),
    ],
    ids=["command", "worker", "ray"],
)
def test_processes_of_robench_keep_it(
    monkeypatch: pytest.MonkeyPatch, module: object, start: Callable[[], object]
) -> None:
    monkeypatch.setattr(module, "keep_freed_memory", called)
    monkeypatch.setattr(os, "setsid", lambda: None)
    with pytest.raises(CalledError):
        start()
