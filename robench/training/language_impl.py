"""Training of language models on texts, by the ``training`` fields of a registry entry.

AdamW on the mean negative log-likelihood of windows, linear warm-up,
cosine decay to zero. The training texts follow each other, in their order. The same entry gives the same bytes on one
kind of CPU and one release of torch.
"""

import time
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError
from robench.datasets.texts import Texts
from robench.datasets.words import vocabulary_of
from robench.models.build import build
from robench.models.language_impl import LanguageModel, windows_at_once
from robench.models.word_transformer_impl import END_ID
from robench.training.base import EpochReport, Host, ValidationScores
from robench.training.language import LanguageTraining
from robench.training.optimization import (
    adamw,
    check_auxiliary,
    fraction_of_peak,
    matrices_but_embeddings,
    reproducible,
    saved,
    set_learning_rate,
    with_auxiliary,
)
from robench.training.text_splits import training_texts, validation_texts

MOST_GRADIENT = 1.0
MOST_VALIDATION_WORDS = 8192


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch, and return the state dict.

    Computed on the CPU; of ``host``, the data root alone is used. The caller's random generators and number of threads
    are restored.

    Raises:
        DeclarationError: the entry has no such training fields, is not a language model, or weights auxiliary
            losses that the model does not have.
        MissingDataError: the training texts were not found.
    """
    training = checkpoint.training
    if not isinstance(training, LanguageTraining):
        raise DeclarationError(f"checkpoint {checkpoint.name!r} has no fields of language-training; add them")
    with reproducible(training.seed):
        model = build(checkpoint.architecture).train()
        if not isinstance(model, LanguageModel):
            raise DeclarationError(f"checkpoint {checkpoint.name!r} is not a language model; take backbone language")
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
    optimizer = adamw(
        model.parameters(),
        matrices_but_embeddings(model),
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
    )
    generator = torch.Generator().manual_seed(training.seed)
    for epoch in range(training.num_epochs):
        started, total, count = time.perf_counter(), 0.0, 0
        batches = list(_batches(len(ids), architecture.context, training.batch_size, generator))
        for place, starts_B in enumerate(batches):
            done = (epoch + place / len(batches)) / training.num_epochs
            set_learning_rate(optimizer, training.learning_rate * fraction_of_peak(done, training.warmup_share))
            windows_BL = ids[starts_B[:, None] + torch.arange(architecture.context + 1)]
            loss = _loss(model, windows_BL, training.auxiliary_weight)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MOST_GRADIENT)
            optimizer.step()
            total, count = total + float(loss.detach()) * len(starts_B), count + len(starts_B)
        seconds = time.perf_counter() - started
        on_epoch(
            EpochReport(
                epoch=epoch + 1,
                num_epochs=training.num_epochs,
                loss_nats=total / count,
                examples_per_second=count / seconds,
                validation=None if valid_ids is None else _scores(model, valid_ids),
            )
        )
    return saved(model.state_dict(), training.saved_as)


def _loss(model: LanguageModel, windows_BL: Tensor, auxiliary_weight: float = 0.0) -> Tensor:
    hidden_BLC, auxiliary = with_auxiliary(model.hidden, windows_BL[:, :-1], auxiliary_weight)
    loss = model.losses_of(hidden_BLC.flatten(0, 1), windows_BL[:, 1:].flatten()).mean()
    return loss if auxiliary is None else loss + auxiliary.mean()


def _scores(model: LanguageModel, ids: Tensor) -> ValidationScores | None:
    """Return the scores on the first windows of validation, which follow each other; None if there is not one."""
    context = model.architecture.context
    starts = torch.arange(0, min(len(ids) - 1, MOST_VALIDATION_WORDS) - context + 1, context)
    if not len(starts):
        return None
    windows_WL = ids[starts[:, None] + torch.arange(context + 1)]
    model.eval()
    # Trained weights do not depend on it: random generators are restored.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        parts = windows_WL.split(windows_at_once(model.architecture, windows_WL.device))
        total = sum(float(_loss(model, part)) * len(part) for part in parts)
    model.train()
    return ValidationScores(
        top1_accuracy=None, loss_nats=total / len(windows_WL), num_examples=len(windows_WL) * context
    )


def _batches(num_tokens: int, context: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the starts (B,) of windows that follow each other from a random place on, in random order."""
    first = int(torch.randint(context, (1,), generator=generator))
    starts = torch.arange(first, num_tokens - context - 1, context)
    yield from starts[torch.randperm(len(starts), generator=generator)].split(batch_size)
