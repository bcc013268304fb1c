"""Any number of decoding processes gives the same pixels and errors, survives a dead process and outlives nobody."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from robench.core.errors import ExampleError
from robench.datasets import decoding
from robench.datasets.decoding import DecodingPool
from robench.declarations.preprocessing import ImagePreprocessing

SMALL = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), resize=40, crop=32)

# Without decoding anything: what counts is the process, and torchvision takes seconds to import.
SCRIPT = """
import multiprocessing, os, signal, sys
from concurrent.futures import ProcessPoolExecutor
from robench.core.child_processes import prepare_helper

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, context, initializer=prepare_helper)
    print(executor.submit(os.getppid).result() == os.getpid(), flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    paths = [folder / f"{number}.JPEG" for number in range(11)]
    for path in paths:
        height, width = generator.integers(40, 90, 2)
        Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
    return paths


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodingPool]:
    pool = DecodingPool(2)
    yield pool
    pool.close()


def process_ids(pool: DecodingPool) -> list[int]:
    assert pool._executor is not None
    return list(pool._executor._processes)


def message_of(pool: DecodingPool, paths: list[Path]) -> str:
    with pytest.raises(ExampleError) as caught:
        pool.decode(paths, SMALL)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_processes_change_no_pixel_and_no_order(pool: DecodingPool, paths: list[Path]) -> None:
    for chosen in (paths, paths[:1], paths[::-1]):
        expected = DecodingPool(0).decode(chosen, SMALL)
        decoded = pool.decode(chosen, SMALL)
        assert len(decoded) == len(chosen)
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(decoded, expected, strict=True))


def test_processes_stay_for_the_next_batch(pool: DecodingPool, paths: list[Path]) -> None:
    pool.decode(paths, SMALL)
    before = process_ids(pool)
    pool.decode(paths, SMALL)
    assert process_ids(pool) == before
    assert len(before) <= 2
    assert os.getpid() not in before


def test_an_unreadable_image_is_one_error_from_any_process(
    pool: DecodingPool, paths: list[Path], tmp_path: Path
) -> None:
    first, second = tmp_path / "first.JPEG", tmp_path / "second.JPEG"
    first.write_bytes(b"")
    second.write_bytes(paths[0].read_bytes()[:200])
    mixed = [*paths[:4], first, *paths[4:8], second]
    message = message_of(pool, mixed)
    assert message == message_of(DecodingPool(0), mixed)
    assert "first.JPEG" in message
    assert pool.decode(paths[:2], SMALL)[1].shape == (32, 32, 3)


def test_a_decoding_process_ignores_ctrl_c_and_holds_to_one_thread(pool: DecodingPool, paths: list[Path]) -> None:
    pool.decode(paths, SMALL)
    assert pool._executor is not None
    assert pool._executor.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    assert pool._executor.submit(torch.get_num_threads).result() == 1


def test_ctrl_c_cannot_reach_a_decoding_process_while_it_starts(pool: DecodingPool, paths: list[Path]) -> None:
    pool.decode(paths, SMALL)
    assert pool._executor is not None
    # A process is born with what its parent holds back, before any of its own code runs.
    assert signal.SIGINT in pool._executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_an_interrupted_batch_is_given_up(paths: list[Path]) -> None:
    class Interrupted:
        cancelled = False

        def map(self, *_: object, chunksize: int) -> Iterator[object]:
            assert chunksize == 3
            raise KeyboardInterrupt

        def shutdown(self, *, cancel_futures: bool) -> None:
            self.cancelled = cancel_futures

    pool, executor = DecodingPool(1), Interrupted()
    pool._executor = executor  # type: ignore[assignment]  # stands in for it
    with pytest.raises(KeyboardInterrupt):
        pool.decode(paths, SMALL)
    assert executor.cancelled
    assert pool._executor is None


def test_processes_that_die_twice_are_an_error_that_says_what_may_be_the_matter(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "prepare_helper", partial(os._exit, 1))
    message = message_of(DecodingPool(1), paths)
    assert f"died twice over the images {paths[0]} to {paths[-1]} (11)" in message
    assert "Memory" in message


def test_images_begun_are_decoded_once(pool: DecodingPool, paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    begun = pool.begin(paths, SMALL)
    monkeypatch.setattr(pool, "_submitted", None)
    decoded = pool.decode(paths, SMALL, begun)
    for found, expected in zip(decoded, DecodingPool(0).decode(paths, SMALL), strict=True):
        assert np.array_equal(found, expected)


def test_an_unreadable_image_once_begun_is_the_same_error(
    pool: DecodingPool, paths: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "empty.JPEG").write_bytes(b"")
    mixed = [*paths[:2], tmp_path / "empty.JPEG"]
    begun = pool.begin(mixed, SMALL)
    assert len(pool.decode(paths[:2], SMALL)) == 2
    with pytest.raises(ExampleError) as caught:
        pool.decode(mixed, SMALL, begun)
    assert str(caught.value) == message_of(DecodingPool(0), mixed)


def test_no_process_is_started_before_it_is_needed_or_where_none_is_wanted(paths: list[Path]) -> None:
    idle = DecodingPool(2)
    assert idle.begin([], SMALL) is None
    assert idle._executor is None
    idle.close()
    none = DecodingPool(0)
    assert none.begin(paths, SMALL) is None
    none.decode(paths, SMALL)
    assert none._executor is None


@pytest.mark.parametrize(
    ("end", "code"), [pytest.param("ended", 0, marks=pytest.mark.slow), ("killed", -signal.SIGKILL)]
)
def test_decoding_processes_end_with_their_parent_even_unclosed(tmp_path: Path, end: str, code: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # The output is at its end only when all that hold it have ended, the decoding process among them.
    parent = subprocess.run(
        [sys.executable, script, end],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert parent.stdout == "True\n"
    assert parent.returncode == code
