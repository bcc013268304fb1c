"""Training on texts: the splits that it opens, its own and that of validation, and the steps of AdamW."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.core.errors import MissingDataError
from robench.datasets import DATASETS, open_dataset
from robench.training.epochs import fit
from robench.training.optimization import adamw, matrices_but_embeddings, share_of_peak

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from robench.core.protocols import Dataset
    from robench.training.texts import WordTraining

MOST_GRADIENT = 1.0
TRAINING_SPLIT = "train"
# Publishers name it differently; the first that a dataset has is taken.
VALIDATION_SPLITS = ("valid", "dev")


def training_texts(dataset: str, data_root: Path | None) -> Dataset:
    """Return the training split of a dataset."""
    return open_dataset(dataset, data_root=data_root, preprocessing=None, split=TRAINING_SPLIT)


def validation_texts(dataset: str, data_root: Path | None) -> Dataset | None:
    """Return the validation split of a dataset; None where it has none, or none on disk."""
    split = next((each for each in VALIDATION_SPLITS if each in DATASETS[dataset].splits), None)
    if split is None:
        return None
    try:
        return open_dataset(dataset, data_root=data_root, preprocessing=None, split=split)
    except MissingDataError:
        return None


def fit_words(model: nn.Module, training: WordTraining, **steps: Any) -> None:
    """Train a model by ``fit`` with AdamW, whose weight decay spares embeddings, and clipped gradients."""
    optimizer = adamw(
        model.parameters(),
        matrices_but_embeddings(model),
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
    )

    def rate_at(epoch: float) -> float:
        return training.learning_rate * share_of_peak(epoch / training.num_epochs, training.warmup_share)

    fit(model, optimizer, training.num_epochs, rate_at=rate_at, most_gradient=MOST_GRADIENT, **steps)
