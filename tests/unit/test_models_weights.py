"""Finding the weights of a checkpoint, and refusing bytes that the registry does not mean."""

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest

from examples import CHECKPOINT
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, WeightsError
from robench.declare import find_checkpoints
from robench.models.loading import digest, resolve

CONTENT = b"not really weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
HOW = "python fetch.py downloads it"


def checkpoint(
    folder: Path, uri: str = "weights/a.safetensors", sha256: str | None = None, how: str = HOW
) -> Checkpoint:
    return replace(CHECKPOINT, name="vit-a", weights=Weights(uri=uri, sha256=sha256, how_to_get=how), folder=folder)


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    path = tmp_path / "weights" / "a.safetensors"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


class TestLocate:
    def test_an_absolute_uri_stands_for_itself(self, tmp_path: Path, placed: Path) -> None:
        assert resolve(checkpoint(tmp_path / "elsewhere", uri=str(placed)))[0] == placed

    def test_a_folder_of_checkpoints(self, tmp_path: Path, placed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROBENCH_CHECKPOINTS", str(placed.parent))
        absent = checkpoint(tmp_path / "site", uri="checkpoints/a.safetensors", sha256=SHA256)
        assert resolve(absent) == (placed, SHA256)
        monkeypatch.setenv("ROBENCH_CHECKPOINTS", str(tmp_path))
        assert resolve(checkpoint(tmp_path))[0] == placed
        with pytest.raises(WeightsError, match=r"put the file at .*site/checkpoints/a\.safetensors"):
            resolve(absent)

    def test_missing_weights_are_reported_with_the_exact_path_and_how_to_get_them(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError) as caught:
            resolve(checkpoint(tmp_path))
        message = str(caught.value)
        assert "the weights of vit-a are missing" in message
        assert f"put the file at {tmp_path / 'weights' / 'a.safetensors'}" in message
        assert HOW in message
        assert caught.value.exit_code == 4

    def test_the_command_that_trains_them_is_named_where_there_is_a_recipe(self, tmp_path: Path) -> None:
        trainable = replace(find_checkpoints(["digits-vit"])[0], folder=tmp_path)
        with pytest.raises(WeightsError, match=r"or train them with 'robench train digits-vit'$"):
            resolve(trainable)
        own = replace(trainable, registry=tmp_path / "my models.yaml")
        command = rf"'robench train digits-vit --registry '{tmp_path}/my models\.yaml''$"
        with pytest.raises(WeightsError, match=command):
            resolve(own)
        with pytest.raises(WeightsError, match=r"are missing") as caught:
            resolve(replace(trainable, training=None))
        assert "robench train digits-vit'" not in str(caught.value)

    def test_a_folder_is_no_file_of_weights(self, tmp_path: Path) -> None:
        (tmp_path / "weights").mkdir()
        with pytest.raises(WeightsError, match="cannot be read"):
            resolve(checkpoint(tmp_path, uri="weights"))

    @pytest.mark.parametrize("kind", ["pipe", "device", "null"])
    def test_what_is_no_regular_file_is_not_waited_for(self, tmp_path: Path, kind: str) -> None:
        if kind == "pipe":
            os.mkfifo(tmp_path / "pipe")
        uri = {"pipe": "pipe", "device": "/dev/zero", "null": "a\0b"}[kind]
        reason = {"pipe": "it is a named pipe", "device": "it is a device", "null": "it is not a valid file name"}[kind]
        for read in (lambda: resolve(checkpoint(tmp_path, uri=uri)), lambda: digest(tmp_path / uri)):
            with pytest.raises(WeightsError, match=rf"cannot be read \({reason}"):
                read()


class TestLocateOnTheHub:
    def test_its_repository_has_the_file(self, tmp_path: Path, placed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []

        def download(repository: str, file: str) -> str:
            asked.append((repository, file))
            return str(placed)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        assert resolve(checkpoint(tmp_path, uri="hf-hub:owner/repository/deep/file.safetensors"))[0] == placed
        assert asked == [("owner/repository", "deep/file.safetensors")]

    @pytest.mark.parametrize("address", ["", "owner", "owner/repository", "owner/repository/", "/repository/file"])
    def test_an_address_without_owner_repository_and_file_is_refused(self, tmp_path: Path, address: str) -> None:
        with pytest.raises(DeclarationError, match=r"must be hf-hub:owner/repository/file, got 'hf-hub:"):
            resolve(checkpoint(tmp_path, uri=f"hf-hub:{address}"))

    def test_without_network_the_message_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def unreachable(repository: str, file: str) -> str:
            raise ConnectionError("name resolution failed")

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
        with pytest.raises(WeightsError) as caught:
            resolve(checkpoint(tmp_path, uri="hf-hub:owner/repository/file"))
        assert "hf-hub:owner/repository/file (ConnectionError: name resolution failed)" in str(caught.value)
        assert "write its path into weights.uri" in str(caught.value)
        assert isinstance(caught.value.__cause__, ConnectionError)

    def test_without_the_library_it_says_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(WeightsError, match=r"pip install .*\[hub\]"):
            resolve(checkpoint(tmp_path, uri="hf-hub:owner/repository/file"))


class TestDigest:
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"gone cannot be read \(No such file"):
            digest(tmp_path / "gone")


class TestResolve:
    @pytest.mark.parametrize("sha256", [SHA256, SHA256.upper(), SHA256[:8], SHA256[:40], None])
    def test_what_agrees_comes_back_as_path_and_digest(self, tmp_path: Path, placed: Path, sha256: str | None) -> None:
        assert resolve(checkpoint(tmp_path, sha256=sha256)) == (placed, SHA256)

    @pytest.mark.parametrize("sha256", ["0" * 64, "0" * 8, SHA256[1:9], SHA256[::-1]])
    def test_another_digest_is_refused_with_what_to_do(self, tmp_path: Path, placed: Path, sha256: str) -> None:
        with pytest.raises(WeightsError) as caught:
            resolve(checkpoint(tmp_path, sha256=sha256))
        message = str(caught.value)
        assert SHA256 in message
        assert f"wants {sha256}" in message
        assert str(placed) in message
        assert message.endswith(f"change weights.sha256 in the registry. How to get them: {HOW}")
        assert "change weights.sha256" in message

    @pytest.mark.parametrize("sha256", ["", SHA256[:7], SHA256 + "0", "g" * 64, "sha256:" + SHA256])
    def test_a_digest_not_written_as_one_never_agrees(self, tmp_path: Path, placed: Path, sha256: str) -> None:
        with pytest.raises(DeclarationError, match="must be 64 hexadecimal digits or the first 8 or more"):
            resolve(checkpoint(tmp_path, sha256=sha256))

    def test_a_web_page_in_place_of_the_weights_is_called_one(self, tmp_path: Path, placed: Path) -> None:
        placed.write_bytes(b"\n<!DOCTYPE html><html><title>Sign in</title></html>")
        with pytest.raises(WeightsError, match="The file is a web page"):
            resolve(checkpoint(tmp_path, sha256=SHA256))
