"""Preflight check of tokenizers: whether a model reads the texts that it is measured on.

A tokenizer that makes nothing of a text gives a model a constant input, which no perturbation changes: it looks
perfectly robust. So all texts of a run are counted before the first shard.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress

from robench.core.checkpoint import Checkpoint, is_rehearsal
from robench.core.declared import DatasetDeclaration
from robench.core.errors import ExampleError, UsageError
from robench.core.protocols import Dataset
from robench.domains.code_points import decoded
from robench.models.loaded import LoadedModel

SHOWN = 40


def check_reading(
    checkpoint: Checkpoint, datasets: Mapping[DatasetDeclaration, Dataset], model: LoadedModel, limit: int | None
) -> None:
    """Warn of texts that a model with a tokenizer does not read whole, among the first ``limit`` of each dataset.

    Raises:
        UsageError: a text with words has no piece, or all words are lost.
    """
    # Random weights of robench's own models have an empty vocabulary.
    if not model.has_tokenizer or is_rehearsal(checkpoint.name):
        return
    title = f"model {checkpoint.name!r}"
    for declared, dataset in datasets.items():
        counts: list[tuple[int, int, int]] = []
        for index in range(min(len(dataset), limit or len(dataset))):
            # Unreadable examples are reported when their shard fails.
            with suppress(ExampleError):
                points = dataset[index][0][None].to(model.device)
                (text,), read = decoded(points), {name: int(each) for name, each in model.reading(points).items()}
                if text.split() and not read["num_pieces"]:
                    raise UsageError(
                        f"{title}: its tokenizer makes no piece of text {index} of {declared.name!r}, {text[:SHOWN]!r}:"
                        " take the tokenizer that the model was trained with, or leave such texts out"
                    )
                counts.append((len(text.split()), read["num_lost"], read.get("num_cut", 0)))
        words, lost, _ = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0)
        if words and lost == words:
            raise UsageError(
                f"{title}: its tokenizer loses all {words:,} words of {declared.name!r}, which it reads as"
                " unknown pieces or without some of their letters: take the tokenizer that the model was trained with"
            )
        _warn(title, declared.name, counts, is_cut=not getattr(model.module, "truncates", False))


def _warn(title: str, dataset: str, counts: list[tuple[int, int, int]], *, is_cut: bool) -> None:
    words, lost = sum(each[0] for each in counts), sum(each[1] for each in counts)
    of_texts, log = f"of {len(counts):,} texts of {dataset!r}", logging.getLogger(__name__)
    if lost:
        log.warning(
            "%s: its tokenizer loses %d of %d words (%.2g %%) in %d %s, which it reads as unknown pieces or without"
            " some of their letters",
            title, lost, words, 100 * lost / words, sum(each[1] > 0 for each in counts), of_texts,
        )  # fmt: skip
    if is_cut and (longer := [each[2] for each in counts if each[2]]):
        log.warning(
            "%s: %d %s have more tokens than it reads, up to %d more, and are cut; set truncates: true in its"
            " architecture if that is meant",
            title, len(longer), of_texts, max(longer),
        )  # fmt: skip
