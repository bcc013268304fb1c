"""Downloads from a server of this machine: resumed, checked, and never repeated."""

import errno
import hashlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cifar_files import Published, publish
from conftest import Robench

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import downloading, open_dataset
from robench.datasets.cifar import PublishedFile
from robench.datasets.downloading import download
from robench.datasets.preparing import prepare_arrays

CONTENT = os.urandom(100_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


@dataclass
class Server:
    """A server of one file.

    Attributes:
        cuts: after how many bytes each of the next connections ends.
        requests: headers of all requests.
    """

    port: int = 0
    content: bytes = CONTENT
    has_ranges: bool = True
    status: int = 200
    cuts: list[int] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)

    @property
    def file(self) -> PublishedFile:
        return PublishedFile(url=f"http://127.0.0.1:{self.port}/x.tar.gz", md5=MD5, num_bytes=len(CONTENT))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(downloading, "RETRY_SECONDS", 0)
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, state)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.port = http.server_address[1]
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def answer(handler: BaseHTTPRequestHandler, server: Server) -> None:
    server.requests.append(dict(handler.headers))
    start = int(handler.headers.get("Range", "bytes=0-")[6:-1]) if server.has_ranges else 0
    handler.send_response(206 if start else server.status)
    handler.send_header("Content-Length", str(len(server.content) - start))
    handler.end_headers()
    stop = start + server.cuts.pop(0) if server.cuts else None
    handler.wfile.write(server.content[start:stop])


def fetched(server: Server, folder: Path) -> bytes:
    seen: list[tuple[int, ...]] = []
    path = download(
        server.file, folder, otherwise="give it with --archive FILE", on_progress=lambda *at: seen.append(at)
    )
    assert path == folder / "x.tar.gz"
    assert [each.name for each in folder.iterdir()] == ["x.tar.gz"]
    assert not seen or seen[-1] == (len(CONTENT), len(CONTENT))
    return path.read_bytes()


def test_a_finished_download_is_not_fetched_again_unless_it_was_damaged_since(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert fetched(server, tmp_path) == fetched(server, tmp_path) == CONTENT
    assert len(server.requests) == 1
    (tmp_path / "x.tar.gz").write_bytes(CONTENT[:-1] + b"x")
    with caplog.at_level(logging.WARNING):
        assert fetched(server, tmp_path) == CONTENT
    assert "x.tar.gz has a wrong MD5 and is removed" in caplog.text


def test_a_cut_connection_is_resumed_by_range(server: Server, tmp_path: Path) -> None:
    server.cuts = [30_000, 20_000]
    assert fetched(server, tmp_path) == CONTENT
    assert [each.get("Range") for each in server.requests] == [None, "bytes=30000-", "bytes=50000-"]


def test_an_interrupted_download_is_resumed_by_the_next_call(server: Server, tmp_path: Path) -> None:
    server.cuts = [10_000] * downloading.NUM_ATTEMPTS
    with pytest.raises(MissingDataError, match=r"cut 5 times and has 50,000 of 100,000 bytes\. Run the same command a"):
        fetched(server, tmp_path)
    assert not (tmp_path / "x.tar.gz").exists()
    assert fetched(server, tmp_path) == CONTENT
    assert server.requests[-1]["Range"] == "bytes=50000-"


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz.part").write_bytes(b"x" * 40_000)
    server.has_ranges = False
    assert fetched(server, tmp_path) == CONTENT
    assert len(server.requests) == 1


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"x", b"x" * len(CONTENT)], ids=["whole", "longer", "other"])
def test_a_complete_part_is_used_if_it_is_right(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "x.tar.gz.part").write_bytes(part)
    if part != CONTENT:
        with pytest.raises(MissingDataError, match="It was removed; run the same command again"):
            fetched(server, tmp_path)
        assert list(tmp_path.iterdir()) == []
    assert fetched(server, tmp_path) == CONTENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"content": CONTENT[:-1]}, "has 99,999 bytes, wanted 100,000: it is not the published file"),
        ({"status": 404}, "the server answers 404 Not Found. Run the same command again later"),
        ({"port": 9}, "Connection refused. Run the same command again .* the network reaches it, or give it with"),
    ],
)
def test_what_cannot_be_had_says_what_to_do(server: Server, tmp_path: Path, change: Any, message: str) -> None:
    vars(server).update(change)
    with pytest.raises(MissingDataError, match=message):
        fetched(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_says_how_much_is_needed_and_keeps_what_is_there(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(UsageError, match=r"no space for .*x.tar.gz.part: 100,000 bytes are needed in"):
            fetched(server, tmp_path)
    assert not (tmp_path / "x.tar.gz").exists()
    assert fetched(server, tmp_path) == CONTENT


def test_a_dataset_is_prepared_from_its_download_which_is_kept(server: Server, tmp_path: Path) -> None:
    cifar = publish(tmp_path, url=f"http://127.0.0.1:{server.port}")
    content = cifar.forms["python archive"].read_bytes()
    server.content = content[:-1] + b"x"
    with pytest.raises(MissingDataError, match="is not the published file: its MD5 is"):
        prepared(cifar, tmp_path / "data")
    assert not (tmp_path / "data" / "cifar-10").exists()
    server.content = content
    assert prepared(cifar, tmp_path / "data") == 4
    dataset: Any = open_dataset(cifar.declared, data_root=tmp_path / "data", preprocessing=None)
    assert dataset.identity.fingerprint == cifar.declared.known_fingerprint
    (tmp_path / "data" / "cifar-10" / "test-images.npy").unlink()
    num_requests = len(server.requests)
    assert prepared(cifar, tmp_path / "data") == 4
    assert len(server.requests) == num_requests


def test_the_command_shows_progress_and_downloads_once(
    server: Server, tmp_path: Path, robench: Robench, monkeypatch: pytest.MonkeyPatch
) -> None:
    cifar = publish(tmp_path, url=f"http://127.0.0.1:{server.port}")
    server.content = cifar.forms["python archive"].read_bytes()
    monkeypatch.setattr("robench.datasets.preparing.DATASETS", {"cifar-10": cifar.declared})
    first = robench("data", "prepare", "cifar-10", "--data-root", tmp_path / "data")
    assert first.stdout == f"{tmp_path / 'data' / 'cifar-10'}: 4 files written, 0 existed already.\n"
    assert "downloading cifar-10: 1 of 1 MB" in first.stderr
    again = robench("data", "prepare", "cifar-10", "--data-root", tmp_path / "data")
    assert (again.stdout.count("4 existed already"), "downloading" in again.stderr) == (1, False)
    assert len(server.requests) == 1


def prepared(cifar: Published, root: Path) -> int:
    """Return the number of files written."""
    return prepare_arrays(cifar.declared, root, archive=None, on_progress=lambda done, total: None).num_written
