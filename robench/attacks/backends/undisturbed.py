"""Isolation of global state that libraries use and change."""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def undisturbed(device: torch.device, seed: int) -> Iterator[None]:
    """Seed the generators of torch, numpy and Python for the block; restore them and torch's settings afterwards.

    AutoAttack also removes any trace function, which would stop a debugger or a coverage measurement.
    """
    of_numpy, of_python, trace = np.random.get_state(), random.getstate(), sys.gettrace()
    has_gradients, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            # Some rely on their caller.
            torch.set_grad_enabled(True)
            yield
        finally:
            np.random.set_state(of_numpy)
            random.setstate(of_python)
            sys.settrace(trace)
            torch.set_grad_enabled(has_gradients)
            torch.set_default_dtype(dtype)
