"""Result of verifying a dataset on disk: differences from its published form, and numbers found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from robench.core.errors import RobenchError
from robench.core.inert import printable

Kind = Literal[
    "absent",
    "unreadable",
    "missing-class",
    "wrong-count",
    "empty-file",
    "no-image",
    "corrupt-image",
    "cmyk-image",
    "16-bit-image",
    "other-file",
    "wrong-file",
    "wrong-mask",
    "class-order",
    "empty-class",
    "odd-class",
    "turned-image",
    "several-sizes",
]
# Findings about files that are read anyway or skipped, and notes on classes, which do not invalidate numbers.
HARMLESS: frozenset[Kind] = frozenset(
    (
        *("cmyk-image", "16-bit-image", "other-file", "class-order", "empty-class"),
        *("odd-class", "turned-image", "several-sizes"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Difference of a dataset from its published form; the message names folder or file."""

    kind: Kind
    message: str

    @property
    def is_problem(self) -> bool:
        """Return whether numbers on this data are not comparable with published ones."""
        return self.kind not in HARMLESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of the verification of one dataset.

    Attributes:
        folder: location of its class folders, or of another form; None if it was not found, or is embedded.
        form: name of the form of images of ImageNet's classes, such as ``class folders``, or of images with masks;
            None for all others.
        has_own_ids: whether ids and fingerprint are of this form alone, because it lacks the names of files.
        num_images, num_classes: numbers found of the expected classes; 0 for texts, and no images for tokens.
        is_decoded: whether every image was decoded, too.
        num_texts, num_tokens: numbers of texts and their tokens, None for images; without a file both are 0. Tokens are
            counted where their number is published, otherwise None.
        split: split of the file that was read; None for all others.
        images_per_class: number of images of each class, if all have the same and were counted; None otherwise.
        sha256: digest of arrays of images, or of tokens, and their labels, or of a file of series; None for all others.
        num_sequences: number of sequences of tokens, or of pairs; ``num_series``, ``num_channels``, ``num_steps``:
            numbers of series, their channels and the steps of the longest one; None for all others.
        num_trajectories: number of trajectories, whose steps all together are ``num_steps``; None for all others.
        classes: name and number of examples of each class of a user's dataset, in their order; the number of masks
            with the class for segmentation, whose files are read with ``decode`` alone.
    """

    dataset: str
    folder: Path | None = None
    form: str | None = None
    has_own_ids: bool = False
    num_images: int = 0
    num_classes: int = 0
    is_decoded: bool = False
    findings: tuple[Finding, ...] = ()
    num_texts: int | None = None
    num_tokens: int | None = None
    num_sequences: int | None = None
    split: str | None = None
    images_per_class: int | None = None
    sha256: str | None = None
    num_series: int | None = None
    num_channels: int | None = None
    num_steps: int | None = None
    num_trajectories: int | None = None
    classes: tuple[tuple[str, int], ...] = ()

    @property
    def is_absent(self) -> bool:
        """Return whether nothing of it was found."""
        return any(finding.kind == "absent" for finding in self.findings)

    @property
    def is_whole(self) -> bool:
        """Return whether it has no problems."""
        return not any(finding.is_problem for finding in self.findings)


def refused(dataset: str, kind: Kind, error: RobenchError, **known: Any) -> Verification:
    """Return the verification of a dataset that is refused; each of the error's lines is one of the message."""
    message = "\n".join(map(printable, error.lines))
    return Verification(dataset=dataset, findings=(Finding(kind=kind, message=message),), **known)
