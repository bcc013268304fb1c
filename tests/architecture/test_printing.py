"""Few modules print, so that no command can forget to make foreign text harmless, or that a stream may refuse."""

import ast
from pathlib import Path

import pytest
from sources import parsed

PACKAGE = Path(__file__).parents[2] / "robench"
PRINTER = PACKAGE / "cli" / "terminal.py"
# Of the functions of ``import robench``.
PROGRESS = PACKAGE / "api" / "progress.py"
# Keeps stdout for that module while a model runs, and prints nothing itself.
DIVERTER = PACKAGE / "core" / "standard_output.py"
FORBIDDEN_CALLS = {"print", "echo", "secho", "pprint", "print_exception", "print_exc", "print_stack", "Console"}
FORBIDDEN_STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__", "get_text_stream", "get_binary_stream"}


def ways_to_print(source: str) -> list[str]:
    """Calls and streams by which a module prints, each with its line."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in FORBIDDEN_CALLS:
                found.append(f"{node.lineno}: {name}()")
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_STREAMS:
            found.append(f"{node.lineno}: {node.attr}")
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.lineno}: {each.name}" for each in node.names if each.name in FORBIDDEN_STREAMS]
    return found


def test_one_module_of_commands_and_one_of_functions_print() -> None:
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in (PRINTER, PROGRESS, DIVERTER)]
    assert {str(path): found for path in modules if (found := ways_to_print(path.read_text()))} == {}


def test_these_modules_do() -> None:
    assert all(ways_to_print(path.read_text()) for path in (PRINTER, PROGRESS))


def test_what_diverts_the_streams_calls_nothing_that_prints() -> None:
    assert [each for each in ways_to_print(DIVERTER.read_text()) if each.endswith("()")] == []


@pytest.mark.parametrize(
    "line",
    [
        "print('a')",
        "click.echo('a')",
        "click.secho('a', err=True)",
        "console.print('a')",
        "sys.stderr.write('a')",
        "traceback.print_exception(error)",
        "Console(stderr=True).print('a')",
        "from sys import stdout",
    ],
)
def test_a_planted_way_to_print_is_found(line: str) -> None:
    assert ways_to_print(line)
