"""Plug-ins of others, installed or named by ``kind: python``, from ``robench run`` to the table."""

from pathlib import Path

import pytest
from conftest import Robench
from plugin_examples import Installer
from test_plugins import BY_KIND, BY_TARGET, check_run


@pytest.mark.parametrize(("words", "owner"), [(BY_KIND, "their-plugins"), (BY_TARGET, "")], ids=["kind", "target"])
def test_they_run_like_robenchs_own(
    install: Installer, robench: Robench, tmp_path: Path, words: dict[str, str], owner: str
) -> None:
    check_run(install, robench, tmp_path, words, owner)
