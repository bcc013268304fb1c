"""A run whose reader leaves keeps its results."""

from collections.abc import Callable
from pathlib import Path

from shells import shell

from robench.store import FolderStore


class TestWholeProcesses:
    def test_a_run_whose_reader_left_keeps_its_results(self, tmp_path: Path, small_suite: Callable[..., Path]) -> None:
        suite = small_suite(**{"num_examples: 150": "num_examples: 50"})
        command = f"$R run --suite {suite} --model digits-vit --results {tmp_path}/r --executor serial"
        ended = shell(f"{command} >&$GONE")
        assert ended.returncode == 141
        assert f"the reader of stdout is gone; what was measured is kept in {tmp_path}/r" in ended.stderr
        assert len(FolderStore(tmp_path / "r").keys()) == 3
