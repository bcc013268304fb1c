"""Location of a checkpoint's weights, and verification of their checksum."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from robench.core.errors import DeclarationError, WeightsError
from robench.core.files import open_regular
from robench.models.state_files import what_else_it_is

if TYPE_CHECKING:
    from robench.core.checkpoint import Checkpoint, Weights

HUB = "hf-hub:"
SHA256 = re.compile(r"[0-9a-fA-F]{8,64}")


@dataclass(frozen=True, slots=True)
class Named:
    """Names of weights in messages: the registry's entry, the field that declares them, and a noun."""

    entry: str
    field: str = "weights"
    noun: str = "weights"


def resolve(checkpoint: Checkpoint) -> tuple[Path, str]:
    """Return the file with the checkpoint's weights, and its SHA-256 in 64 hexadecimal digits.

    Raises:
        WeightsError: the file is missing or unreadable, or its checksum differs from the registry's.
        DeclarationError: the registry's uri or checksum is malformed.
    """
    return resolve_file(checkpoint.weights, checkpoint.folder, Named(checkpoint.name))


def resolve_file(weights: Weights, folder: Path, named: Named) -> tuple[Path, str]:
    """Return the file with weights and its SHA-256, as ``resolve``; relative uris are below ``folder``.

    Raises:
        WeightsError: the file is missing or unreadable, or its checksum differs from the declared one.
        DeclarationError: the declared uri or checksum is malformed.
    """
    path = _locate(weights, folder, named)
    found, wanted = digest(path), weights.sha256
    if wanted is None:
        return path, found
    if not SHA256.fullmatch(wanted):
        raise DeclarationError(
            f"{named.field}.sha256 of {named.entry} must be 64 hexadecimal digits or the first 8 or more,"
            f" got {wanted!r}"
        )
    if not found.startswith(wanted.lower()):
        guess = what_else_it_is(path)
        raise WeightsError(
            f"the {named.noun} of {named.entry} at {path} have SHA-256 {found}, the registry wants {wanted}."
            f"{f' The file is {guess}.' if guess else ''} Get the file again{_how(weights)},"
            f" or, if other weights are meant, change {named.field}.sha256 in the registry"
        )
    return path, found


def _locate(weights: Weights, folder: Path, named: Named) -> Path:
    uri = weights.uri
    if uri.startswith(HUB):
        return _download(weights, uri.removeprefix(HUB), named)
    path = (folder / uri).absolute()
    try:
        with open_regular(path):
            return path
    except FileNotFoundError as error:
        raise WeightsError(
            f"the {named.noun} of {named.entry} are missing: put the file at {path}{_how(weights)}"
        ) from error
    except OSError as error:
        raise WeightsError(
            f"the {named.noun} of {named.entry} at {path} cannot be read ({error.strerror}): a readable file is wanted"
            f" there{_how(weights)}"
        ) from error


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, 64 hexadecimal digits."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}): check the file and the disk") from error


def _download(weights: Weights, address: str, named: Named) -> Path:
    owner, _, rest = address.partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise DeclarationError(
            f"{named.field}.uri of {named.entry} must be {HUB}owner/repository/file, got {weights.uri!r}"
        )
    try:
        # Here because it is heavy, and an optional dependency not needed for local weights.
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(f"{owner}/{repository}", file))
    except ImportError as error:
        raise WeightsError(
            f"the {named.noun} of {named.entry} lie at {weights.uri}, and huggingface_hub is not installed:"
            f" install robench[hub], or download the file and write its path into {named.field}.uri"
        ) from error
    # Broad because the hub passes on the errors of its HTTP library, which have no common class.
    except Exception as error:
        raise WeightsError(
            f"the {named.noun} of {named.entry} could not be downloaded from {weights.uri}"
            f" ({type(error).__name__}: {error}). Check address and network, or download the file elsewhere and write"
            f" its path into {named.field}.uri{_how(weights)}"
        ) from error


def _how(weights: Weights) -> str:
    return f" ({weights.how_to_get})" if weights.how_to_get else ""
