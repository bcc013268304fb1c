"""Analyses of a model over the epochs of its training, from files of weights that the training kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from robench.core.checkpoint import Weights
from robench.core.errors import UsageError
from robench.runs.analyses import analyse
from robench.training.epoch_files import EpochFiles

if TYPE_CHECKING:
    from pathlib import Path

    from robench.analyses.results import Analysed
    from robench.core.checkpoint import Checkpoint
    from robench.runs.analyses import AnalysisRequest, Progress


def analyse_epochs(
    request: AnalysisRequest, checkpoint: Checkpoint, folder: Path, on_progress: Progress = lambda done, total: None
) -> list[tuple[Analysed, Path | None]]:
    """Return the results of an analysis of a model after each epoch whose weights are in a folder, in their order.

    Each epoch has results as ``analyse`` returns them, with the fact ``epoch``. ``on_progress`` is called with the
    number of examples seen, and of all.

    Raises:
        UsageError: the folder has no weights of epochs of this model, or as ``analyse``.
        WeightsError: a file cannot be read, or does not fit the model.
        RobenchError: as ``analyse``.
    """
    files = EpochFiles(folder=folder, name=checkpoint.name)
    kept = files.found()
    if not kept:
        raise UsageError(
            f"there are no weights of epochs of {checkpoint.name} in {folder}, wanted files such as"
            f" {files.path(0).name}: keep them with 'robench train {checkpoint.name} --keep-epochs DIR'"
        )
    found: list[tuple[Analysed, Path | None]] = []
    for place, (epoch, path) in enumerate(kept.items()):

        def advance(done: int, total: int, place: int = place) -> None:
            on_progress(place * total + done, len(kept) * total)

        of_epoch = replace(checkpoint, weights=Weights(uri=str(path), sha256=None))
        found += analyse(replace(request, epoch=epoch), of_epoch, advance)
    return found
