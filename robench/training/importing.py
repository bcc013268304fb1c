"""Import of language models that their authors trained: a file of theirs and a registry entry -> weights.

The vocabulary is not in such a file; it is made of the texts that the model was trained on.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, MissingDataError, WeightsError
from robench.datasets import DATASETS
from robench.datasets.base import TEST_SPLIT
from robench.datasets.published_texts import TokenFiles
from robench.datasets.wikitext_impl import vocabulary
from robench.models.build import build
from robench.models.language_impl import LanguageModel
from robench.models.lmtool_layout import language_weights, load_module
from robench.models.loading import load_strictly
from robench.models.word_transformer import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Weights of an entry, made of an authors' file: contiguous, in its numbers' type.

    ``left_out`` has tensors that the model does not need, with the reason, ``class_names`` the classes in the file that
    are not torch's, such as that of the attention.
    """

    tensors: Mapping[str, Tensor]
    left_out: Mapping[str, str]
    class_names: tuple[str, ...]


def import_weights(path: Path, checkpoint: Checkpoint, texts: Path) -> Imported:
    """Return the weights of a language model that was saved as a whole module; nothing of the file is run.

    The file is that of torch.save(model), of a model of lmtool-fwp's code. ``texts`` is the folder with the token file
    of the training split of the dataset that the entry states as ``trained_on``, which gives the vocabulary.

    Raises:
        DeclarationError: the entry is of another backbone, or not trained on token files.
        MissingDataError: there is no such token file, or it is not the published one.
        WeightsError: the file cannot be read, or does not fit the entry; or the vocabulary has another size.
    """
    architecture = checkpoint.architecture
    if not isinstance(architecture, Language):
        raise DeclarationError(
            f"model {checkpoint.name!r} has backbone {architecture.kind}; language models alone are imported"
        )
    dataset = _dataset_of(checkpoint)
    saved = load_module(path)
    model = build(architecture)
    assert isinstance(model, LanguageModel)  # the declaration's own
    title = f"{path} (for {checkpoint.name})"
    converted = language_weights(saved, architecture, model.state_dict(), title)
    words = _words(dataset, texts)
    size = architecture.vocabulary_size
    if len(words) != size:
        raise WeightsError(
            f"the training texts of {dataset.name} have {len(words):,} different words, ends of lines included, but"
            f" {checkpoint.name} has vocabulary_size {size:,}: correct trained_on or the architecture of the entry"
        )
    model.set_vocabulary(words)
    tensors = {**converted.tensors, "vocabulary": model.vocabulary}
    load_strictly(model, tensors, title)
    ordered = {name: tensors[name].contiguous() for name in model.state_dict()}
    return Imported(tensors=ordered, left_out=converted.left_out, class_names=saved.class_names)


def _dataset_of(checkpoint: Checkpoint) -> TokenFiles:
    declared = {name: each for name, each in DATASETS.loaded() if isinstance(each, TokenFiles)}
    # Of a set's datasets, the one of its test split represents the training texts too.
    closed = {name: each for name, each in declared.items() if each.vocabulary_size is not None}
    found = {name: each for name, each in closed.items() if each.evaluation_split == TEST_SPLIT}
    if checkpoint.trained_on not in found:
        raise DeclarationError(
            f"model {checkpoint.name!r} has trained_on: {checkpoint.trained_on}; the vocabulary is made of token files,"
            f" wanted one of {', '.join(found)}"
        )
    return found[checkpoint.trained_on]


def _words(dataset: TokenFiles, texts: Path) -> list[str]:
    """Return the vocabulary, of a folder that may have another name than the dataset's."""
    there = replace(dataset, folder=texts.name)
    path = texts.parent / there.path_of("train")
    # pathlib raises for a name that is too long.
    if not os.path.isfile(path):  # noqa: PTH113
        raise MissingDataError(
            f"{path} is not a file; wanted is the folder with the token files of {dataset.name}, whose training"
            f" texts give the vocabulary: unpack {dataset.archive}, and name the folder by --vocabulary"
        )
    return vocabulary(there, texts.parent)
