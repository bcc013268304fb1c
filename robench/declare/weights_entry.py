"""Fields in files that name weights: location, checksum and layout, each checked where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from robench.core.checkpoint import PLAIN_LAYOUT, Weights
from robench.core.errors import did_you_mean
from robench.declare.scalars import Checked
from robench.declare.values import show
from robench.models.layouts import LAYOUTS


def digest_problem(digest: object) -> str | None:
    """Return why a text is no SHA-256, or the beginning of one; None if it is."""
    if re.fullmatch(r"[0-9a-f]{8,64}", str(digest)):
        return None
    return f"must be 8 to 64 hexadecimal digits in lower case, or null where nobody published one, got {show(digest)}"


def uri_problem(uri: object) -> str | None:
    """Return why a text is no location of weights; None if it is."""
    scheme, colon, rest = str(uri).partition(":")
    is_path = bool(uri) and "://" not in str(uri) and not (colon and scheme == "hf-hub")
    is_hub = scheme == "hf-hub" and rest.count("/") >= 2 and all(rest.split("/"))
    if not str(uri).isprintable():
        return f"must have no control characters, got {show(uri)}"
    if is_path or is_hub:
        return None
    return f"must be a path (relative to this file, or absolute) or hf-hub:owner/repository/file, got {show(uri)}"


def _layout_problem(layout: object) -> str | None:
    return None if layout in LAYOUTS else f"unknown layout {show(layout)}.{did_you_mean(str(layout), LAYOUTS)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsEntry:
    """Entry of weights in a file: the digest may be null but must be given.

    Attributes:
        uri: path, relative to the registry file or absolute, or ``hf-hub:owner/repository/file``.
        sha256: 8 to 64 hexadecimal digits; null where nobody published one, in which case any file is accepted.
        how_to_get: one sentence for the error message if the file is missing.
        layout: layout of the file, that is, position and names of its tensors.
    """

    uri: Annotated[str, Checked(uri_problem)]
    sha256: Annotated[str, Checked(digest_problem)] | None
    how_to_get: str = ""
    layout: Annotated[str, Checked(_layout_problem)] = PLAIN_LAYOUT

    @property
    def declared(self) -> Weights:
        """Return the weights that the entry names."""
        return Weights(uri=self.uri, sha256=self.sha256, how_to_get=self.how_to_get, layout=self.layout)
