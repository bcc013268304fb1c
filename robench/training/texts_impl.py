"""Training of language models and classifiers on texts, by the ``training`` fields of a registry entry.

AdamW, linear warm-up, cosine decay to zero. Language models learn the mean negative log-likelihood of windows of the
training texts, which follow each other in their order; classifiers learn the cross-entropy, from scratch or from a
language model's weights. The same entry gives the same bytes on one kind of CPU and one release of torch.

Of a language model's file embedding, vocabulary, blocks and last norm are taken; the positions of words begin as its
sinusoids, from 0 at the first word. Class token, its position and the head are the classifier's own. As names and
shapes alone must fit, a mechanism takes the weights of another with the same parameters: RPC-Attention those of its
symmetric or asymmetric softmax attention, twicing attention those of softmax. No file tells the number of heads and the
activation.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, MissingDataError
from robench.datasets import DATASETS, open_dataset
from robench.datasets.texts import LabelledTexts, Texts, vocabulary_of
from robench.domains.code_points import UNKNOWN
from robench.models.build import build
from robench.models.language_impl import LanguageModel, sinusoids, windows_at_once
from robench.models.loading import Named, load_strictly, resolve_file
from robench.models.state_files import load_state
from robench.models.word_transformer_impl import END_ID, TextClassifierModel, word_hash
from robench.training.base import EpochReport, Host, ValidationScores
from robench.training.epochs import fit
from robench.training.optimization import (
    adamw,
    check_auxiliary,
    evaluating,
    fraction_of_peak,
    matrices_but_embeddings,
    reproducible,
    saved,
    with_auxiliary,
)
from robench.training.texts import LanguageTraining, TextTraining

MOST_GRADIENT = 1.0
MOST_VALIDATION_WORDS = 8192
_BATCH_SIZE = 100
# Publishers name the validation split differently; the first that a dataset has is taken.
VALIDATION_SPLITS = ("valid", "dev")
_OUTPUT = "output."
# Beginnings of names that the classifier has and a language model does not.
_OWN = ("cls_token", "pos_embed", "head.")


class _Steps(TypedDict):
    """Parts of ``fit`` that differ between language models and classifiers."""

    batches: Callable[[], Sequence[Tensor]]
    loss_of: Callable[[Tensor], Tensor]
    scores: Callable[[], ValidationScores | None]


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint``, and return the state dict.

    Computed on the CPU; of ``host``, the data root and the files of epochs alone are used. The caller's random
    generators and number of threads are restored.
    """
    training = checkpoint.training
    if not isinstance(training, LanguageTraining | TextTraining):
        kinds = f"{LanguageTraining.kind} or {TextTraining.kind}"
        raise DeclarationError(f"checkpoint {checkpoint.name!r} has no fields of {kinds}; add them")
    is_language = isinstance(training, LanguageTraining)
    with reproducible(training.seed):
        built = build(checkpoint.architecture).train()
        if not isinstance(built, LanguageModel if is_language else TextClassifierModel):
            wanted = "classifier of texts; take backbone text-classifier"
            wanted = "language model; take backbone language" if is_language else wanted
            raise DeclarationError(f"checkpoint {checkpoint.name!r} is not a {wanted}")
        model: Any = built
        data_root = None if host is None else host.data_root
        texts: Any = open_dataset(training.dataset, data_root=data_root, preprocessing=None, split="train")
        valid = validation_texts(training.dataset, data_root)
        if isinstance(training, TextTraining) and training.initial_weights is not None:
            start_from(model, training.initial_weights, checkpoint)
        else:
            model.set_vocabulary(vocabulary_of(texts.texts, model.architecture.vocabulary_size, training.min_count))
        if isinstance(training, LanguageTraining):
            steps = _language_steps(model, training, texts, valid)
        else:
            steps = _classifier_steps(model, training, texts, valid)
        decayed, rate = matrices_but_embeddings(model), training.learning_rate

        def weights() -> dict[str, Tensor]:
            return saved(model.state_dict(), training.saved_as)

        fit(
            model,
            adamw(model.parameters(), decayed, learning_rate=rate, weight_decay=training.weight_decay),
            training.num_epochs,
            rate_at=lambda epoch: rate * fraction_of_peak(epoch / training.num_epochs, training.warmup_share),
            host=host,
            weights=weights,
            on_epoch=on_epoch,
            most_gradient=MOST_GRADIENT,
            **steps,
        )
        return weights()


def validation_texts(dataset: str, data_root: Path | None) -> Any:
    """Return the validation split of a dataset; None where it has none, or none on disk."""
    split = next((each for each in VALIDATION_SPLITS if each in DATASETS[dataset].splits), None)
    if split is None:
        return None
    try:
        return open_dataset(dataset, data_root=data_root, preprocessing=None, split=split)
    except MissingDataError:
        return None


def _language_steps(model: LanguageModel, training: LanguageTraining, texts: Texts, valid: Texts | None) -> _Steps:
    context, ids = model.architecture.context, _ids(model, texts)
    valid_ids = None if valid is None else _ids(model, valid)
    check_auxiliary(model, ids[None, :context], training.auxiliary_weight, model.hidden)
    generator = torch.Generator().manual_seed(training.seed)

    def loss_of(starts_B: Tensor) -> Tensor:
        return _loss(model, ids[starts_B[:, None] + torch.arange(context + 1)], training.auxiliary_weight)

    return _Steps(
        batches=lambda: _batches(len(ids), context, training.batch_size, generator),
        loss_of=loss_of,
        scores=lambda: None if valid_ids is None else _language_scores(model, valid_ids),
    )


def _classifier_steps(
    model: TextClassifierModel, training: TextTraining, texts: LabelledTexts, valid: LabelledTexts | None
) -> _Steps:
    ids_EL, targets_E = model.tokens(texts.texts), torch.tensor(texts.labels)
    validation = None if valid is None else (model.tokens(valid.texts), torch.tensor(valid.labels))
    check_auxiliary(model, texts.batch(0, 2).inputs, training.auxiliary_weight)
    generator = torch.Generator().manual_seed(training.seed)

    def loss_of(rows: Tensor) -> Tensor:
        ids_BL = _with_unknowns(model, ids_EL[rows], training.unknown_rate, generator)
        logits, auxiliary = with_auxiliary(model.logits_of, ids_BL, training.auxiliary_weight)
        scores = logits.softmax(dim=1) if training.loss == "double-softmax" else logits
        return cross_entropy(scores, targets_E[rows], label_smoothing=training.label_smoothing) + auxiliary

    return _Steps(
        batches=lambda: torch.randperm(len(ids_EL), generator=generator).split(training.batch_size),
        loss_of=loss_of,
        scores=lambda: None if validation is None else _classifier_scores(model, *validation),
    )


def _ids(model: LanguageModel, texts: Texts) -> Tensor:
    """Return an end of line, and the ids of all texts one after the other."""
    return torch.cat([torch.tensor([END_ID]), *(model.tokens(text)[0][1:] for text in texts.texts)])


def _loss(model: LanguageModel, windows_BL: Tensor, auxiliary_weight: float = 0.0) -> Tensor:
    hidden_BLC, auxiliary = with_auxiliary(model.hidden, windows_BL[:, :-1], auxiliary_weight)
    return model.losses_of(hidden_BLC.flatten(0, 1), windows_BL[:, 1:].flatten()).mean() + auxiliary


def _language_scores(model: LanguageModel, ids: Tensor) -> ValidationScores | None:
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


def _with_unknowns(model: TextClassifierModel, ids_BL: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Return ids, each replaced by that of the unknown word with a probability."""
    if not rate:
        return ids_BL
    is_unknown = torch.rand(ids_BL.shape, generator=generator) < rate
    return ids_BL.masked_fill(is_unknown, model.ids[word_hash(UNKNOWN)])


def _classifier_scores(model: TextClassifierModel, ids_EL: Tensor, targets_E: Tensor) -> ValidationScores:
    with evaluating(model):
        logits = torch.cat([model.logits_of(part) for part in ids_EL.split(_BATCH_SIZE)])
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
