"""Mistakes of authors, and what they are told: each file of tests/golden/declare beside its message."""

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from robench.attacks.pgd import Pgd
from robench.attention import ATTENTIONS
from robench.core.errors import DeclarationError
from robench.declare import validate_file
from robench.metrics import METRICS
from robench.perturbations import PERTURBATIONS

GOLDEN = Path(__file__).parents[1] / "golden" / "declare"
# Every new mechanism, attack, metric or field would change these lists.
LISTS: dict[str, Iterable[str]] = {
    "ALL ATTENTIONS": ATTENTIONS,
    "ALL PERTURBATIONS": PERTURBATIONS,
    "ALL METRICS": METRICS,
    "ALL MINIMUM-NORM ATTACKS": [kind for kind, each in PERTURBATIONS.loaded() if each.is_minimum_norm],
    "ALL FIELDS OF PGD": ["kind", *(field.name for field in dataclasses.fields(Pgd))],
}
MISTAKES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))


def message_of(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    # From within the folder, so that the message names the file alone.
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(DeclarationError) as caught:
        validate_file(Path(f"{name}.yaml"))
    return str(caught.value)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = (GOLDEN / f"{name}.txt").read_text().rstrip("\n")
    for kinds, known in LISTS.items():
        golden = golden.replace(kinds, ", ".join(sorted(known)))
    assert message_of(name, monkeypatch) == golden


@pytest.mark.parametrize("name", MISTAKES)
def test_every_problem_has_a_line_of_the_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    num_lines = len((GOLDEN / f"{name}.yaml").read_bytes().splitlines())
    header, *problems = message_of(name, monkeypatch).splitlines()
    assert header == f"{name}.yaml: {len(problems)} problem{'s' * (len(problems) > 1)}"
    lines = [int(line[1]) for problem in problems if (line := re.match(r"  line (\d+): ", problem))]
    assert len(lines) == len(problems)
    assert lines == sorted(lines)
    assert all(1 <= line <= max(num_lines, 1) for line in lines)


def test_every_message_has_its_mistake() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == MISTAKES
    assert len(MISTAKES) >= 40
