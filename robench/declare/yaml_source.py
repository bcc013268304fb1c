"""Strict reader of YAML: plain values of a file, and the line of each.

Scalars follow YAML 1.2's core schema (https://yaml.org/spec/1.2.2/#103-core-schema), in which ``no`` and ``12:30:45``
are text. It differs where readers of YAML disagree: ``010``, ``0x10`` and ``0o10`` are refused, being 8, 10 or 16, and
so are inf and nan; a key given twice is a problem that names both lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from robench.core.errors import UsageError
from robench.core.files import open_regular
from robench.declare.document import Document
from robench.declare.problems import Place, Problem, declaration_error
from robench.declare.values import UNREADABLE, Unreadable, Value, looks_like_number, number_of, show
from robench.declare.yaml_nodes import MAX_BYTES, Remarks, UnreadableTextError, compose

if TYPE_CHECKING:
    from pathlib import Path

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


def document_from_yaml(content: bytes, source: str) -> Document:
    """Return the values of YAML in UTF-8, and the problems of single ones.

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
        source=source,
        value=value,
        text=text,
        lines=reader.lines,
        spans=reader.spans,
        problems=tuple(reader.problems),
    )


def plain_scalar(text: str) -> Value:
    """Return the value of unquoted text.

    >>> plain_scalar("no"), plain_scalar("true"), plain_scalar("12:30:45"), plain_scalar("0.03")
    ('no', True, '12:30:45', Number(text='0.03'))
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
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
        return self.refuse(place, _why_unreadable(text))

    def refuse(self, place: Place, message: str) -> Unreadable:
        self.problems.append(Problem(place=place, line=self.lines.get(place, 1), message=message))
        return UNREADABLE


def _why_unreadable(text: str) -> str:
    if _DISPUTED.fullmatch(text):
        return f"must be a decimal number without leading zeros, or text in quotes, got {text:.60}"
    return f"must be a finite number of reasonable size, or text in quotes, got {text:.60}"


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
