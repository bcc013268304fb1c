"""Plug-ins of others that suites and registries name by ``kind: python``, from ``robench run`` to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from test_plugins import BY_TARGET, check_run

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Robench
    from plugin_examples import Installer


def test_they_run_like_robenchs_own(install: Installer, robench: Robench, tmp_path: Path) -> None:
    check_run(install, robench, tmp_path, BY_TARGET, "")
