"""Every entry of DeiT's recipe learns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import test_training_deit

if TYPE_CHECKING:
    from pathlib import Path


class TestEveryEntry:
    def test_each_learns(self, tmp_path: Path) -> None:
        test_training_deit.TestEveryEntry().check_learning(tmp_path, test_training_deit.ENTRIES)
