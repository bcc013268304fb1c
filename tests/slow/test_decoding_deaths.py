"""Decoding processes that die, over images that were begun or not."""

import os
import signal
from pathlib import Path

import numpy as np
from test_datasets_decoding_pool import SMALL, paths, pool, process_ids

from robench.datasets.decoding import DecodingPool

__all__ = ["paths", "pool"]


def test_processes_that_die_over_images_begun_cost_nothing_but_time(pool: DecodingPool, paths: list[Path]) -> None:
    expected = pool.decode(paths, SMALL)
    begun = pool.begin(paths, SMALL)
    for process_id in process_ids(pool):
        os.kill(process_id, signal.SIGKILL)
    # Whether the death is seen here or there.
    again = pool.begin(paths, SMALL)
    for each in (begun, again):
        decoded = pool.decode(paths, SMALL, each)
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(decoded, expected, strict=True))


def test_dead_processes_cost_nothing_but_time(pool: DecodingPool, paths: list[Path]) -> None:
    expected = pool.decode(paths, SMALL)
    dead = process_ids(pool)
    for process_id in dead:
        os.kill(process_id, signal.SIGKILL)
    decoded = pool.decode(paths, SMALL)
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(decoded, expected, strict=True))
    assert not set(dead) & set(process_ids(pool))
