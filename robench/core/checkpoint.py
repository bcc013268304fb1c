"""Entries of the registry: the weights of a trained model and how to build its architecture."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from robench.core.declared import Architecture, Preprocessing, Recipe

PLAIN_LAYOUT = "plain"
# Scheme of weights in a repository of the Hugging Face Hub.
HUB = "hf-hub:"
SEED_MARK = "@"
# End of the names of models whose weights are drawn when they are built; names of registries have no such character.
REHEARSAL_MARK = "+random-weights"
Trainer = Literal["authors", "third-party", "robench", "user"]


def seed_name(entry: str, seed: int) -> str:
    """Return the name of a further training of an entry.

    >>> seed_name("digits-vit", 3)
    'digits-vit@3'
    """
    return f"{entry}{SEED_MARK}{seed}"


def entry_name(checkpoint: str) -> str:
    """Return the name of the entry whose training a checkpoint is; names in results are mapped to it.

    >>> entry_name("digits-vit@3"), entry_name("digits-vit")
    ('digits-vit', 'digits-vit')
    """
    return checkpoint.partition(SEED_MARK)[0]


def is_rehearsal(checkpoint: str) -> bool:
    """Return whether the name of a checkpoint is that of a model with random weights.

    >>> is_rehearsal("digits-vit+random-weights"), is_rehearsal("digits-vit")
    (True, False)
    """
    return checkpoint.endswith(REHEARSAL_MARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Location and checksum of a checkpoint's weights.

    Attributes:
        uri: path relative to the registry file, absolute path, or ``hf-hub:owner/repository/file``.
        sha256: 64 hexadecimal digits; or the first 8 or more, where a publisher names only those; or None for
            unpublished weights, where any file the user supplies is accepted (its digest is still part of every key).
        how_to_get: one sentence for the error message if the file is missing.
        layout: name of the layout of the file (position and names of the tensors), see ``models.layouts``.
        key: key at the top of the file under which the tensors lie; ``prefix``: beginning of their names that the model
            does not have, where names without it are left out. They take the place of a layout.
        by: who trained them; ``authors`` are those of the numbers that the entry is compared with. Never part of keys.
        source: where they were published, for weights by ``authors`` or a third party.
    """

    uri: str
    sha256: str | None
    how_to_get: str = ""
    layout: str = PLAIN_LAYOUT
    key: str = ""
    prefix: str = ""
    by: Trainer = "user"
    source: str = ""

    @property
    def form(self) -> str:
        """Return the name of the layout, or key and prefix in its place; part of the keys of results.

        >>> Weights(uri="a.ckpt", sha256=None, key="state_dict", prefix="model.").form
        'key: state_dict, prefix: model.'
        """
        return ", ".join(f"{key}: {each}" for key in ("key", "prefix") if (each := getattr(self, key))) or self.layout

    @property
    def page(self) -> str:
        """Return where the weights are to be had: the page of their repository, or what the entry says.

        >>> Weights(uri="hf-hub:owner/repository/file.safetensors", sha256=None).page
        'https://huggingface.co/owner/repository'
        >>> Weights(uri="hf-hub:owner/repository@main", sha256=None).page
        'https://huggingface.co/owner/repository'
        """
        if not self.uri.startswith(HUB):
            return self.source
        address = self.uri.removeprefix(HUB).partition("@")[0]
        return f"https://huggingface.co/{'/'.join(address.split('/')[:2])}"


# Of Cohen et al. 2019.
SELECTION, DRAWS, ALPHA = 100, 10_000, Fraction(1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """Randomised smoothing of a classifier: the class that Gaussian noise on the inputs gives most often.

    Source: Cohen et al. 2019, arXiv:1902.02918. The class is chosen by some draws of the noise, and its probability is
    bounded from below by others.

    Attributes:
        sigma: standard deviation of the noise of each value, in units of the inputs, which are not clipped.
        selection: number of draws that choose the class; ``draws``: number of draws that bound its probability.
        alpha: probability with which a certificate may be wrong.
    """

    sigma: Fraction
    selection: int = SELECTION
    draws: int = DRAWS
    alpha: Fraction = ALPHA

    @property
    def title(self) -> str:
        """Return the smoothing with its settings, as lists of models and tables name it."""
        return f"smoothed (sigma {self.sigma}, {self.selection} and {self.draws:,} draws, alpha {self.alpha})"

    @property
    def caveat(self) -> str:
        """Return the sentence that tables show with numbers of a smoothed model."""
        return (
            f"{self.title}: numbers are of the model under this noise, not of its checkpoint alone, and an abstention "
            "counts as wrong"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Entry of the registry.

    Attributes:
        expected: published scores by metric, proportions in [0, 1], for comparison with runs; never copied into a
            table.
        trained_on: name of the training dataset, the only one that ``expected`` applies to.
        coupled: whether rows of a batch may influence each other, so that numbers hold at their batch size only; not
            part of keys, which contain the batch size.
        patches: whether the model's code may replace functions of torch and numpy, so that it is measured alone in its
            process; not part of keys, which contain the code.
        seed_of: name of the entry that this trains again, with another seed; None for the entry itself.
        belongs_to: name of the shipped entry to which another registry gives these weights; None for all others. Never
            part of keys.
        folder: the folder of the registry file, against which relative uris are resolved.
        registry: the registry file; None for the shipped one, and for models in memory.
        paper, code: where the model was published, for readers; addresses become links.
        smoothing: how the model of these weights is smoothed; None for the model itself.
    """

    name: str
    architecture: Architecture
    weights: Weights
    preprocessing: Preprocessing
    task: str
    training_data: str
    source: str
    licence: str
    folder: Path
    expected: Mapping[str, float] = field(default_factory=dict)
    training: Recipe | None = None
    trained_on: str | None = None
    coupled: bool = False
    patches: bool = False
    seed_of: str | None = None
    belongs_to: str | None = None
    registry: Path | None = None
    paper: str = ""
    code: str = ""
    smoothing: Smoothing | None = None

    @property
    def passes_per_prediction(self) -> int:
        """Return the number of forward passes of a prediction: those of all draws of a smoothed model."""
        return 1 if self.smoothing is None else self.smoothing.selection + self.smoothing.draws

    @property
    def train_command(self) -> str:
        """Return the command that trains these weights; empty where the entry has no recipe."""
        words = ["robench", "train", self.name, *(("--registry", str(self.registry)) if self.registry else ())]
        return "" if self.training is None else shlex.join(words)

    @property
    def caveat(self) -> str:
        """Return the sentence on the weights or the noise that tables show with their numbers; usually empty."""
        if is_rehearsal(self.name):
            return "random weights: a rehearsal, whose numbers say nothing about the model"
        if self.smoothing is not None:
            return self.smoothing.caveat
        return "" if self.training is None else self.training.caveat

    def rehearsed(self) -> Checkpoint:
        """Return the same model with random weights from a fixed seed, under a name of its own.

        Nothing is expected of it, and it counts for no entry. Only a folder of files that describe the model is read.
        """
        drawn = hashlib.sha256(REHEARSAL_MARK.encode()).hexdigest()
        weights = Weights(uri=self.weights.uri, sha256=drawn, how_to_get=self.weights.how_to_get)
        name = f"{self.name}{REHEARSAL_MARK}"
        return replace(self, name=name, weights=weights, expected={}, training=None, seed_of=None, belongs_to=None)

    @property
    def entry(self) -> str:
        """Return the name of the entry that results of this training count for."""
        return self.belongs_to or self.seed_of or self.name

    def retrained(self, seed: int, weights: Weights, expected: Mapping[str, float]) -> Checkpoint:
        """Return a further training of this entry, which must have ``training``, with another seed."""
        assert self.training is not None
        return replace(
            self,
            name=seed_name(self.name, seed),
            weights=weights,
            expected=expected,
            training=self.training.seeded(seed),
            seed_of=self.name,
        )
