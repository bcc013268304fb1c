"""Plug-ins of others, installed or named by ``kind: python``, from ``robench run`` to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_plugins import BY_KIND, BY_TARGET, check_run

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Robench
    from plugin_examples import Installer


@pytest.mark.parametrize(("words", "owner"), [(BY_KIND, "their-plugins"), (BY_TARGET, "")], ids=["kind", "target"])
def test_they_run_like_robenchs_own(
    install: Installer, robench: Robench, tmp_path: Path, words: dict[str, str], owner: str
) -> None:
    check_run(install, robench, tmp_path, words, owner)
