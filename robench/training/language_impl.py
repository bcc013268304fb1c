"""Training of language models on embedded texts, by the ``training`` fields of a registry entry.

AdamW on the mean negative log-likelihood of windows, linear warm-up,
cosine decay to zero. The training texts follow each other, in their order. The same entry gives the same bytes on one
kind of CPU and one release of torch.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

import torch

from robench.core.errors import DeclarationError
from robench.datasets import open_dataset
from robench.datasets.vocabulary import vocabulary_of
from robench.models.build import build
from robench.models.language_impl import LanguageModel
from robench.models.word_transformer_impl import END_ID
from robench.training.base import EpochReport
from robench.training.language import LanguageTraining
from robench.training.optimization import (
    adamw,
    matrices_but_embeddings,
    reproducible,
    saved,
    set_learning_rate,
    share_of_peak,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from robench.core.checkpoint import Checkpoint
    from robench.datasets.texts import Texts
    from robench.training.base import Host

MOST_GRADIENT = 1.0


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch, and return the state dict.

    Computed on the CPU regardless of ``host``. The caller's random generators and number of threads are restored.

    Raises:
        DeclarationError: the entry has no such training fields, or is no language model.
    """
    del host
    training = checkpoint.training
    if not isinstance(training, LanguageTraining):
        raise DeclarationError(f"checkpoint {checkpoint.name!r} has no fields of language-training; add them")
    with reproducible(training.seed):
        model = build(checkpoint.architecture).train()
        if not isinstance(model, LanguageModel):
            raise DeclarationError(f"checkpoint {checkpoint.name!r} is no language model; take backbone language")
        return _train(model, training, on_epoch)


def _train(
    model: LanguageModel, training: LanguageTraining, on_epoch: Callable[[EpochReport], None]
) -> dict[str, Tensor]:
    dataset = cast("Texts", open_dataset(training.dataset, data_root=None, preprocessing=None, split="train"))
    architecture = model.architecture
    model.set_vocabulary(vocabulary_of(dataset.texts, architecture.vocabulary_size, training.min_count))
    ids = torch.cat([model.tokens(text)[0][1:] for text in dataset.texts])
    ids = torch.cat([torch.tensor([END_ID]), ids])
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
            set_learning_rate(optimizer, training.learning_rate * share_of_peak(done, training.warmup_share))
            windows_BL = ids[starts_B[:, None] + torch.arange(architecture.context + 1)]
            loss = _loss(model, windows_BL)
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
            )
        )
    return saved(model.state_dict(), training.saved_as)


def _loss(model: LanguageModel, windows_BL: Tensor) -> Tensor:
    hidden_BLC = model.hidden(windows_BL[:, :-1])
    return model.losses_of(hidden_BLC.flatten(0, 1), windows_BL[:, 1:].flatten()).mean()


def _batches(num_tokens: int, context: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the starts (B,) of windows that follow each other from a random place on, in random order."""
    first = int(torch.randint(context, (1,), generator=generator))
    starts = torch.arange(first, num_tokens - context - 1, context)
    yield from starts[torch.randperm(len(starts), generator=generator)].split(batch_size)
