"""Pictures of examples for commands: the request, with a bar of progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.cli.names import model_of_registry
from robench.cli.progress import steps_shown
from robench.declare import find_checkpoints
from robench.runs import RunRequest
from robench.runs.pictured import pictured, views_named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from robench.core.suite import Suite
    from robench.exports.pictures import Pictured


def pictures_of(
    suite: Suite,
    model: str,
    conditions: Sequence[str],
    *,
    registries: Sequence[Path],
    device: str,
    seed: int | None,
    data_root: Path | None,
    count: int = 1,
    examples: Sequence[str] = (),
) -> list[Pictured]:
    """Return examples under conditions of a suite; see ``runs.pictured``."""
    request = RunRequest(
        suites=(suite,),
        checkpoints=tuple(find_checkpoints([model_of_registry(model, registries)], registries)),
        seed=seed,
        device=device,
        data_root=data_root,
    )
    with steps_shown("attacking", "batches") as on_progress:
        views = views_named(suite, conditions)
        return pictured(request, views, count=count, examples=examples, on_progress=on_progress)
