"""Weights of papers' authors: which measured checkpoints are theirs, and how that is known.

Registries declare who trained weights. Where a checksum was published, that of a shipped entry or the one in the name
of the file, other bytes are not the authors', even if they are declared to be.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from robench.core.checkpoint import Checkpoint
from robench.core.records import Manifest
from robench.declare import shipped_folder

BY_CHECKSUM = "by checksum"
AS_DECLARED = "as declared"
# Digits of the SHA-256 at the end of a file's name, as torch.hub has them; digits alone may be a date.
_IN_NAME = re.compile(r"-(?=[0-9]*[a-f])([0-9a-f]{8,64})(\.[a-z]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsWeights:
    """Measured weights of a paper's authors.

    Attributes:
        checkpoint: name that they were measured under.
        known: how they are known to be the authors', such as ``by checksum`` or ``as declared``.
    """

    checkpoint: str
    known: str

    @property
    def is_checked(self) -> bool:
        """Return whether their checksum is the published one."""
        return self.known == BY_CHECKSUM


@dataclass(frozen=True, slots=True, kw_only=True)
class Authors:
    """Measured weights that are declared to be by authors.

    Attributes:
        weights: by entry, at most one checkpoint each.
        left_out: further ones of the same entries; ``refused``: reason why other measured ones are not the authors', by
            checkpoint.
    """

    weights: Mapping[str, AuthorsWeights]
    left_out: Collection[str] = ()
    refused: Mapping[str, str]


def authors_of(checkpoints: Mapping[str, Checkpoint], manifests: Iterable[Manifest]) -> Authors:
    """Return the weights that registries declare to be by authors, as far as they are measured.

    Of several of an entry the one with the published checksum counts, or else the first by name.
    """
    digests: dict[str, set[str]] = {}
    for manifest in manifests:
        digests.setdefault(manifest.shard.checkpoint, set()).add(manifest.shard.weights_digest)
    weights: dict[str, AuthorsWeights] = {}
    left_out: list[str] = []
    refused: dict[str, str] = {}
    for name in sorted(digests.keys() & checkpoints.keys()):
        checkpoint = checkpoints[name]
        if checkpoint.weights.by != "authors":
            continue
        known, reason = _known(checkpoint, checkpoints, digests[name])
        if known is None:
            refused[name] = f"{name}: declared as the authors' weights, but {reason}, so that they count as a training"
            continue
        found = AuthorsWeights(checkpoint=name, known=known)
        other = weights.setdefault(checkpoint.entry, found)
        if other is not found:
            kept, dropped = (found, other) if found.is_checked and not other.is_checked else (other, found)
            weights[checkpoint.entry] = kept
            left_out.append(dropped.checkpoint)
    return Authors(weights=weights, left_out=tuple(left_out), refused=refused)


def _known(
    checkpoint: Checkpoint, checkpoints: Mapping[str, Checkpoint], digests: Collection[str]
) -> tuple[str | None, str]:
    """Return the way in which measured weights are known to be the authors'; or None and the reason against it."""
    declared, named = checkpoint.weights.sha256, _IN_NAME.search(checkpoint.weights.uri)
    for wanted, place in ((declared, "its entry"), (named and named[1], "the file's name")):
        if wanted is not None and (other := _other(digests, wanted)):
            return None, f"the SHA-256 of those measured is {other:.8}, that in {place} {wanted:.8}"
    shipped = checkpoints.get(checkpoint.belongs_to or checkpoint.name)
    is_published = shipped is not None and shipped.folder == shipped_folder() and shipped.weights.by == "authors"
    published = shipped.weights.sha256 if shipped is not None and is_published else None
    if published is None:
        return AS_DECLARED, ""
    other = _other(digests, published)
    if other is None:
        return BY_CHECKSUM, ""
    found = f"the published {published:.8} of {checkpoint.entry}"
    # A checksum in a user's registry declares that the authors published other weights, too.
    return (
        (None, f"their SHA-256 is {other:.8} and not {found}")
        if declared is None
        else (f"{AS_DECLARED}, with the SHA-256 {other:.8} in place of {found}", "")
    )


def _other(digests: Collection[str], wanted: str) -> str | None:
    return next((digest for digest in sorted(digests) if not digest.startswith(wanted)), None)
