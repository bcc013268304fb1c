"""Worker in a Ray actor: an evaluator that is handed one shard at a time.

Everything arrives and leaves as bytes, so that modules of other distributions are imported inside a containment, and an
exception becomes a sentence on the machine that knows its class.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from robench.core.containment import Contained
from robench.core.errors import described

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.executors.base import Evaluate


class RayWorker:
    """Worker in an actor, whose imports and current folder are those of the run.

    Args:
        search_path: where the run finds modules.
        folder: current folder of the run.
    """

    def __init__(self, search_path: Sequence[str], folder: str) -> None:
        sys.path.extend(each for each in search_path if each not in sys.path)
        with suppress(OSError):
            os.chdir(folder)
        # Warnings about data were issued when the run was prepared.
        logging.getLogger("robench").setLevel(logging.ERROR)
        self._evaluator: Evaluate | None = None

    def prepare(self, content: bytes) -> str:
        """Make the evaluator, from a pickled function and the name of a device; return the problem, empty if none."""
        try:
            with Contained(keeps_environment=True):
                make, device = pickle.loads(content)
            self._evaluator = make(device)
        # Broad because it may lack any module, on a machine of which nothing is known.
        except Exception as error:
            return described(error)
        return ""

    def measure(self, content: bytes) -> tuple[object, str]:
        """Return the result of a pickled shard and an empty text, or None and the problem.

        With it comes the shard that will probably follow, or None.
        """
        assert self._evaluator is not None  # it was prepared
        try:
            with Contained(keeps_environment=True):
                shard, following = pickle.loads(content)
            return self._evaluator(shard, following), ""
        # Broad for the same reason; errors of models are failures already.
        except Exception as error:
            return None, described(error)
