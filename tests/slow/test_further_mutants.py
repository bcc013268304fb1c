"""Thousands of mutants of suites and registry entries: each is accepted or refused in words."""

from pathlib import Path

from mutants import check_refusal, mutant

from robench.core.errors import RobenchError
from robench.declare import validate_file


def test_each_is_accepted_or_refused_in_words(tmp_path: Path) -> None:
    num_accepted = 0
    for number in range(500, 4000):
        path = tmp_path / f"{number}.yaml"
        path.write_bytes(mutant(number)[1])
        try:
            validate_file(path)
            num_accepted += 1
        except RobenchError as error:
            check_refusal(path, error)
    assert 100 < num_accepted < 1750
