"""Models of the hub, from a server of this machine: downloads, missing files, wrong digests, interrupted transfers."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import hub_models
import pytest
from conftest import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REGISTRY = """
datasets:
  prose: {kind: texts, path: prose.txt, examples: lines}
checkpoints:
  tiny:
    task: language-modeling
    architecture: {kind: transformers, task: causal-lm}
    weights: {uri: "hf-hub:someone/tiny@main", sha256: null}
    preprocessing: {kind: none, inputs: texts}
"""


class Hub(ThreadingHTTPServer):
    """Server of one repository, with the part of the hub's interface that downloads need.

    Attributes:
        files: contents by name.
        cut: names of files of which half is sent, and then the connection is closed.
        asked: paths of all requests.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {each.name: each.read_bytes() for each in folder.iterdir()}
        self.cut: set[str] = set()
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    """Answers of the hub."""

    server: Hub

    def log_message(self, *unused: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        name = path.rpartition("/")[2]
        if path.startswith("/api/models/someone/tiny"):
            siblings = [{"rfilename": each, "size": len(self.server.files[each])} for each in self.server.files]
            entries = [
                {"type": "file", "path": each, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for each, content in self.server.files.items()
            ]
            found = entries if "/tree/" in path else {"id": "someone/tiny", "sha": COMMIT, "siblings": siblings}
            self.send(json.dumps(found).encode(), "application/json", with_body=with_body)
        elif path.startswith("/someone/tiny/resolve/") and name in self.server.files:
            self.send(self.server.files[name], "application/octet-stream", with_body=with_body, name=name)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound" if path.startswith("/someone/tiny") else "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def send(self, content: bytes, kind: str, *, with_body: bool, name: str = "") -> None:
        start = 0
        if with_body and (asked := self.headers.get("Range", "")).startswith("bytes="):
            start = int(asked.removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_body:
            is_cut = name in self.server.cut
            self.wfile.write(content[start : start + len(content) // 2] if is_cut else content[start:])
            self.close_connection = is_cut or self.close_connection


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    (tmp_path / "prose.txt").write_text("We the People of the United States\nin Order to form a more perfect Union\n")
    (tmp_path / "registry.yaml").write_text(REGISTRY)
    server = Hub(hub_models.save(tmp_path / "tiny", hub_models.gpt2()))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def measure(folder: Path, hub: Hub, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = "run --suite texts-swap --dataset prose --registry registry.yaml --model tiny --json"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": str(folder / "cache"),
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "robench", *command.split(), "--workers", "1", *options],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_downloaded_once_and_measured_as_its_folder(tmp_path: Path, hub: Hub) -> None:
    hub.files["pytorch_model.bin"] = b"a pickle"
    first = measure(tmp_path, hub)
    assert first.returncode == 0, first.stderr
    downloads = [path for path in hub.asked if path.endswith("model.safetensors")]
    assert downloads
    assert not any(path.endswith((".bin", "generation_config.json")) for path in hub.asked)
    again = measure(tmp_path, hub, HF_HUB_OFFLINE="1")
    assert again.returncode == 0, again.stderr
    (tmp_path / "registry.yaml").write_text(REGISTRY.replace('"hf-hub:someone/tiny@main"', "tiny"))
    local = measure(tmp_path, hub)
    values = [json.loads(each.stdout)["rows"] for each in (first, again, local)]
    assert values[0] == values[1] == values[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda hub: hub.files.pop("model.safetensors"), "has no weights: expected *.safetensors"),
        (lambda hub: hub.files.pop("config.json"), "has no config.json"),
        (lambda hub: hub.files.clear(), "does not exist; put the files of save_pretrained there"),
    ],
)
def test_missing_files_are_named(tmp_path: Path, hub: Hub, change: object, message: str) -> None:
    change(hub)  # type: ignore[operator]  # a function of the hub
    found = measure(tmp_path, hub)
    assert found.returncode == 4
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_an_unknown_repository_and_a_hub_that_cannot_be_reached(tmp_path: Path, hub: Hub) -> None:
    (tmp_path / "registry.yaml").write_text(REGISTRY.replace("someone/tiny", "nobody/none"))
    for variables in ({}, {"HF_ENDPOINT": "http://127.0.0.1:9"}):
        found = measure(tmp_path, hub, **variables)
        assert found.returncode == 4
        assert "could not be downloaded from hf-hub:nobody/none@main" in found.stderr
        assert "Traceback" not in found.stderr


def test_a_rehearsal_downloads_no_weights(tmp_path: Path, hub: Hub) -> None:
    found = measure(tmp_path, hub, "--random-weights")
    assert found.returncode == 0, found.stderr
    assert [row["model"] for row in json.loads(found.stdout)["rows"]] == ["tiny+random-weights"]
    assert any(path.endswith("config.json") for path in hub.asked)
    assert not any(path.endswith(".safetensors") for path in hub.asked)


def test_another_digest_than_the_registrys(tmp_path: Path, hub: Hub) -> None:
    (tmp_path / "registry.yaml").write_text(REGISTRY.replace("sha256: null", "sha256: '" + "0" * 64 + "'"))
    found = measure(tmp_path, hub)
    assert found.returncode == 4
    assert "the registry wants 0000" in found.stderr


def test_an_interrupted_transfer_is_an_error_and_the_next_run_completes_it(tmp_path: Path, hub: Hub) -> None:
    hub.cut.add("model.safetensors")
    cut = measure(tmp_path, hub)
    assert cut.returncode == 4
    assert "could not be downloaded" in cut.stderr
    assert "Traceback" not in cut.stderr
    hub.cut.clear()
    assert measure(tmp_path, hub).returncode == 0
