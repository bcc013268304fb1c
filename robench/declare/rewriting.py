"""Updates of registry files after training: digests and scores, in place, with all other bytes unchanged."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from robench.core.errors import UnknownNameError
from robench.core.files import write_whole
from robench.declare.registry import registry_of
from robench.declare.yaml_source import document_from_yaml, plain_scalar, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from robench.declare.document import Document
    from robench.declare.problems import Place

WRITTEN_LAYOUT = "plain"


def set_weights(path: Path, name: str, sha256: str, expected: Mapping[str, float], *, uri: str | None = None) -> None:
    """Write digest, scores and, if given, ``uri`` of a checkpoint's weights into its entry of a registry file.

    Only these scalars change; comments, order and layout stay. ``expected`` contains proportions in [0, 1] by metric;
    metrics missing in the entry are not added. A ``layout`` in the entry becomes ``plain``, which robench writes.

    Raises:
        UsageError: there is no such file.
        UnknownNameError: the file declares no such checkpoint.
        DeclarationError: the file is invalid, or would be with these values; it is unchanged.
        OSError: it could not be written; it is unchanged.
    """
    document = read_yaml(path)
    folder = path.absolute().parent
    declared = registry_of(document, folder).checkpoints
    if name not in declared:
        raise UnknownNameError("checkpoint", name, declared, f"It was looked for in {path}.")
    entry: Place = ("checkpoints", name)
    edits: dict[Place, str] = {(*entry, "weights", "sha256"): _scalar(sha256)}
    if uri is not None:
        edits[(*entry, "weights", "uri")] = _scalar(uri)
    if document.at(*entry, "weights", "layout") is not None:
        edits[(*entry, "weights", "layout")] = WRITTEN_LAYOUT
    for metric, share in expected.items():
        if metric in declared[name].expected:
            edits[(*entry, "expected", metric)] = repr(float(share))
    content = _edited(document, edits).encode()
    registry_of(document_from_yaml(content, f"{path} with the new values"), folder)
    write_whole(path, content)


def _edited(document: Document, edits: Mapping[Place, str]) -> str:
    text = document.text
    by_start = sorted(((document.spans[place], new) for place, new in edits.items()), reverse=True)
    for (start, end), new in by_start:
        # An empty value directly follows its colon.
        text = f"{text[:start]}{' ' if start == end else ''}{new}{text[end:]}"
    return text


def _scalar(text: str) -> str:
    # A digest may look like a number: 12345678, 1234e567; a path may hold what YAML reads as its own.
    is_plain = plain_scalar(text) == text and re.fullmatch(r"[\w./-]+", text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)
