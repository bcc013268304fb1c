"""Strict reader of YAML: plain values of a file with the line of each, under limits.

Scalars follow YAML 1.2's core schema (https://yaml.org/spec/1.2.2/#103-core-schema), in which ``no`` and ``12:30:45``
are text. It differs where readers of YAML disagree: ``010``, ``0x10`` and ``0o10`` are refused, being 8, 10 or 16, and
so are inf and nan; a key given twice is a problem that names both lines. Harmful content of untrusted files is
refused: aliases can represent 10^8 values in 300 bytes, tags for code. Nesting is bounded, since composing recurses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from robench.core.errors import UsageError
from robench.core.files import open_regular
from robench.declare.document import (
    MAX_DEPTH,
    UNREADABLE,
    Document,
    Place,
    Problem,
    Unreadable,
    Value,
    declaration_error,
    looks_like_number,
    number_of,
    show,
)

MAX_BYTES = 1 << 20
# Keys are included. The shipped registry has 43,000, which PyYAML reads in half a second.
MAX_NODES = 200_000
_NodeEvent = yaml.AliasEvent | yaml.ScalarEvent | yaml.CollectionStartEvent
_CONSTANTS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_DISPUTED = re.compile(r"[-+]?0[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FIRST_OF_NUMBERS = frozenset("+-.0123456789")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_yaml(path: Path) -> Document:
    """Return a YAML file's values and their places.

    Raises:
        UsageError: there is no such file, or it cannot be opened.
        DeclarationError: it is not UTF-8, not YAML, or beyond the limits; the message has line and column.
    """
    try:
        with open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; a YAML file was wanted") from None
    except FileNotFoundError:
        raise UsageError(f"no such file: {path}; a YAML file was wanted") from None
    except OSError as error:
        raise UsageError(f"cannot open {path}: {error.strerror or error}; a YAML file was wanted") from None
    return document_from_yaml(content, str(path))


@lru_cache(maxsize=64)
def document_from_yaml(content: bytes, source: str) -> Document:
    """Return the values of YAML in UTF-8, and the problems of single ones.

    The documents of the last contents are kept, since a command reads the shipped registry more than once; do not
    change them.

    Raises:
        DeclarationError: it is not UTF-8, not YAML, or beyond the limits; the message has line and column.
    """
    try:
        text, root, remarks = compose(content)
    except UnreadableTextError as error:
        problem = Problem(place=(), line=error.line, message=f"column {error.column}: {error}")
        raise declaration_error(source, [problem]) from None
    reader = _Reader(remarks)
    value = reader.read(root, (), root.start_mark.line + 1) if root else reader.refuse((), "the file is empty")
    return Document(
        source=source, value=value, text=text, lines=reader.lines, spans=reader.spans, problems=tuple(reader.problems)
    )


def plain_scalar(text: str) -> Value:
    """Return the value of unquoted text.

    >>> plain_scalar("no"), plain_scalar("true"), plain_scalar("12:30:45"), plain_scalar("0.03")
    ('no', True, '12:30:45', Number(text='0.03'))
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _FIRST_OF_NUMBERS:
        return text
    if _DISPUTED.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return UNREADABLE
    if looks_like_number(text):
        number = number_of(text)
        return UNREADABLE if number is None else number
    return text


class _Reader:
    def __init__(self, remarks: Remarks) -> None:
        self.remarks = remarks
        self.lines: dict[Place, int] = {}
        self.spans: dict[Place, tuple[int, int]] = {}
        self.problems: list[Problem] = []

    def read(self, node: yaml.Node, place: Place, line: int) -> Value:
        self.lines[place] = line
        if wrong := self.remarks.others.get(id(node)):
            self.refuse(place, wrong)
        if wrong := self.remarks.fatal.get(id(node)):
            return self.refuse(place, wrong)
        if not node.value or isinstance(node, yaml.ScalarNode):
            self.spans[place] = (node.start_mark.index, node.end_mark.index)
        match node:
            case yaml.MappingNode():
                return self._read_mapping(node, place)
            case yaml.SequenceNode():
                items = enumerate(node.value)
                return [self.read(item, (*place, index), item.start_mark.line + 1) for index, item in items]
        return self._read_scalar(node, place)

    def _read_mapping(self, node: yaml.MappingNode, place: Place) -> Value:
        mapping: dict[str, Value] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._read_key(key_node, place)
            if key is None:
                continue
            if key in mapping:
                first = self.lines[(*place, key)]
                message = f"the key {show(key)} is given twice, on line {first} and on line {line}; keep one"
                self.problems.append(Problem(place=(*place, key), line=line, message=message))
                continue
            mapping[key] = self.read(value_node, (*place, key), line)
        return mapping

    def _read_key(self, node: yaml.Node, place: Place) -> str | None:
        wrong = self.remarks.fatal.get(id(node)) or self.remarks.others.get(id(node))
        if not wrong and isinstance(node, yaml.ScalarNode) and _is_whole(node.value):
            return str(node.value)
        message = wrong or "keys must be text"
        self.problems.append(Problem(place=place, line=node.start_mark.line + 1, message=message))
        return None

    def _read_scalar(self, node: yaml.Node, place: Place) -> Value:
        text = str(node.value)
        if not _is_whole(text):
            return self.refuse(place, "must be text that UTF-8 can hold, got half of a surrogate pair")
        if getattr(node, "style", None) is not None:
            return text
        value = plain_scalar(text)
        if value is not UNREADABLE:
            return value
        is_disputed = _DISPUTED.fullmatch(text)
        wanted = "decimal number without leading zeros" if is_disputed else "finite number of reasonable size"
        return self.refuse(place, f"must be a {wanted}, or text in quotes, got {text:.60}")

    def refuse(self, place: Place, message: str) -> Unreadable:
        self.problems.append(Problem(place=place, line=self.lines.get(place, 1), message=message))
        return UNREADABLE


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


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


@lru_cache(maxsize=128)
def compose(content: bytes) -> tuple[str, yaml.Node | None, Remarks]:
    """Return YAML in UTF-8 as text, its top node (None if it is empty), and the problems of single nodes.

    The nodes of the last contents are kept, since composing the shipped registry takes a second; do not change them.

    Raises:
        UnreadableTextError: it is not UTF-8, not YAML, more than one document, or beyond the limits.
    """
    if len(content) > MAX_BYTES:
        raise UnreadableTextError(f"a file must be at most {MAX_BYTES} bytes long", 1, 1)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot be read as UTF-8 (byte 0x{content[error.start]:02x})"
        raise UnreadableTextError(message, *_position(content[: error.start].decode("utf-8"))) from None
    if (fast := _composed_fast(text)) is not None:
        return text, *fast
    try:
        loader = _StrictLoader(text)
    except yaml.reader.ReaderError as error:
        message = f"cannot be read as YAML: it excludes the character U+{error.character:04X}"
        raise UnreadableTextError(message, *_position(text[: error.position])) from None
    return text, _compose_whole(loader), loader.remarks


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


# A byte order mark, and breaks of lines that the two parsers count differently.
_OTHERWISE_COUNTED = ("\ufeff", "\x85", "\u2028", "\u2029")


def _composed_fast(text: str) -> tuple[yaml.Node | None, Remarks] | None:
    """Return the top node by the parser of libyaml, which takes a third of the time; None if it finds any problem.

    The other parser then finds the problem and its place.
    """
    if not yaml.__with_libyaml__ or any(each in text for each in _OTHERWISE_COUNTED):
        return None
    try:
        loader = _FastLoader(text)
        return loader.get_single_node(), loader.remarks
    except (yaml.YAMLError, ValueError, OverflowError):
        return None


# Tag of all nodes: the types of values are decided here, and PyYAML would otherwise match each with its own.
_UNRESOLVED = "unresolved"


class _Strict(yaml.composer.Composer):
    """Composer that notes tags, anchors and aliases, and refuses too deep or too large contents."""

    # Any: methods of the parsers, which are mixed in.
    peek_event: Any
    get_event: Any
    get_mark: Any
    remarks: Remarks
    depth = 0
    num_nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: _NodeEvent = self.peek_event()
        self.num_nodes += 1
        if self.num_nodes > MAX_NODES:
            message = f"holds more than {MAX_NODES:,} keys and values"
            raise yaml.composer.ComposerError(problem=message, problem_mark=self._mark_of(event))
        if isinstance(event, yaml.AliasEvent):
            self.get_event()
            return self._stand_in(event)
        # Taken off, so that nothing acts on them.
        tag, event.tag = event.tag, _UNRESOLVED
        anchor, event.anchor = event.anchor, None
        if isinstance(event, yaml.ScalarEvent):
            # That of plain scalars is empty from libyaml.
            event.style = event.style or None
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
        mark: Any = event.start_mark or self.get_mark()
        return mark  # type: ignore[no-any-return]  # marks of both parsers have lines and columns


class _StrictLoader(_Strict, yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.remarks = Remarks()


class _FastLoader(_Strict, yaml.CSafeLoader):
    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        yaml.composer.Composer.__init__(self)
        self.remarks = Remarks()
