"""Places of a module that a mutant can change, and the text after the change.

A mutant changes one expression or statement. Only its text is replaced, so that all other lines keep their numbers.
Annotations, docstrings, imports and blocks under ``TYPE_CHECKING`` are left alone, since they compute nothing.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
OPERATORS = ("comparison", "arithmetic", "constant", "removal", "arguments", "condition")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of one place of a file.

    Attributes:
        file: path of the module below the project's root.
        function: qualified name of the function or class that holds the place; empty at the top of the module.
        first_line: first line of that function, counting decorators; 0 at the top of the module.
        operator: one of ``OPERATORS``.
        number: how many equal changes of the same function come before it.
        line: its first line.
        before: text that is replaced.
        after: text that replaces it.
        start: byte at which ``before`` begins.
    """

    file: str
    function: str
    first_line: int
    operator: str
    number: int
    line: int
    before: str
    after: str
    start: int

    @property
    def name(self) -> str:
        """What identifies the change, whatever else of the file changes."""
        return f"{self.file}::{self.function}::{self.operator}::{self.before} -> {self.after}::{self.number}"

    def applied(self, source: str) -> str:
        """Return the source of the module with the change."""
        content, before = source.encode(), self.before.encode()
        assert content[self.start : self.start + len(before)] == before, f"{self.file} is not what was read"
        return (content[: self.start] + self.after.encode() + content[self.start + len(before) :]).decode()


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Return all mutants of a module; a few may not compile."""
    content = source.encode()
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    counts: dict[tuple[str, ...], int] = {}
    for node, (function, first_line) in computing(ast.parse(source), ("", 0)):
        for operator, target, changed in changes(node):
            start = starts[target.lineno - 1] + target.col_offset
            before = content[start : starts[target.end_lineno - 1] + target.end_col_offset].decode()
            # Parentheses keep the precedence of what is replaced.
            after = ast.unparse(ast.fix_missing_locations(changed))
            after = f"({after})" if isinstance(changed, ast.expr) and not isinstance(changed, ast.Constant) else after
            place = (function, operator, before, after)
            counts[place] = counts.get(place, -1) + 1
            mutant = Mutant(
                file=file, function=function, first_line=first_line, operator=operator, number=counts[place],
                line=target.lineno, before=before, after=after, start=start,
            )  # fmt: skip
            found.append(mutant)
    return found


def compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def computing(node: ast.AST, holder: tuple[str, int]) -> Iterator[tuple[Any, tuple[str, int]]]:
    """Yield expressions and statements that compute something, each with the name and line of what holds it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
        holder = (f"{holder[0]}.{node.name}".lstrip("."), min(lines))
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr) or is_text(child) or is_for_types(child):
                continue
            if isinstance(child, ast.expr | ast.stmt | ast.comprehension):
                yield child, holder
            if isinstance(child, ast.AST):
                yield from computing(child, holder)


def is_text(node: Any) -> bool:
    """Return whether a node is a docstring or another text that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_for_types(node: Any) -> bool:
    """Return whether a node is a block that only type checkers read."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def changes(node: ast.AST) -> Iterator[tuple[str, Any, Any]]:
    """Yield the operators that apply to a node, each with what it replaces and by what."""
    yield from changes_of_values(node)
    yield from changes_of_flow(node)


def changes_of_values(node: ast.AST) -> Iterator[tuple[str, Any, Any]]:
    match node:
        case ast.Compare(ops=[only]) if type(only) in COMPARISONS:
            yield "comparison", node, replaced(node, ops=[COMPARISONS[type(only)]()])
        case ast.BinOp(op=op) if type(op) in ARITHMETIC and not is_text_sum(node):
            yield "arithmetic", node, replaced(node, op=ARITHMETIC[type(op)]())
        case ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            yield "arithmetic", node, replaced(node, op=ARITHMETIC[type(op)]())
        case ast.Constant(value=bool(value)):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant", node, ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield "constant", node, ast.Constant(2 * value if value else 1.0)
        case ast.Call(args=[first, second, *rest]) if is_swapped(node):
            yield "arguments", node, replaced(node, args=[second, first, *rest])


def changes_of_flow(node: ast.AST) -> Iterator[tuple[str, Any, Any]]:
    match node:
        case ast.Expr() | ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign():
            yield "removal", node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removal", node, ast.Pass()
        case ast.BoolOp(op=op):
            yield "condition", node, replaced(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            is_negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
            yield "condition", test, test.operand if is_negated else ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=[test, *_]):
            yield "condition", test, ast.UnaryOp(ast.Not(), test)


def is_swapped(node: ast.Call) -> bool:
    """Return whether the first two arguments of a call can change places, and that changes something."""
    is_starred = any(isinstance(each, ast.Starred) for each in node.args)
    return not is_starred and ast.dump(node.args[0]) != ast.dump(node.args[1])


def is_text_sum(node: ast.BinOp) -> bool:
    """Return whether a sum or a remainder is one of texts."""
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in (node.left, node.right))


def replaced(node: Any, **fields: Any) -> Any:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
