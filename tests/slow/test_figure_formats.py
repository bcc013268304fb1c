"""Each kind of figure in each format: the same bytes twice."""

from pathlib import Path

import pytest
import yaml
from conftest import Robench
from leaderboard_examples import SHIFT, fill, shift_suite

from robench.figures import SUFFIXES
from robench.store import FolderStore


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["budget", "corruptions", "seeds"])
def test_twice_the_same(robench: Robench, tmp_path: Path, kind: str, suffix: str) -> None:
    (tmp_path / "shift.yaml").write_text(yaml.safe_dump(SHIFT))
    store = FolderStore(tmp_path / "results")
    fill(store, shift_suite(), {"digits-vit": 0.5, "digits-vit@1": 0.45, "digits-symvit": 0.6})
    files = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for path in files:
        asked = ("--suite", tmp_path / "shift.yaml", "--results", tmp_path / "results", "--output", path)
        ended = robench("figure", kind, *asked)
        assert (ended.code, ended.stderr) == (0, f"wrote {path}\n")
    assert files[0].read_bytes() == files[1].read_bytes()
