"""Parts of a reproduction that train at different times, and their common registry file."""

import hashlib
from pathlib import Path

import pytest

from robench.core.checkpoint import Checkpoint
from robench.core.files import write_whole
from robench.declare import read_registry
from robench.papers import find_published
from robench.papers.selection import chosen_cells
from robench.reproduction.reproduction import Reproduction

COUNT = 3


@pytest.fixture
def reproduction(tmp_path: Path) -> Reproduction:
    """Five models, of each of which two seeds lack weights."""
    tables = find_published(["rpc:1"])
    return Reproduction(tables=tables, cells=chosen_cells(tables, (), ()), results=tmp_path, of_twins=True, num_seeds=7)


def parts_of(reproduction: Reproduction) -> list[list[str]]:
    parts = [reproduction.plan().part(number, COUNT).trainings for number in range(1, COUNT + 1)]
    return [[each.checkpoint.name for each in part] for part in parts]


def keep(reproduction: Reproduction, checkpoint: Checkpoint) -> None:
    content = checkpoint.name.encode()
    reproduction.reproduced.keep(checkpoint, content, hashlib.sha256(content).hexdigest(), b"{}")


def test_parts_stay_the_same_while_trainings_end(reproduction: Reproduction) -> None:
    trainings = reproduction.plan().trainings
    parts = parts_of(reproduction)
    assert sorted(name for part in parts for name in part) == sorted(each.checkpoint.name for each in trainings)
    assert [len(part) for part in parts] == [4, 3, 3]
    # The second seed of a model before its first one, too.
    for ended in (trainings[1].checkpoint, trainings[4].checkpoint):
        keep(reproduction, ended)
        parts = [[name for name in part if name != ended.name] for part in parts]
        assert parts_of(reproduction) == parts


def test_what_another_part_declares_is_not_lost(reproduction: Reproduction, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (each.checkpoint for each in reproduction.plan().trainings[:2])
    write, is_begun = write_whole, False

    def late(path: Path, content: bytes) -> None:
        nonlocal is_begun
        if path == reproduction.reproduced.registry and not is_begun:
            is_begun = True
            keep(reproduction, second)
        write(path, content)

    monkeypatch.setattr("robench.reproduction.weights.write_whole", late)
    keep(reproduction, first)
    assert set(read_registry(reproduction.reproduced.registry)) >= {first.name, second.name}
