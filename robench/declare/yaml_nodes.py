"""Composition of YAML nodes under limits, refusing whatever could do harm in untrusted files.

Aliases can stand for 10^8 values in 300 bytes, tags for code; nesting is bounded, since composing is recursive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import yaml

from robench.declare.values import MAX_DEPTH

MAX_BYTES = 1 << 20
# Keys are included. The shipped registry has 7,000; PyYAML takes seconds for this many.
MAX_NODES = 50_000
_NodeEvent = yaml.AliasEvent | yaml.ScalarEvent | yaml.CollectionStartEvent


class UnreadableTextError(Exception):
    """Error for text that is not YAML; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Remarks:
    """Problems of single nodes, by their ``id``.

    Attributes:
        fatal: reasons why a node has no value.
        others: problems around a node whose value is used nevertheless.
    """

    fatal: dict[int, str] = field(default_factory=dict)
    others: dict[int, str] = field(default_factory=dict)


@lru_cache(maxsize=8)
def compose(content: bytes) -> tuple[str, yaml.Node | None, Remarks]:
    """Return YAML in UTF-8 as text, its top node (None if it is empty), and the problems of single nodes.

    The nodes of the last contents are kept, since composing the shipped registry takes a second; do not change them.

    Raises:
        UnreadableTextError: it is not UTF-8, not YAML, more than one document, or beyond the limits.
    """
    text = _decode(content)
    try:
        loader = _StrictLoader(text)
    except yaml.reader.ReaderError as error:
        message = f"cannot be read as YAML: it excludes the character U+{error.character:04X}"
        raise UnreadableTextError(message, *_position(text[: error.position])) from None
    return text, _compose_whole(loader), loader.remarks


def _decode(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise UnreadableTextError(f"a file must be at most {MAX_BYTES} bytes long", 1, 1)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot be read as UTF-8 (byte 0x{content[error.start]:02x})"
        raise UnreadableTextError(message, *_position(content[: error.start].decode("utf-8"))) from None


def _position(before: str) -> tuple[int, int]:
    lines = before.split("\n")
    return len(lines), len(lines[-1]) + 1


def _compose_whole(loader: _StrictLoader) -> yaml.Node | None:
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark or loader.get_mark()
        message = ", ".join(part for part in (error.context, error.problem) if part)
    except (ValueError, OverflowError) as error:
        # PyYAML converts escapes such as "\UFFFFFFFF" and the digits of %YAML without checking them.
        mark = loader.get_mark()
        message = str(error)
    raise UnreadableTextError(f"cannot be read as YAML: {message}", mark.line + 1, mark.column + 1)


class _StrictLoader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.remarks = Remarks()
        self.depth = 0
        self.num_nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: _NodeEvent = self.peek_event()  # type: ignore[no-untyped-call]  # so in the stubs
        self.num_nodes += 1
        if self.num_nodes > MAX_NODES:
            message = f"holds more than {MAX_NODES:,} keys and values"
            raise yaml.composer.ComposerError(problem=message, problem_mark=self._mark_of(event))
        if isinstance(event, yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]  # so in the stubs
            return self._stand_in(event)
        # Taken off, so that nothing acts on them.
        tag, event.tag = event.tag, None
        anchor, event.anchor = event.anchor, None
        if isinstance(event, yaml.CollectionStartEvent) and self.depth >= MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise yaml.composer.ComposerError(problem=message, problem_mark=self._mark_of(event))
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if tag is not None:
            self.remarks.fatal[id(node)] = f"tags are not allowed ({tag}); leave it out"
        if anchor is not None:
            self.remarks.others[id(node)] = f"anchors are not allowed (&{anchor}); leave it out"
        return node

    def _stand_in(self, alias: yaml.AliasEvent) -> yaml.Node:
        mark = self._mark_of(alias)
        node = yaml.ScalarNode("", "", start_mark=mark, end_mark=mark)
        self.remarks.fatal[id(node)] = f"aliases are not allowed (*{alias.anchor}); write the value out"
        return node

    def _mark_of(self, event: yaml.Event) -> yaml.Mark:
        return event.start_mark if isinstance(event.start_mark, yaml.Mark) else self.get_mark()
