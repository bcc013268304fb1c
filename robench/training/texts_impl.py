"""Training of language models and classifiers on texts, by the ``training`` fields of a registry entry.

AdamW with a linear warm-up (``steps.py``). Language models learn the mean negative log-likelihood of windows of the
training texts, which follow each other in their order; classifiers learn the cross-entropy, from scratch or from a
language model's weights. The same entry gives the same bytes on one kind of CPU and one release of torch.

Of a language model's file embedding, vocabulary, blocks and last norm are taken; the positions of words begin as its
sinusoids, from 0 at the first word. Class token, its position and the head are the classifier's own. As names and
shapes alone must fit, a mechanism takes the weights of another with the same parameters: RPC-Attention those of its
symmetric or asymmetric softmax attention, twicing attention those of softmax. No file tells the number of heads and the
activation.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, MissingDataError
from robench.core.identity import key_of
from robench.core.shard import EXACT_DTYPE
from robench.datasets import DATASETS, open_dataset
from robench.datasets.texts import LabelledTexts, OrderedTexts, vocabulary_of
from robench.models.build import build
from robench.models.language_impl import LanguageModel, sinusoids, windows_at_once
from robench.models.loading import Named, load_strictly, resolve_file
from robench.models.state_files import load_state
from robench.models.word_pieces import read_pieces
from robench.models.word_transformer_impl import TextClassifierModel, WordModel
from robench.tasks.language_modeling_impl import END_OF_LINE
from robench.training.base import EpochReport, Host, ValidationScores
from robench.training.epochs import Score, run_epochs, store_state
from robench.training.optimization import check_auxiliary, evaluating, reproducible
from robench.training.steps import Steps, TextLearner
from robench.training.texts import LanguageTraining, TextTraining, WordTraining

MOST_VALIDATION_WORDS = 8192
_BATCH_SIZE = 100
# Publishers name the validation split differently; the first that a dataset has is taken.
VALIDATION_SPLITS = ("valid", "dev")
_OUTPUT = "output."
# Beginnings of names that the classifier has and a language model does not.
_OWN = ("cls_token", "pos_embed", "head.")


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch or from its stored state, and return the state dict on the CPU.

    Trainings on embedded texts are computed on the CPU, in whole batches and in float32, on any ``host``. The caller's
    random generators and number of threads are restored.
    """
    training, host = checkpoint.training, host or Host(data_root=None)
    if not isinstance(training, LanguageTraining | TextTraining):
        kinds = f"{LanguageTraining.kind} or {TextTraining.kind}"
        raise DeclarationError(f"checkpoint {checkpoint.name!r} has no fields of {kinds}; add them")
    if training.is_embedded:
        host = replace(host, device="cpu", micro_batch_size=None, precision=EXACT_DTYPE)
    device = torch.device(host.device)
    with reproducible(training.seed, device):
        model = _built(checkpoint, training)
        texts: Any = open_dataset(training.dataset, data_root=host.data_root, preprocessing=None, split="train")
        valid = validation_texts(training.dataset, host.data_root)
        initial = None
        if isinstance(training, TextTraining) and training.initial_weights is not None:
            initial = start_from(model, training.initial_weights, checkpoint)
        else:
            words, initial = _vocabulary(model, training, texts, checkpoint)
            model.set_vocabulary(words)
        # Ids are found while the model is on the CPU, where they stay until a step needs them.
        if isinstance(training, LanguageTraining):
            steps, score = _language_steps(model, training, texts, valid)
        else:
            steps, score = _classifier_steps(model, training, texts, valid)
        key = key_of([checkpoint.architecture, training, texts.identity.fingerprint, initial])
        learner = TextLearner(
            model.to(device), training, steps, host, store=lambda epoch: store_state(learner, epoch, host, key)
        )
        return run_epochs(learner, host=host, key=key, score=score, on_epoch=on_epoch)


# Any: a language model or a classifier.
def _built(checkpoint: Checkpoint, training: LanguageTraining | TextTraining) -> Any:
    """Return the model of a checkpoint, with initial weights; refuse one of another task than the training's."""
    built = build(checkpoint.architecture).train()
    is_language = isinstance(training, LanguageTraining)
    if not isinstance(built, LanguageModel if is_language else TextClassifierModel):
        wanted = "classifier of texts; take backbone text-classifier"
        wanted = "language model; take backbone language" if is_language else wanted
        raise DeclarationError(f"checkpoint {checkpoint.name!r} is not a {wanted}")
    return built


def _vocabulary(
    model: WordModel, training: WordTraining, texts: OrderedTexts, checkpoint: Checkpoint
) -> tuple[list[str], str | None]:
    """Return the words of the training texts; or the word pieces of the declared file, and its SHA-256."""
    size = model.architecture.vocabulary_size
    if training.vocabulary is None and not model.reads_pieces:
        return vocabulary_of(texts.articles(), size, training.min_count), None
    if training.vocabulary is None or not model.reads_pieces:
        found = "has no training.vocabulary" if model.reads_pieces else "has training.vocabulary, and reads words"
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} {found}: a file of word pieces goes with vocabulary: word-pieces of the"
            " architecture, and only with it"
        )
    named = Named(checkpoint.name, field="training.vocabulary", noun="word pieces")
    path, digest = resolve_file(training.vocabulary, checkpoint.folder, named)
    return read_pieces(path, size), digest


def validation_texts(dataset: str, data_root: Path | None) -> Any:
    """Return the validation split of a dataset; None where it has none, or none on disk."""
    split = next((each for each in VALIDATION_SPLITS if each in DATASETS[dataset].splits), None)
    if split is None:
        return None
    try:
        return open_dataset(dataset, data_root=data_root, preprocessing=None, split=split)
    except MissingDataError:
        return None


def _language_steps(
    model: LanguageModel, training: LanguageTraining, texts: OrderedTexts, valid: OrderedTexts | None
) -> tuple[Steps, Score | None]:
    context, ids = model.architecture.context, _ids(model, texts)
    valid_ids = None if valid is None else _ids(model, valid)
    check_auxiliary(model, ids[None, :context], training.auxiliary_weight, model.hidden)
    num_windows = len(range(context - 1, len(ids) - context - 1, context))
    # Epochs of texts in files have the same number of windows, which the last place to begin at leaves.
    most = None if training.is_embedded else num_windows

    def examples_of(starts_B: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        windows_BL = ids[starts_B[:, None] + torch.arange(context + 1)]
        return windows_BL[:, :-1], windows_BL[:, 1:]

    steps = Steps(
        num_batches=-(-num_windows // training.batch_size),
        num_examples=most,
        batches=lambda generator: _batches(len(ids), context, training.batch_size, generator, most),
        examples_of=examples_of,
        outputs_of=model.hidden,
        loss_of=lambda hidden_BLC, targets_BL: model.losses_of(hidden_BLC.flatten(0, 1), targets_BL.flatten()).mean(),
    )
    return steps, None if valid_ids is None else lambda _: _language_scores(model, valid_ids)


def _classifier_steps(
    model: TextClassifierModel, training: TextTraining, texts: LabelledTexts, valid: LabelledTexts | None
) -> tuple[Steps, Score | None]:
    ids_EL, targets_E = model.tokens(texts.texts), torch.tensor(texts.labels)
    validation = None if valid is None else (model.tokens(valid.texts), torch.tensor(valid.labels))
    check_auxiliary(model, texts.batch(0, 2).inputs, training.auxiliary_weight)

    def examples_of(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return _with_unknowns(model, ids_EL[rows], training.unknown_rate, generator), targets_E[rows]

    def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
        scores = logits.softmax(dim=1) if training.loss == "double-softmax" else logits
        return cross_entropy(scores, targets, label_smoothing=training.label_smoothing)

    steps = Steps(
        num_batches=-(-len(ids_EL) // training.batch_size),
        num_examples=len(ids_EL),
        batches=lambda generator: torch.randperm(len(ids_EL), generator=generator).split(training.batch_size),
        examples_of=examples_of,
        outputs_of=model.logits_of,
        loss_of=loss_of,
    )
    return steps, None if validation is None else lambda _: _classifier_scores(model, *validation)


def _ids(model: LanguageModel, texts: OrderedTexts) -> Tensor:
    """Return an end of line, and the ids of all texts one after the other, without context."""
    return torch.cat(
        [torch.tensor(model.ids_of_word(END_OF_LINE)), *(model.tokens(text)[0][1:] for text in texts.articles())]
    )


def _language_scores(model: LanguageModel, ids: Tensor) -> ValidationScores | None:
    """Return the scores on the first windows of validation, which follow each other; None if there is not one."""
    context = model.architecture.context
    starts = torch.arange(0, min(len(ids) - 1, MOST_VALIDATION_WORDS) - context + 1, context)
    if not len(starts):
        return None
    device = model.embedding.weight.device
    windows_WL = ids[starts[:, None] + torch.arange(context + 1)].to(device)
    total = 0.0
    with evaluating(model, device):
        for part in windows_WL.split(windows_at_once(model.architecture, device)):
            hidden_NC = model.hidden(part[:, :-1]).flatten(0, 1)
            total += float(model.losses_of(hidden_NC, part[:, 1:].flatten()).mean()) * len(part)
    return ValidationScores(
        top1_accuracy=None, loss_nats=total / len(windows_WL), num_examples=len(windows_WL) * context
    )


def _batches(
    num_tokens: int, context: int, batch_size: int, generator: torch.Generator, most: int | None = None
) -> Sequence[Tensor]:
    """Return the starts (B,) of windows that follow each other from a random place on, in random order.

    Of more than ``most`` windows the last are left out.
    """
    first = int(torch.randint(context, (1,), generator=generator))
    starts = torch.arange(first, num_tokens - context - 1, context)[:most]
    batches: Sequence[Tensor] = starts[torch.randperm(len(starts), generator=generator)].split(batch_size)
    return batches


def _with_unknowns(model: TextClassifierModel, ids_BL: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Return ids, each replaced by that of the unknown word with a probability."""
    if not rate:
        return ids_BL
    is_unknown = torch.rand(ids_BL.shape, generator=generator) < rate
    return ids_BL.masked_fill(is_unknown, model.unknown_id)


def _classifier_scores(model: TextClassifierModel, ids_EL: Tensor, targets_E: Tensor) -> ValidationScores:
    device = model.embedding.weight.device
    with evaluating(model, device):
        logits = torch.cat([model.logits_of(part.to(device)).cpu() for part in ids_EL.split(_BATCH_SIZE)])
    return ValidationScores(
        top1_accuracy=float((logits.argmax(1) == targets_E).double().mean()),
        loss_nats=float(cross_entropy(logits, targets_E)),
        num_examples=len(ids_EL),
    )


def start_from(model: TextClassifierModel, weights: Weights, checkpoint: Checkpoint) -> str:
    """Copy the language model's part of the weights into the classifier of a checkpoint; return their SHA-256.

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
    path, digest = resolve_file(weights, checkpoint.folder, named)
    found = {name: each for name, each in load_state(path, weights).items() if not name.startswith(_OUTPUT)}
    own = {name: each for name, each in model.state_dict().items() if name.startswith(_OWN)}
    load_strictly(model, {**own, **found}, f"{path} (initial weights of {checkpoint.name})")
    architecture = model.architecture
    model.pos_embed.data[0, : architecture.context] = sinusoids(architecture.context, architecture.dim)
    return digest
