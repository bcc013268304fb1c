"""A file appears whole or not at all; what is no regular file is not opened."""

import os
import socket
from pathlib import Path

import pytest

from robench.core.files import NotRegularError, TooLargeError, open_regular, read_regular, replacing, write_whole


def test_writes_into_new_folders_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.bin"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("stage", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    path = tmp_path / "file.bin"
    write_whole(path, b"old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, stage, fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.bin"]


class TestRegular:
    """What is read is a regular file; nothing is waited for."""

    def test_a_file_and_a_link_to_one_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"content")
        (tmp_path / "link").symlink_to("file")
        for name in ("file", "link"):
            assert read_regular(tmp_path / name, 7) == b"content"
            with open_regular(tmp_path / name) as file:
                assert file.read() == b"content"

    def test_a_pipe_a_device_and_a_socket_are_told_by_their_kind(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "zeros").symlink_to("/dev/zero")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "socket"))
            for name, kind in {"pipe": "a named pipe", "zeros": "a device", "socket": "a socket"}.items():
                with pytest.raises(NotRegularError, match=f"it is {kind}, not a regular file"):
                    open_regular(tmp_path / name)

    def test_a_pipe_that_takes_a_file_s_place_meanwhile_is_not_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "file").touch()
        status = (tmp_path / "file").stat()
        before = len(list(Path("/proc/self/fd").iterdir()))
        monkeypatch.setattr(Path, "stat", lambda path: status)
        with pytest.raises(NotRegularError, match="a named pipe"):
            open_regular(tmp_path / "pipe")
        assert len(list(Path("/proc/self/fd").iterdir())) == before

    @pytest.mark.parametrize(
        ("name", "error"),
        [("absent", FileNotFoundError), (".", IsADirectoryError), ("a\0b", OSError), ("x" * 5000, OSError)],
    )
    def test_all_else_that_is_wrong_is_an_os_error(self, tmp_path: Path, name: str, error: type[OSError]) -> None:
        with pytest.raises(error) as caught:
            open_regular(tmp_path / name)
        assert caught.value.strerror

    def test_a_file_that_is_too_large_is_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "sparse"
        path.touch()
        os.truncate(path, 40 << 30)
        with pytest.raises(TooLargeError, match="it has 42,949,672,960 bytes, at most 1,000 are read"):
            read_regular(path, 1000)
        os.truncate(path, 1001)
        with pytest.raises(TooLargeError, match="1,001 bytes"):
            read_regular(path, 1000)


class TestReplacing:
    """Files written piece by piece under another name take their place at the end, or not at all."""

    def test_the_file_appears_at_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "table.csv"
        with replacing(path) as beside:
            beside.write_text("one\n")
            assert (beside.parent, beside.name[:11]) == (path.parent, ".table.csv.")
            assert not path.exists()
        assert path.read_text() == "one\n"
        assert list(path.parent.iterdir()) == [path]

    def test_an_error_leaves_the_old_file_and_nothing_else(self, tmp_path: Path) -> None:
        path = tmp_path / "table.csv"
        path.write_text("old")

        def interrupted() -> None:
            with replacing(path) as beside:
                beside.write_text("half")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
