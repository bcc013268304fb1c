"""Pool of processes that decode image files.

Processes are started with ``spawn``, because a fork of a process that has used CUDA or threads may hang, and are reused
for the next batch. The assignment of images to processes changes no pixel.
"""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

from robench.core.errors import ExampleError
from robench.core.script import without_script
from robench.datasets import decoding_process
from robench.datasets.decoding import decode, try_decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from robench.declarations.preprocessing import ImagePreprocessing

    Pixels = NDArray[np.uint8]
    # Images being decoded, in order.
    Begun = Iterator[Pixels | ExampleError]


class DecodingPool:
    """Pool of ``num_processes`` decoding processes, started on first use; 0 decodes in the current process."""

    def __init__(self, num_processes: int) -> None:
        self._num_processes = num_processes
        self._executor: ProcessPoolExecutor | None = None

    def begin(self, paths: Sequence[Path], preprocessing: ImagePreprocessing) -> Begun | None:
        """Begin to decode images, and return at once; None without processes or images."""
        if self._num_processes == 0 or not paths:
            return None
        try:
            return self._submitted(paths, preprocessing)
        except BrokenProcessPool:
            # Reported by ``decode``, if new processes die as well.
            return None

    def decode(
        self, paths: Sequence[Path], preprocessing: ImagePreprocessing, begun: Begun | None = None
    ) -> list[Pixels]:
        """Return the images in the order of ``paths``, (H, W, 3) each; ``begun`` is what ``begin`` returned for them.

        Raises:
            ExampleError: one cannot be read (the first of several); or processes died twice.
        """
        if self._num_processes == 0:
            return [decode(path, preprocessing) for path in paths]
        for tried in (begun, None):
            try:
                return _images_of(self._submitted(paths, preprocessing) if tried is None else tried)
            except BrokenProcessPool:
                self.close()
            except KeyboardInterrupt:
                # Else the interpreter, before it ends, would wait for all that was handed out.
                self.close()
                raise
        raise ExampleError(
            f"decoding processes died twice over the images {paths[0]} to {paths[-1]} ({len(paths)}). Memory may have"
            " run out, or an image may crash its decoder; run without decoding processes to see"
        )

    def close(self) -> None:
        """End the processes; decoding again starts new ones."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        self._executor = None

    def _submitted(self, paths: Sequence[Path], preprocessing: ImagePreprocessing) -> Begun:
        # Few enough portions to send, enough to even out large and small images and to end soon when interrupted.
        portion = min(16, -(-len(paths) // (4 * self._num_processes)))
        work = partial(try_decode, preprocessing=preprocessing)
        executor = self._started()
        with _sigint_held_back(), without_script():
            return executor.map(work, paths, chunksize=portion)

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self._num_processes, multiprocessing.get_context("spawn"), initializer=decoding_process.begin
            )
        return self._executor


def _images_of(begun: Begun) -> list[Pixels]:
    images = []
    for image in begun:
        if isinstance(image, ExampleError):
            raise image
        images.append(image)
    return images


@cache
def shared_pool(num_processes: int) -> DecodingPool:
    """Return this process's only pool of that size: 95 datasets of ImageNet-C are open at once."""
    return DecodingPool(num_processes)


@contextmanager
def _sigint_held_back() -> Iterator[None]:
    """Block Ctrl-C while work is submitted, so that processes started meanwhile ignore it from the start."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
