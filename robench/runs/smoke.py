"""Smoke runs, which check on a few examples, within seconds, that a model runs under a suite."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from robench.core.errors import UsageError
from robench.runs.devices import AUTO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.runs.request import RunRequest

NUM_EXAMPLES = 4
NOTE = f"smoke run of {NUM_EXAMPLES} examples, none kept: it shows that the models go through the suite, not how well"


def smoke_request(request: RunRequest, given: Sequence[str] = ()) -> RunRequest:
    """Return the request with four examples of each condition in one batch, no audits, and nothing stored.

    One process measures unless workers were requested: starting more takes longer than a few examples.

    Args:
        request: original request.
        given: options, as written by the user, that contradict a smoke run.

    Raises:
        UsageError: there are such options.
    """
    if given:
        raise UsageError(
            f"a smoke run measures {NUM_EXAMPLES} examples and keeps none, which contradicts {' and '.join(given)}; "
            "leave out one of them"
        )
    suites = tuple(
        replace(suite, batch_size=NUM_EXAMPLES, batches_per_shard=1, audit=False) for suite in request.suites
    )
    is_open = request.workers is None and request.executor == AUTO and request.shard_timeout is None
    return replace(
        request,
        suites=suites,
        limit=NUM_EXAMPLES,
        audit=False,
        keep_adversarial=None,
        workers=1 if is_open else request.workers,
        smoke=True,
    )
