"""Adversarial examples on disk: exact, deterministic, immutable, and believed only where every bit is as written."""

import errno
import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from presence import present
from safetensors import safe_open

from examples import HEADER, NEXT_HEADER
from robench.core.errors import StoreError
from robench.store import AdversarialExamples, AdversarialFolder, FolderStore
from robench.store import sealed as seal_module
from robench.store.adversarial import ONE_BUDGET, decode_examples, encode_examples
from robench.store.paths import Paths
from robench.store.sealed import DamagedError, NewerFormatError

SMALL = np.float32(1e-40)


def examples_of(dtype: Any = np.float32, **changes: Any) -> AdversarialExamples:
    points = np.random.default_rng(0).random((20, 3, 2, 2)).astype(dtype)
    points.flat[:3] = [0, 1, SMALL]
    examples = AdversarialExamples(
        shard=HEADER, ids=tuple(f"digits-{row:05d}" for row in range(20)), points={ONE_BUDGET: points}, found={}
    )
    return replace(examples, **changes)


SWEEP = examples_of(points={name: np.full((20, 1, 2, 2), row, np.float16) for row, name in enumerate(["2/85", "1/5"])})
SEARCH = examples_of(found={ONE_BUDGET: np.arange(20) % 3 == 0})
KINDS = {"float32": examples_of(), "float16": examples_of(np.float16), "sweep": SWEEP, "search": SEARCH}


def same(first: AdversarialExamples, second: AdversarialExamples) -> bool:
    assert (first.shard, first.ids) == (second.shard, second.ids)
    for mine, other in ((first.points, second.points), (first.found, second.found)):
        assert list(mine) == list(other)
        assert all(mine[name].dtype == other[name].dtype for name in mine)
        assert all(mine[name].tobytes() == other[name].tobytes() for name in mine)
        assert all(mine[name].shape == other[name].shape for name in mine)
    return True


@pytest.fixture
def folder(tmp_path: Path) -> AdversarialFolder:
    return FolderStore(tmp_path / "results").adversarial


def file_of(folder: AdversarialFolder, examples: AdversarialExamples) -> Path:
    return Paths(folder.results).adversarial_examples(examples.shard.measurement_key, examples.shard.key)


def got(folder: AdversarialFolder, examples: AdversarialExamples) -> AdversarialExamples | None:
    return folder.get(examples.shard.measurement_key, examples.shard.key)


class TestFile:
    @pytest.mark.parametrize("examples", KINDS.values(), ids=KINDS)
    def test_what_is_read_is_what_was_written_to_the_last_bit(self, examples: AdversarialExamples) -> None:
        assert same(decode_examples(encode_examples(examples)), examples)

    def test_budgets_come_back_in_their_order_and_not_by_name(self) -> None:
        assert list(decode_examples(encode_examples(SWEEP)).points) == ["2/85", "1/5"]

    def test_the_layout_of_an_array_in_memory_changes_no_byte(self) -> None:
        turned = examples_of(points={ONE_BUDGET: np.asfortranarray(examples_of().points[ONE_BUDGET])})
        assert encode_examples(turned) == encode_examples(examples_of())

    @pytest.mark.slow
    def test_equal_examples_give_equal_bytes_in_every_process(self) -> None:
        code = (
            "import hashlib; from test_store_adversarial import SEARCH, encode_examples;"
            " print(hashlib.sha256(encode_examples(SEARCH)).hexdigest())"
        )
        path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path])
        said = {
            subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            ).stdout
            for seed in ("1", "2")
        }
        assert len(said) == 1

    def test_any_tool_for_safetensors_can_open_it(self, tmp_path: Path) -> None:
        (tmp_path / "a.safetensors").write_bytes(encode_examples(SWEEP))
        with safe_open(tmp_path / "a.safetensors", framework="np") as opened:
            assert sorted(opened.keys()) == ["1/5", "2/85"]
            assert opened.get_tensor("1/5").dtype == np.float16
            assert json.loads(opened.metadata()["robench"])["ids"] == list(SWEEP.ids)

    def test_ids_may_be_any_text(self) -> None:
        ids = ('"format":1,"sha256":"', "\ud800", "a\nb", "ü")
        examples = examples_of(ids=ids, points={ONE_BUDGET: np.zeros((4, 1), np.float32)})
        assert decode_examples(encode_examples(examples)).ids == ids

    def test_no_flipped_bit_goes_unnoticed(self) -> None:
        examples = replace(SEARCH, points={ONE_BUDGET: SEARCH.points[ONE_BUDGET][:, :1]})
        content = encode_examples(examples)
        for position in range(len(content)):
            flipped = bytearray(content)
            flipped[position] ^= 1 << position % 8
            try:
                decoded = decode_examples(bytes(flipped))
            except (DamagedError, NewerFormatError):
                continue
            # What pads the library's own header says nothing.
            assert same(decoded, examples)

    @pytest.mark.parametrize(
        "content", [b"", b"<html>404 Not Found</html>", encode_examples(SEARCH)[:-1], encode_examples(SEARCH) * 2]
    )
    def test_what_is_no_such_file_is_damaged(self, content: bytes) -> None:
        with pytest.raises(DamagedError):
            decode_examples(content)

    def test_a_stranger_s_tensors_are_not_taken_for_examples(self) -> None:
        from safetensors.numpy import save

        for metadata in (None, {"format": "pt"}):
            with pytest.raises(DamagedError, match="no entry of robench"):
                decode_examples(save({ONE_BUDGET: np.zeros(3, np.float32)}, metadata))

    @pytest.mark.parametrize(
        "change",
        [np.zeros_like, lambda array: array.reshape(20, 3, 4), lambda array: array.view(np.int32)],
        ids=["values", "shape", "dtype"],
    )
    def test_other_tensors_under_the_same_seal_are_damaged(self, change: Any) -> None:
        from safetensors.numpy import save

        content = encode_examples(examples_of())
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        with pytest.raises(DamagedError, match="its tensors changed after"):
            decode_examples(save({ONE_BUDGET: change(examples_of().points[ONE_BUDGET])}, header["__metadata__"]))


class TestFolder:
    def test_a_shard_has_examples_in_its_own_place_alone(self, folder: AdversarialFolder) -> None:
        examples = examples_of()
        shard = examples.shard
        assert not folder.has(shard.measurement_key, shard.key)
        folder.put(examples)
        assert folder.has(shard.measurement_key, shard.key)
        assert not folder.has(shard.key, shard.measurement_key)
        kept = present(got(folder, examples))
        assert same(kept, examples)
        assert folder.get(shard.measurement_key, NEXT_HEADER.key) is None

    def test_keys_are_those_of_whole_files(self, folder: AdversarialFolder) -> None:
        assert folder.keys() == set()
        folder.put(SEARCH)
        folder.put(replace(SEARCH, shard=NEXT_HEADER))
        file_of(folder, SEARCH).with_name(f".{'0' * 32}.safetensors.1-ff.part").touch()
        assert folder.keys() == {HEADER.key, NEXT_HEADER.key}

    def test_they_are_no_records_and_records_are_none_of_them(self, folder: AdversarialFolder) -> None:
        folder.put(SEARCH)
        store = FolderStore(folder.results)
        assert store.keys() == set()
        assert list(store.failures()) == []

    def test_the_same_again_is_silent_and_writes_nothing(
        self, folder: AdversarialFolder, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder.put(SEARCH)
        before = file_of(folder, SEARCH).stat().st_mtime_ns
        folder.put(SEARCH)
        assert file_of(folder, SEARCH).stat().st_mtime_ns == before
        assert caplog.text == ""

    def test_the_first_writer_wins_and_other_bytes_are_warned_of(
        self, folder: AdversarialFolder, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder.put(examples_of())
        with caplog.at_level(logging.WARNING):
            folder.put(examples_of(points={ONE_BUDGET: examples_of().points[ONE_BUDGET] + 1}))
        assert "not reproducible; the first examples stay" in caplog.text
        kept = present(got(folder, examples_of()))
        assert same(kept, examples_of())

    def test_a_damaged_file_is_set_aside_and_its_place_is_free_again(
        self, folder: AdversarialFolder, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder.put(SEARCH)
        path = file_of(folder, SEARCH)
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        with caplog.at_level(logging.WARNING):
            assert got(folder, SEARCH) is None
        assert "set aside" in caplog.text
        assert folder.keys() == set()
        assert [each.name for each in (folder.results / "damaged").iterdir()] == [f"{path.name}-1"]
        folder.put(SEARCH)
        assert got(folder, SEARCH) is not None
        path.write_bytes(b"")
        folder.put(SEARCH)
        assert got(folder, SEARCH) is not None

    def test_a_file_in_another_shard_s_place_is_damaged(self, folder: AdversarialFolder) -> None:
        folder.put(SEARCH)
        file_of(folder, SEARCH).rename(file_of(folder, replace(SEARCH, shard=NEXT_HEADER)))
        assert folder.get(NEXT_HEADER.measurement_key, NEXT_HEADER.key) is None

    def test_a_later_format_is_named_and_left_alone(
        self, folder: AdversarialFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(seal_module, "FORMAT_VERSION", seal_module.LATEST_FORMAT + 1)
        folder.put(SEARCH)
        monkeypatch.undo()
        with pytest.raises(StoreError, match=r"newer robench.*Update robench"):
            got(folder, SEARCH)
        assert file_of(folder, SEARCH).exists()

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
    def test_a_disk_that_refuses_is_said_and_nothing_is_left(
        self, folder: AdversarialFolder, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        def refusing(*arguments: Any) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", refusing)
        with pytest.raises(StoreError, match=os.strerror(number)):
            folder.put(SEARCH)
        assert [path for path in folder.results.rglob("*") if path.is_file()] == []

    def test_what_a_killed_writer_left_is_swept(self, folder: AdversarialFolder) -> None:
        folder.put(SEARCH)
        part = file_of(folder, SEARCH).with_name(f".{SEARCH.shard.key}.safetensors.1-ff.part")
        part.touch()
        os.utime(part, (0, 0))
        FolderStore(folder.results).check_writable()
        assert not part.exists()
        assert got(folder, SEARCH) is not None

    @pytest.mark.parametrize("keys", [("../a", "b"), ("a", "../b"), ("a", ".b")])
    def test_no_key_leads_out_of_the_folder(self, folder: AdversarialFolder, keys: tuple[str, str]) -> None:
        with pytest.raises(StoreError, match="cannot name a file"):
            folder.get(*keys)
