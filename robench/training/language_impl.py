"""Training of language models on texts, by the ``training`` fields of a registry entry.

AdamW on the mean negative log-likelihood of windows, linear warm-up,
cosine decay to zero. The training texts follow each other, in their order. The same entry gives the same bytes on one
kind of CPU and one release of torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from robench.core.errors import DeclarationError
from robench.datasets.texts import vocabulary_of
from robench.models.build import build
from robench.models.language_impl import LanguageModel, windows_at_once
from robench.models.word_transformer_impl import END_ID
from robench.training.base import ValidationScores
from robench.training.optimization import check_auxiliary, evaluating, reproducible, saved, with_auxiliary
from robench.training.text_splits import fit_words, training_texts, validation_texts
from robench.training.texts import LanguageTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from robench.core.checkpoint import Checkpoint
    from robench.datasets.texts import Texts
    from robench.training.base import EpochReport, Host

MOST_VALIDATION_WORDS = 8192


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch, and return the state dict.

    Computed on the CPU; of ``host``, the data root alone is used. The caller's random generators and number of threads
    are restored.

    Raises:
        DeclarationError: the entry has no such training fields, is no language model, or weights auxiliary losses that
            the model does not have.
        MissingDataError: the training texts were not found.
    """
    training = checkpoint.training
    if not isinstance(training, LanguageTraining):
        raise DeclarationError(f"checkpoint {checkpoint.name!r} has no fields of language-training; add them")
    with reproducible(training.seed):
        model = build(checkpoint.architecture).train()
        if not isinstance(model, LanguageModel):
            raise DeclarationError(f"checkpoint {checkpoint.name!r} is no language model; take backbone language")
        data_root = None if host is None else host.data_root
        texts = cast("Texts", training_texts(training.dataset, data_root))
        valid = cast("Texts | None", validation_texts(training.dataset, data_root))
        model.set_vocabulary(vocabulary_of(texts.texts, model.architecture.vocabulary_size, training.min_count))
        return _train(model, training, _ids(model, texts), None if valid is None else _ids(model, valid), on_epoch)


def _ids(model: LanguageModel, texts: Texts) -> Tensor:
    """Return an end of line, and the ids of all texts one after the other."""
    return torch.cat([torch.tensor([END_ID]), *(model.tokens(text)[0][1:] for text in texts.texts)])


def _train(
    model: LanguageModel,
    training: LanguageTraining,
    ids: Tensor,
    valid_ids: Tensor | None,
    on_epoch: Callable[[EpochReport], None],
) -> dict[str, Tensor]:
    architecture = model.architecture
    check_auxiliary(model, ids[None, : architecture.context], training.auxiliary_weight, model.hidden)
    generator = torch.Generator().manual_seed(training.seed)

    def loss_of(starts_B: Tensor) -> Tensor:
        return _loss(model, ids[starts_B[:, None] + torch.arange(architecture.context + 1)], training.auxiliary_weight)

    fit_words(
        model,
        training,
        batches=lambda: _batches(len(ids), architecture.context, training.batch_size, generator),
        loss_of=loss_of,
        scores=lambda: None if valid_ids is None else _scores(model, valid_ids),
        on_epoch=on_epoch,
    )
    return saved(model.state_dict(), training.saved_as)


def _loss(model: LanguageModel, windows_BL: Tensor, auxiliary_weight: float = 0.0) -> Tensor:
    hidden_BLC, auxiliary = with_auxiliary(model.hidden, windows_BL[:, :-1], auxiliary_weight)
    return model.losses_of(hidden_BLC.flatten(0, 1), windows_BL[:, 1:].flatten()).mean() + auxiliary


def _scores(model: LanguageModel, ids: Tensor) -> ValidationScores | None:
    """Return the scores on the first windows of validation, which follow each other; None if there is not one."""
    context = model.architecture.context
    starts = torch.arange(0, min(len(ids) - 1, MOST_VALIDATION_WORDS) - context + 1, context)
    if not len(starts):
        return None
    windows_WL = ids[starts[:, None] + torch.arange(context + 1)]
    with evaluating(model):
        parts = windows_WL.split(windows_at_once(model.architecture, windows_WL.device))
        total = sum(float(_loss(model, part)) * len(part) for part in parts)
    return ValidationScores(
        top1_accuracy=None, loss_nats=total / len(windows_WL), num_examples=len(windows_WL) * context
    )


def _batches(num_tokens: int, context: int, batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
    """Return the starts (B,) of windows that follow each other from a random place on, in random order."""
    first = int(torch.randint(context, (1,), generator=generator))
    starts = torch.arange(first, num_tokens - context - 1, context)
    batches: Sequence[Tensor] = starts[torch.randperm(len(starts), generator=generator)].split(batch_size)
    return batches
