"""Training of classifiers on labelled texts, by the ``training`` fields of a registry entry.

AdamW on the cross-entropy, linear warm-up, cosine decay to zero, from scratch or from a language model's weights. The
same entry gives the same bytes on one kind of CPU and one release of torch.

Of a language model's file embedding, vocabulary, blocks and last norm are taken; the positions of words begin as its
sinusoids, from 0 at the first word. Class token, its position and the head are the classifier's own. As names and
shapes alone must fit, a mechanism takes the weights of another with the same parameters: RPC-Attention those of its
symmetric or asymmetric softmax attention, twicing attention those of softmax. No file tells the number of heads and the
activation.
"""

import time
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError
from robench.datasets.texts import LabelledTexts
from robench.datasets.words import vocabulary_of
from robench.models.build import build
from robench.models.language_impl import sinusoids
from robench.models.loading import load_strictly
from robench.models.state_files import load_state
from robench.models.text_classifier_impl import TextClassifierModel
from robench.models.weights import Named, resolve_file
from robench.models.word_transformer_impl import word_hash
from robench.tasks.language_modeling_impl import UNKNOWN
from robench.training.base import EpochReport, Host, ValidationScores
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
from robench.training.text import TextTraining
from robench.training.text_splits import training_texts, validation_texts

MOST_GRADIENT = 1.0
_BATCH_SIZE = 100
_OUTPUT = "output."
# Beginnings of names that the classifier has and a language model does not.
_OWN = ("cls_token", "pos_embed", "head.")


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint``, and return the state dict.

    Computed on the CPU; of ``host``, the data root alone is used. The caller's random generators and number of threads
    are restored.

    Raises:
        DeclarationError: the entry has no such training fields, is not a classifier of texts, or weights auxiliary
            losses that the model does not have.
        WeightsError: initial weights are missing, or do not fit.
        MissingDataError: the training texts were not found.
    """
    training = checkpoint.training
    if not isinstance(training, TextTraining):
        raise DeclarationError(f"checkpoint {checkpoint.name!r} has no fields of text-training; add them")
    with reproducible(training.seed):
        model = build(checkpoint.architecture).train()
        if not isinstance(model, TextClassifierModel):
            raise DeclarationError(
                f"checkpoint {checkpoint.name!r} is not a classifier of texts; take backbone text-classifier"
            )
        data_root = None if host is None else host.data_root
        texts = cast("LabelledTexts", training_texts(training.dataset, data_root))
        valid = cast("LabelledTexts | None", validation_texts(training.dataset, data_root))
        if training.initial_weights is None:
            model.set_vocabulary(vocabulary_of(texts.texts, model.architecture.vocabulary_size, training.min_count))
        else:
            start_from(model, training.initial_weights, checkpoint)
        return _train(model, training, texts, valid, on_epoch)


def _train(
    model: TextClassifierModel,
    training: TextTraining,
    texts: LabelledTexts,
    valid: LabelledTexts | None,
    on_epoch: Callable[[EpochReport], None],
) -> dict[str, Tensor]:
    ids_EL, targets_E = model.tokens(texts.texts), torch.tensor(texts.labels)
    validation = None if valid is None else (model.tokens(valid.texts), torch.tensor(valid.labels))
    check_auxiliary(model, texts.batch(0, 2).inputs, training.auxiliary_weight)
    optimizer = adamw(
        model.parameters(),
        matrices_but_embeddings(model),
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
    )
    generator = torch.Generator().manual_seed(training.seed)
    for epoch in range(training.num_epochs):
        started, total = time.perf_counter(), 0.0
        batches = torch.randperm(len(ids_EL), generator=generator).split(training.batch_size)
        for place, rows in enumerate(batches):
            done = (epoch + place / len(batches)) / training.num_epochs
            set_learning_rate(optimizer, training.learning_rate * fraction_of_peak(done, training.warmup_share))
            ids_BL = _with_unknowns(model, ids_EL[rows], training.unknown_rate, generator)
            logits, auxiliary = with_auxiliary(model.logits_of, ids_BL, training.auxiliary_weight)
            scores = logits.softmax(dim=1) if training.loss == "double-softmax" else logits
            loss = cross_entropy(scores, targets_E[rows], label_smoothing=training.label_smoothing)
            if auxiliary is not None:
                loss = loss + auxiliary.mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MOST_GRADIENT)
            optimizer.step()
            total += float(loss.detach()) * len(rows)
        seconds = time.perf_counter() - started
        on_epoch(
            EpochReport(
                epoch=epoch + 1,
                num_epochs=training.num_epochs,
                loss_nats=total / len(ids_EL),
                examples_per_second=len(ids_EL) / seconds,
                validation=None if validation is None else _scores(model, *validation),
            )
        )
    return saved(model.state_dict(), training.saved_as)


def _with_unknowns(model: TextClassifierModel, ids_BL: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Return ids, each replaced by the unknown word's with a probability."""
    if not rate:
        return ids_BL
    is_unknown = torch.rand(ids_BL.shape, generator=generator) < rate
    return ids_BL.masked_fill(is_unknown, model.ids[word_hash(UNKNOWN)])


def _scores(model: TextClassifierModel, ids_EL: Tensor, targets_E: Tensor) -> ValidationScores:
    model.eval()
    # Trained weights do not depend on it: random generators are restored.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        logits = torch.cat([model.logits_of(part) for part in ids_EL.split(_BATCH_SIZE)])
    model.train()
    return ValidationScores(
        top1_accuracy=float((logits.argmax(1) == targets_E).double().mean()),
        loss_nats=float(cross_entropy(logits, targets_E)),
        num_examples=len(ids_EL),
    )


def start_from(model: TextClassifierModel, weights: Weights, checkpoint: Checkpoint) -> None:
    """Copy the language model's part of the weights into the classifier of a checkpoint.

    Raises:
        DeclarationError: the classifier is not causal.
        WeightsError: the file is missing, unsafe, or another than declared, or its names and shapes do not fit; the
            message lists them. Nothing was copied.
    """
    if not model.architecture.is_causal:
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has training.initial_weights, those of a language model, whose blocks are"
            " causal: set is_causal: true in its architecture"
        )
    named = Named(checkpoint.name, field="training.initial_weights", noun="initial weights")
    path, _ = resolve_file(weights, checkpoint.folder, named)
    found = {name: each for name, each in load_state(path, weights.layout).items() if not name.startswith(_OUTPUT)}
    own = {name: each for name, each in model.state_dict().items() if name.startswith(_OWN)}
    load_strictly(model, {**own, **found}, f"{path} (initial weights of {checkpoint.name})")
    architecture = model.architecture
    model.pos_embed.data[0, : architecture.context] = sinusoids(architecture.context, architecture.dim)
