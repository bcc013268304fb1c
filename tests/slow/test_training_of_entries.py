"""Every entry of DeiT's recipe learns."""

from pathlib import Path

import test_training_deit


class TestEveryEntry:
    def test_each_learns(self, tmp_path: Path) -> None:
        test_training_deit.TestEveryEntry().check_learning(tmp_path, test_training_deit.ENTRIES)
