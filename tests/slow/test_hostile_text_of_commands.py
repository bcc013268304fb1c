"""Texts that strangers write reach no terminal: all commands, and all that read a registry."""

from pathlib import Path

import pytest
from conftest import Robench
from test_hostile_text import ARGUMENTS, IN_ARGUMENT, LONG, check_command, check_registry, folder, registry

__all__ = ["folder", "registry"]


@pytest.mark.parametrize("text", [IN_ARGUMENT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("name", ["nonsense", *ARGUMENTS])
def test_what_stands_on_the_command_line(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    check_command(robench, tmp_path, name, text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "models"),
        ("show", "mine"),
        ("validate",),
        ("doctor",),
        ("run", "--suite", "digits-adv", "--model", "mine"),
        ("audit", "--model", "mine"),
        ("train", "mine"),
        ("timm",),
    ],
    ids=" ".join,
)
def test_a_registry(robench: Robench, registry: Path, arguments: tuple[str, ...]) -> None:
    check_registry(robench, registry, *arguments)
