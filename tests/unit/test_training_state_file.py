"""The state of an interrupted training: read whole by the same training, and by no other."""

from pathlib import Path

import pytest
import torch

from robench.core.errors import StoreUnwritableError, UsageError
from robench.training.epochs import TrainingState, read_state, state_path, write_state

STATE = TrainingState(
    key="k" * 32,
    num_epochs_done=3,
    parts={"model": {"w": torch.arange(3.0)}, "optimizer": {"state": {0: 1}}, "average": {}},
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state"
    write_state(path, STATE)
    read = read_state(path, STATE.key)
    assert read is not None
    assert read.num_epochs_done == 3
    assert torch.equal(read.parts["model"]["w"], STATE.parts["model"]["w"])
    assert read.parts["optimizer"] == {"state": {0: 1}}
    assert [file.name for file in path.parent.iterdir()] == ["state"]


def test_where_there_is_none_training_begins_anew(tmp_path: Path) -> None:
    assert read_state(tmp_path / "state", STATE.key) is None


def test_the_state_of_another_training_is_not_gone_on_from(tmp_path: Path) -> None:
    write_state(tmp_path / "state", STATE)
    with pytest.raises(UsageError, match="of a training with other fields"):
        read_state(tmp_path / "state", "l" * 32)
    assert (tmp_path / "state").exists()


@pytest.mark.parametrize("content", [b"", b"no state", b"PK\x03\x04 half of one"])
def test_a_file_that_is_no_state_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(UsageError, match=f"^{tmp_path / 'state'} is not the state of a training"):
        read_state(tmp_path / "state", STATE.key)


def test_a_state_is_read_without_running_what_it_holds(tmp_path: Path) -> None:
    torch.save({"key": STATE.key, "num_epochs_done": 1, "parts": {"model": Path}}, tmp_path / "state")
    with pytest.raises(UsageError, match="is not the state of a training"):
        read_state(tmp_path / "state", STATE.key)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritableError, match="cannot write the state of training"):
        write_state(tmp_path / "file" / "state", STATE)


def test_it_lies_beside_the_weights() -> None:
    assert state_path(Path("weights/a.safetensors")) == Path("weights/a.safetensors.training")
