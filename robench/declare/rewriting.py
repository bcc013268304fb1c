"""Updates of registry files after training: digests and scores, in place, with all other bytes unchanged."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from robench.core.checkpoint import PLAIN_LAYOUT, Checkpoint, Trainer
from robench.core.errors import UnknownNameError
from robench.core.files import write_whole
from robench.declare.document import Document, Place
from robench.declare.registry import registry_of
from robench.declare.yaml_source import document_from_yaml, plain_scalar, read_yaml

_TRAINER: Trainer = "robench"


def set_weights(path: Path, name: str, sha256: str, expected: Mapping[str, float], *, uri: str | None = None) -> None:
    """Write digest, scores and, if given, ``uri`` of a checkpoint's weights into its entry of a registry file.

    Only these values change; comments, order and layout stay. ``expected`` contains proportions in [0, 1] by metric;
    metrics missing in the entry are added if it states none, in a line below its last one unless that is in braces. A
    ``layout`` in the entry becomes ``plain``, which robench writes, and a ``by`` becomes ``robench``.

    Raises:
        UsageError: there is no such file.
        UnknownNameError: the file declares no such checkpoint.
        DeclarationError: the file is invalid, or would be with these values; it is unchanged.
        OSError: it could not be written; it is unchanged.
    """
    document, checkpoint = _declared(path, name)
    entry, weights = _entry(document, checkpoint)
    edits: dict[Place, str] = {(*weights, "sha256"): _scalar(sha256)}
    if uri is not None:
        edits[(*weights, "uri")] = _scalar(uri)
    of_robench = {
        "layout": PLAIN_LAYOUT,
        "key": '""',
        "prefix": '""',
        "by": _TRAINER,
        "source": _scalar(f"robench train {name}"),
    }
    edits |= {(*weights, each): text for each, text in of_robench.items() if document.at(*weights, each) is not None}
    if not checkpoint.expected and document.at(*entry, "expected") is not None:
        edits[(*entry, "expected")] = f"{{{_scores(expected)}}}"
    for metric, score in expected.items():
        if metric in checkpoint.expected:
            edits[(*entry, "expected", metric)] = repr(float(score))
    text = _edited(document, edits)
    if expected and checkpoint.seed_of is None and document.at(*entry, "expected") is None:
        text = _with_line(document_from_yaml(text.encode(), str(path)), name, f"expected: {{{_scores(expected)}}}")
    _write(path, text, "the new values")


def add_seed(path: Path, name: str, seed: int, uri: str, sha256: str, expected: Mapping[str, float]) -> None:
    """Add a further training seed with its weights to a checkpoint's entry of a registry file.

    One line is added, below the entry's last one or below its last seed; all others stay as they are.

    Raises:
        UsageError: there is no such file.
        UnknownNameError: the file declares no such checkpoint.
        DeclarationError: the file is invalid, or would be with the seed; it is unchanged.
        OSError: it could not be written; it is unchanged.
    """
    document, checkpoint = _declared(path, name)
    by = "" if checkpoint.weights.by in (_TRAINER, "user") else f", by: {_TRAINER}"
    item = f"{{seed: {seed}, uri: {_scalar(uri)}, expected: {{{_scores(expected)}}}", f"sha256: {_scalar(sha256)}{by}}}"
    _write(path, _with_seed(document, name, item), f"seed {seed} of {name}")


def _declared(path: Path, name: str) -> tuple[Document, Checkpoint]:
    document = read_yaml(path)
    declared = registry_of(document, path.absolute().parent).checkpoints
    if name not in declared:
        raise UnknownNameError("checkpoint", name, declared, f"It was looked for in {path}.")
    return document, declared[name]


def _write(path: Path, text: str, news: str) -> None:
    """Write a registry file after it was read as one."""
    content = text.encode()
    registry_of(document_from_yaml(content, f"{path} with {news}"), path.absolute().parent)
    write_whole(path, content)


def _with_seed(document: Document, name: str, item: tuple[str, str]) -> str:
    entry: Place = ("checkpoints", name)
    has_seeds = document.at(*entry, "seeds") is not None
    indent = _indent(document, name)
    heading = "" if has_seeds else f"\n{indent}seeds:"
    end = _end(document, (*entry, "seeds") if has_seeds else entry)
    return f"{document.text[:end]}{heading}\n{indent}  - {f',{chr(10)}{indent}     '.join(item)}{document.text[end:]}"


def _with_line(document: Document, name: str, line: str) -> str:
    """Return the text with a line below the last one of an entry, unless the entry is in braces."""
    indent, end = _indent(document, name), _end(document, ("checkpoints", name))
    number = document.lines["checkpoints", name, "weights"]
    if not document.text.split("\n")[number - 1].startswith(f"{indent}weights:"):
        return document.text
    return f"{document.text[:end]}\n{indent}{line}{document.text[end:]}"


def _end(document: Document, part: Place) -> int:
    """Return the end of the last line of a part: in braces, the closing one and a comment may follow its values."""
    last = max(end for place, (_, end) in document.spans.items() if place[: len(part)] == part)
    end = document.text.find("\n", last)
    return len(document.text) if end < 0 else end


def _indent(document: Document, name: str) -> str:
    line = document.lines["checkpoints", name, "weights"]
    margin = re.match(" *", document.text.split("\n")[line - 1])
    return margin[0] if margin else ""


def _entry(document: Document, checkpoint: Checkpoint) -> tuple[Place, Place]:
    """Return the places of an entry, or one of its seeds, and of its weights."""
    if checkpoint.seed_of is None:
        entry: Place = ("checkpoints", checkpoint.name)
        return entry, (*entry, "weights")
    place: Place = ("checkpoints", checkpoint.seed_of, "seeds")
    uris = [document.at(*place, index, "uri") for index, _ in enumerate(document.list_at(*place))]
    seed: Place = (*place, uris.index(checkpoint.weights.uri))
    return seed, seed


def _edited(document: Document, edits: Mapping[Place, str]) -> str:
    text = document.text
    by_start = sorted(((document.spans[place], new) for place, new in edits.items()), reverse=True)
    for (start, end), new in by_start:
        # An empty value directly follows its colon.
        text = f"{text[:start]}{' ' if start == end else ''}{new}{text[end:]}"
    return text


def _scores(expected: Mapping[str, float]) -> str:
    return ", ".join(f"{metric}: {float(score)!r}" for metric, score in expected.items())


def _scalar(text: str) -> str:
    # A digest may look like a number: 12345678, 1234e567; a path may hold what YAML reads as its own.
    is_plain = plain_scalar(text) == text and re.fullmatch(r"[\w./-]+", text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)
