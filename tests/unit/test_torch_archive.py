"""Archives of torch.save: tensors as torch reads them, and what other archives are refused for."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import torch

from robench.core.errors import WeightsError
from robench.models.inert_pickle import PickleProblem, SavedStorage, SavedTensor
from robench.models.torch_archive import DTYPES, opened_archive

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

TENSORS = {
    **{str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in DTYPES.values()},
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "part": torch.arange(20.0).reshape(4, 5)[1:3, 2:],
    "scalar": torch.tensor(3.5),
    "empty": torch.empty(0, 3),
    "axes": torch.arange(24.0).reshape(1, 2, 3, 4),
}


def rewritten(source: Path, path: Path, changes: dict[str, bytes | None], **written: Any) -> Path:
    """Copy an archive with other contents of entries; None leaves one out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", **written) as new:
        contents = {entry.filename.partition("/")[2]: old.read(entry) for entry in old.infolist()}
        for name, content in (contents | changes).items():
            if content is not None:
                new.writestr(name.removeprefix("/") if name.startswith("/") else f"archive/{name}", content)
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved.pt"
    torch.save(TENSORS, path)
    return path


def read(path: Path) -> dict[str, Tensor]:
    with opened_archive(path) as archive:
        return {name: archive.tensor(each) for name, each in archive.content.items()}


def problem(path: Path) -> str:
    """The message about a file: one line with its name, that says that nothing was run."""
    with pytest.raises(WeightsError) as error:
        read(path)
    (message,) = error.value.lines
    assert message.startswith(str(path))
    assert "\n" not in message
    assert error.value.exit_code == 4
    return message


def test_tensors_are_those_of_torch(saved: Path) -> None:
    found = read(saved)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)


def test_tensors_of_one_storage_share_memory(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    torch.save({"whole": whole, "half": whole[3:]}, tmp_path / "x.pt")
    found = read(tmp_path / "x.pt")
    assert found["half"].untyped_storage().data_ptr() == found["whole"].untyped_storage().data_ptr()


def test_parameters_are_tensors(tmp_path: Path) -> None:
    torch.save({"a": torch.nn.Parameter(torch.ones(2))}, tmp_path / "x.pt")
    assert type(read(tmp_path / "x.pt")["a"]) is torch.Tensor


class TestOtherFiles:
    def test_an_absent_file(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"cannot be read .No such file or directory."):
            read(tmp_path / "absent.pt")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"cannot be read .Is a directory."):
            read(tmp_path)

    @pytest.mark.parametrize(
        ("content", "found"),
        [
            (b"", "is empty, wanted a file of torch.save"),
            (b"<!doctype html>", "is a web page"),
            (b"PK\x03\x04", "is a truncated or damaged file of torch.save"),
            (b"PK\x05\x06" + bytes(18), "is no file of torch.save: it begins with b'PK"),
            (b"model", "is no file of torch.save: it begins with b'mode'"),
            (b"\x80\x04N.", "is in the form that torch.save had before release 1.6"),
        ],
    )
    def test_another_content(self, tmp_path: Path, content: bytes, found: str) -> None:
        (tmp_path / "x.pt").write_bytes(content)
        with pytest.raises(WeightsError, match=found):
            read(tmp_path / "x.pt")

    def test_the_older_form_is_refused_with_advice(self, tmp_path: Path) -> None:
        torch.save(TENSORS, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
        assert "Load and save it again with a newer torch, where you trust it" in problem(tmp_path / "x.pt")

    @pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9, 0.999])
    def test_a_truncated_file(self, saved: Path, share: float) -> None:
        content = saved.read_bytes()
        saved.write_bytes(content[: int(share * len(content))])
        assert "is a truncated or damaged file of torch.save" in problem(saved)

    def test_any_damaged_byte_gives_tensors_or_one_line(self, saved: Path, tmp_path: Path) -> None:
        content = saved.read_bytes()
        path = tmp_path / "damaged.pt"
        for place in range(0, len(content), 97):
            path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
            try:
                read(path)
            except WeightsError as error:
                message = str(error)
            else:
                message = str(path)
            assert message.startswith(str(path))
            assert "\n" not in message


class TestArchives:
    def copy(self, saved: Path, changes: dict[str, bytes | None], **written: Any) -> Path:
        return rewritten(saved, saved.parent / "changed.pt", changes, **written)

    def test_an_unchanged_copy_is_read(self, saved: Path) -> None:
        assert read(self.copy(saved, {})).keys() == TENSORS.keys()

    def test_an_archive_of_an_older_torch_has_no_order_of_bytes(self, saved: Path) -> None:
        others: dict[str, bytes | None] = dict.fromkeys(("byteorder", ".data/serialization_id", "version"))
        assert read(self.copy(saved, others)).keys() == TENSORS.keys()

    @pytest.mark.parametrize(
        ("changes", "found"),
        [
            ({"data.pkl": None}, "its part data.pkl is missing"),
            ({"data/0": None}, "its part data/0 is missing"),
            ({"data/0": b"abc"}, "storage 0 has 3 bytes, wanted 48"),
            ({"data/0": bytes(1000)}, "its part data/0 has 1,000 bytes, wanted at most 48"),
            ({"byteorder": b"big"}, "another order of bytes than little-endian"),
            ({"byteorder": bytes(100)}, "its part byteorder has 100 bytes, wanted at most 16"),
            ({"data.pkl": bytes((16 << 20) + 1)}, "its part data.pkl has 16,777,217 bytes"),
            ({"../../evil": b""}, "entries with paths such as .."),
            ({"/../evil": b""}, "entries of several folders"),
            ({"/etc/evil": b""}, "entries of several folders"),
            ({"folder/": b""}, "entries with paths such as .."),
        ],
    )
    def test_contents_that_torch_does_not_write(self, saved: Path, changes: dict[str, Any], found: str) -> None:
        message = problem(self.copy(saved, changes))
        assert "cannot be read as torch.save(model): " in message
        assert found in message

    def test_paths_of_entries_are_nowhere_written_to(self, saved: Path) -> None:
        before = sorted(saved.parent.parent.rglob("*"))
        path = self.copy(saved, {"../../evil": b"x", "../../../evil": b"x"})
        problem(path)
        assert sorted(saved.parent.parent.rglob("*")) == sorted([*before, path])

    def test_compressed_entries_are_refused_before_they_are_unpacked(self, saved: Path) -> None:
        path = self.copy(saved, {"data/0": bytes(1 << 20)}, compression=zipfile.ZIP_DEFLATED)
        assert "it has compressed entries" in problem(path)

    def test_two_entries_of_one_name_are_refused(self, saved: Path) -> None:
        with warnings.catch_warnings(), zipfile.ZipFile(saved, "a") as archive:
            warnings.simplefilter("ignore")
            archive.writestr("saved/data/0", bytes(48))
        assert "several of one name" in problem(saved)

    def test_entries_that_share_bytes_are_refused(self, saved: Path) -> None:
        # Each entry of the directory claims the bytes of the first.
        with zipfile.ZipFile(saved) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        content = saved.read_bytes()
        entry = re.search(rb"PK\x01\x02.{16}(....)(....)", content, re.DOTALL)
        assert entry is not None
        claimed = size.to_bytes(4, "little") * 2
        saved.write_bytes(content[: entry.start(1)] + claimed + content[entry.end(2) :])
        assert "larger than the" in problem(saved) or "damaged" in problem(saved)


def storage(**fields: Any) -> SavedStorage:
    return SavedStorage(**{"kind": "DoubleStorage", "key": "0", "count": 6} | fields)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"size": (2, 4)}, "a tensor of shape (2, 4) does not fit its storage of 6 numbers"),
        ({"offset": 1}, "does not fit its storage of 6 numbers"),
        ({"stride": (4, 1)}, "does not fit its storage of 6 numbers"),
        ({"size": (1 << 40,), "stride": (0,)}, "does not fit its storage of 6 numbers"),
        ({"size": (1 << 59, 1 << 59), "stride": (0, 0)}, "does not fit its storage of 6 numbers"),
        ({"stride": (1,)}, "a tensor has 2 sizes and 1 strides"),
        ({"offset": -1}, "are not tuples of numbers of at least 0"),
        ({"size": (-1, -6)}, "are not tuples of numbers of at least 0"),
        ({"stride": (-3, 1)}, "are not tuples of numbers of at least 0"),
        ({"size": [2, 3]}, "are not tuples of numbers of at least 0"),
        ({"size": (2.0, 3)}, "are not tuples of numbers of at least 0"),
        ({"size": (True, 3)}, "are not tuples of numbers of at least 0"),
        ({"size": (1 << 80,), "stride": (0,)}, "are not tuples of numbers of at least 0"),
        ({"size": (1,) * 17, "stride": (1,) * 17}, "are not tuples of numbers of at least 0"),
        ({"storage": storage(count=7)}, "storage 0 has 48 bytes, wanted 56"),
        ({"storage": storage(count=5)}, "its part data/0 has 48 bytes, wanted at most 40"),
        ({"storage": storage(count=1 << 62)}, "storage 0 has 48 bytes, wanted 36,893,488,147,419,103,232"),
        ({"storage": storage(key="../0")}, "numbers have the key '../0', wanted digits"),
        ({"storage": storage(key="99")}, "its part data/99 is missing"),
        ({"storage": storage(kind="QUInt8Storage")}, "its numbers are a 'QUInt8Storage', wanted one of DoubleStorage"),
    ],
    ids=str,
)
def test_what_a_tensor_says_of_itself_is_not_believed(saved: Path, fields: dict[str, Any], found: str) -> None:
    tensor = SavedTensor(**{"storage": storage(), "offset": 0, "size": (2, 3), "stride": (3, 1)} | fields)
    with pytest.raises(WeightsError) as error, opened_archive(saved) as archive:
        archive.tensor(tensor)
    assert found in str(error.value)


def test_a_storage_is_of_one_size_and_type(saved: Path) -> None:
    with opened_archive(saved) as archive:
        archive.tensor(SavedTensor(storage(), 0, (6,), (1,)))
        with pytest.raises(PickleProblem, match="storage 0 is referred to in two sizes or types"):
            archive.tensor(SavedTensor(storage(kind="LongStorage"), 0, (6,), (1,)))


def test_an_encrypted_entry_is_an_error_of_one_line(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    # The flag of encryption, in the header and in the directory of every entry.
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(mark), bytes(content)):
            content[found.start() + place] |= 1
    saved.write_bytes(content)
    assert "is a truncated or damaged file of torch.save" in problem(saved)


def test_a_buffer_is_no_file_of_a_suffix(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(TENSORS, buffer)
    (tmp_path / "weights.safetensors").write_bytes(buffer.getvalue())
    assert read(tmp_path / "weights.safetensors").keys() == TENSORS.keys()
