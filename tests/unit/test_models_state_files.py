"""Reading files of weights: by content, whole, and without running anything that they hold."""

import argparse
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import Refusal, check
from safetensors.torch import save, save_file
from torch import Tensor

from robench.core.errors import WeightsError
from robench.models.layouts_impl import MAX_TENSORS
from robench.models.state_files import digest_of, load_state

STATE = {
    "weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    "count": torch.tensor(7),
}


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor] = STATE) -> None:
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def written(path: Path, form: str, state: dict[str, Tensor] = STATE) -> bytes:
    """Write a file in one of the three forms, and return its bytes."""
    if form == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=form == "zip")
    return path.read_bytes()


class Bomb:
    """Unpickling it makes a folder: the proof that code ran."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


class TestDigests:
    def test_equal_tensors_have_one_digest_whatever_the_file(self, tmp_path: Path) -> None:
        save_file(STATE, tmp_path / "a.safetensors")
        torch.save({"model": dict(reversed(STATE.items())), "epoch": 3}, tmp_path / "b.pth")
        torch.save({"state_dict": {f"module.{name}": each for name, each in STATE.items()}}, tmp_path / "c.pth")
        files = {"a.safetensors": "plain", "b.pth": "deit", "c.pth": "timm-ddp"}
        found = {digest_of(load_state(tmp_path / name, layout)) for name, layout in files.items()}
        assert found == {digest_of(STATE)}
        assert len(found.pop()) == 64

    def test_numbers_that_models_read_as_equal_are_equal(self) -> None:
        assert digest_of(STATE) == digest_of(STATE | {"half": STATE["half"].double()})
        assert digest_of(STATE) == digest_of(STATE | {"weight": STATE["weight"].t().contiguous().t()})

    @pytest.mark.parametrize(
        "changes",
        [
            {"weight": STATE["weight"].reshape(4, 3)},
            {"weight": STATE["weight"].nextafter(torch.tensor(9.0))},
            {"count": torch.tensor(8)},
            {"count": torch.tensor(7.0)},
            {"further": torch.zeros(0)},
        ],
        ids=["shape", "number", "count", "kind", "name"],
    )
    def test_other_tensors_have_another(self, changes: dict[str, Tensor]) -> None:
        assert digest_of(STATE | changes) != digest_of(STATE)


class TestFormats:
    @pytest.mark.parametrize("suffix", ["safetensors", "pth", "bin", ""])
    def test_safetensors_are_told_by_content_and_not_by_suffix(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"a.{suffix}"
        save_file(STATE, path)
        assert_same(load_state(path))

    @pytest.mark.parametrize("suffix", ["pth", "safetensors"])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_files_of_torch_save_are_read_in_both_forms(self, tmp_path: Path, suffix: str, zipped: bool) -> None:
        path = tmp_path / f"a.{suffix}"
        torch.save(STATE, path, _use_new_zipfile_serialization=zipped)
        assert_same(load_state(path))

    def test_a_safetensors_header_as_long_as_a_pickles_first_bytes_is_still_safetensors(self, tmp_path: Path) -> None:
        content = save(STATE)
        length = int.from_bytes(content[:8], "little")
        wanted = 0x0480  # little-endian 80 04, as pickles of protocol 4 begin
        header = content[8 : 8 + length].rstrip() + b" " * (wanted - len(content[8 : 8 + length].rstrip()))
        path = tmp_path / "a"
        path.write_bytes(wanted.to_bytes(8, "little") + header + content[8 + length :])
        assert path.read_bytes().startswith(b"\x80\x04")
        assert_same(load_state(path))

    def test_parameters_come_back_as_tensors_that_need_no_gradient(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        torch.save({"weight": torch.nn.Parameter(torch.ones(2))}, path)
        assert not load_state(path)["weight"].requires_grad


class TestCodeIsNeverRun:
    @pytest.mark.parametrize("suffix", ["pth", "safetensors"])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_a_pickle_with_code_is_refused_and_not_run(self, tmp_path: Path, suffix: str, zipped: bool) -> None:
        marker, path = tmp_path / "ran", tmp_path / f"a.{suffix}"
        torch.save({"model": STATE, "extra": Bomb(marker)}, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(WeightsError, match=r"mkdir.* is code .*Nothing of it was run"):
            load_state(path)
        assert not marker.exists()

    def test_a_bare_pickle_with_code_is_refused_and_not_run(self, tmp_path: Path) -> None:
        marker, path = tmp_path / "ran", tmp_path / "a.pth"
        for protocol in range(6):
            path.write_bytes(pickle.dumps(Bomb(marker), protocol=protocol))
            with pytest.raises(WeightsError):
                load_state(path)
            assert not marker.exists()

    @pytest.mark.parametrize("protocol", [3, 4, 5])
    def test_pickle_protocols_that_are_not_safe_are_refused_by_number(self, tmp_path: Path, protocol: int) -> None:
        path = tmp_path / "a.pth"
        torch.save(STATE, path, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
        with pytest.raises(WeightsError, match=rf"pickle of protocol {protocol}, .*; nothing of it was run"):
            load_state(path)

    def test_the_bomb_of_these_tests_does_go_off(self, tmp_path: Path) -> None:
        pickle.loads(pickle.dumps(Bomb(tmp_path / "ran")))
        assert (tmp_path / "ran").exists()

    def test_what_is_allowed_is_allowed_for_this_file_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        torch.save({"model": STATE, "args": argparse.Namespace()}, path)
        load_state(path, "deit")
        with pytest.raises(WeightsError, match="layout: deit"):
            load_state(path)
        with pytest.raises(pickle.UnpicklingError):
            torch.load(path, weights_only=True)


class TestDamage:
    @pytest.mark.parametrize("form", ["safetensors", "zip", "pickle"])
    def test_a_file_truncated_anywhere_is_refused(self, tmp_path: Path, form: str) -> None:
        path = tmp_path / "a"
        content = written(path, form)
        for length in [*range(0, len(content) - 1, 61), len(content) - 1]:
            path.write_bytes(content[:length])
            with pytest.raises(WeightsError):
                load_state(path)

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data(), form=st.sampled_from(["safetensors", "zip", "pickle"]))
    def test_flipped_bytes_give_tensors_or_an_error(self, tmp_path: Path, data: st.DataObject, form: str) -> None:
        path = tmp_path / "a"
        content = bytearray(written(path, form))
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            found = load_state(path)
        except WeightsError:
            return
        assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())

    def test_the_reason_never_advises_to_switch_the_safety_off(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        path.write_bytes(pickle.dumps({"a": torch.ones(1)}, protocol=2)[:40])
        with pytest.raises(WeightsError) as caught:
            load_state(path)
        assert "weights_only" not in str(caught.value)


def of(content: object, message: str) -> Refusal:
    """A file of these bytes, or of what torch saves."""

    def load(folder: Path) -> object:
        path = folder / "a.pth"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            torch.save(content, path)
        return load_state(path)

    return Refusal(load, WeightsError, message)


def odd(value: object, met: str) -> Refusal:
    return of({**STATE, "odd": value}, rf"'odd' is .*{met}.*wanted a dense tensor")


def other_zip(folder: Path) -> object:
    with zipfile.ZipFile(folder / "a.pth", "w") as archive:
        archive.writestr("readme.txt", "hello")
    return load_state(folder / "a.pth")


def flood(folder: Path) -> object:
    save_file({str(number): torch.empty(0) for number in range(MAX_TENSORS + 1)}, folder / "a")
    return load_state(folder / "a")


PAGE = r"a\.pth is a web page .*Download the file itself"
NEITHER = r"neither a safetensors file nor one of torch\.save: it begins with"
NONE = r"no tensors by name lie at the top\. There are none.*save the model's"
FLOOD = "holds 10001 tensors, at most 10000 are read"
REFUSALS = {
    "page": of(b"<!DOCTYPE html><html></html>", PAGE),
    "page after lines": of(b"\r\n  <html lang=en>", PAGE),
    "page with a mark": of(b"\xef\xbb\xbf<!doctype html>", PAGE),
    "xml": of(b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", PAGE),
    "empty": of(b"", "is empty, wanted weights"),
    "git lfs": of(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    "pickle with a brace": of(b"\x80\x04\x95\x10" + bytes(4) + b"{" + bytes(100), "is a pickle of protocol 4"),
    "letter": of(b"x", NEITHER),
    "braces": of(b"{}", NEITHER),
    "json": of(b'{"error": "no"}', NEITHER),
    "png": of(b"\x89PNG\r\n\x1a\n", NEITHER),
    "zeros": of(bytes(100), NEITHER),
    "other zip": Refusal(other_zip, WeightsError, r"truncated or damaged torch\.save file"),
    "sparse": odd(torch.eye(2).to_sparse(), r"torch\.float32, sparse_coo"),
    "complex": odd(torch.ones(2, dtype=torch.complex64), r"torch\.complex64"),
    "bool": odd(torch.ones(2, dtype=torch.bool), r"torch\.bool"),
    "meta": odd(torch.ones(2, device="meta"), "on meta"),
    "number": odd(3, "of type int"),
    "text": odd("text", "of type str"),
    "dict": odd({"weight": torch.ones(2)}, "of type dict"),
    "name that is no text": of({0: torch.ones(1)}, "an entry named 0, wanted text"),
    "no tensors": of({}, NONE),
    "no tensors below a key": of({"model": {}}, NONE),
    "flood in a pickle": of(dict.fromkeys(map(str, range(MAX_TENSORS + 1)), torch.ones(1)), FLOOD),
    "flood in safetensors": Refusal(flood, WeightsError, FLOOD),
}


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_no_file_of_weights_is_refused(name: str, tmp_path: Path) -> None:
    check(REFUSALS[name], tmp_path)
