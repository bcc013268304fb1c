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

    def test_a_pickle_with_a_brace_where_safetensors_have_one_is_still_a_pickle(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_bytes(b"\x80\x04\x95\x10\x00\x00\x00\x00{" + bytes(100))
        with pytest.raises(WeightsError, match="is a pickle of protocol 4"):
            load_state(path)

    def test_parameters_come_back_as_tensors_that_need_no_gradient(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        torch.save({"weight": torch.nn.Parameter(torch.ones(2))}, path)
        assert not load_state(path)["weight"].requires_grad


class TestCodeIsNeverRun:
    @pytest.mark.parametrize("suffix", ["pth", "safetensors"])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_a_pickle_with_code_is_refused_and_nothing_of_it_ran(
        self, tmp_path: Path, suffix: str, zipped: bool
    ) -> None:
        marker, path = tmp_path / "ran", tmp_path / f"a.{suffix}"
        torch.save({"model": STATE, "extra": Bomb(marker)}, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(WeightsError, match=r"mkdir.* is code .*Nothing of it was run"):
            load_state(path)
        assert not marker.exists()

    def test_a_bare_pickle_with_code_is_refused_and_nothing_of_it_ran(self, tmp_path: Path) -> None:
        marker, path = tmp_path / "ran", tmp_path / "a.pth"
        for protocol in range(6):
            path.write_bytes(pickle.dumps(Bomb(marker), protocol=protocol))
            with pytest.raises(WeightsError):
                load_state(path)
            assert not marker.exists()

    @pytest.mark.parametrize("protocol", [3, 4, 5])
    def test_pickle_protocols_that_cannot_be_read_safely_are_refused_by_number(
        self, tmp_path: Path, protocol: int
    ) -> None:
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


class TestWhatIsNoWeights:
    @pytest.mark.parametrize(
        "page",
        [
            b"<!DOCTYPE html><html></html>",
            b"\r\n  <html lang=en>",
            b"\xef\xbb\xbf<!doctype html>",
            b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
        ],
    )
    def test_a_web_page_saved_as_weights_is_called_one(self, tmp_path: Path, page: bytes) -> None:
        path = tmp_path / "a.pth"
        path.write_bytes(page)
        with pytest.raises(WeightsError, match=r"a\.pth is a web page .*Download the file itself"):
            load_state(path)

    def test_an_empty_file_is_called_empty(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        path.touch()
        with pytest.raises(WeightsError, match="is empty, wanted weights"):
            load_state(path)

    def test_a_git_lfs_pointer_is_called_one(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        with pytest.raises(WeightsError, match="git lfs pull"):
            load_state(path)

    @pytest.mark.parametrize("content", [b"x", b"{}", b'{"error": "no"}', b"\x89PNG\r\n\x1a\n", bytes(100)])
    def test_other_content_is_refused_with_its_first_bytes(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "a.pth"
        path.write_bytes(content)
        with pytest.raises(WeightsError, match=r"neither a safetensors file nor one of torch\.save: it begins with"):
            load_state(path)

    def test_any_other_zip_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "hello")
        with pytest.raises(WeightsError, match=r"truncated or damaged torch\.save file"):
            load_state(path)


class TestDamage:
    @pytest.mark.parametrize("form", ["safetensors", "zip", "pickle"])
    def test_a_file_truncated_anywhere_is_refused(self, tmp_path: Path, form: str) -> None:
        path = tmp_path / "a"
        if form == "safetensors":
            save_file(STATE, path)
        else:
            torch.save(STATE, path, _use_new_zipfile_serialization=form == "zip")
        content = path.read_bytes()
        for length in [*range(0, len(content) - 1, 61), len(content) - 1]:
            path.write_bytes(content[:length])
            with pytest.raises(WeightsError):
                load_state(path)

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data(), form=st.sampled_from(["safetensors", "zip", "pickle"]))
    def test_flipped_bytes_give_tensors_or_a_weights_error_and_nothing_else(
        self, tmp_path: Path, data: st.DataObject, form: str
    ) -> None:
        path = tmp_path / "a"
        if form == "safetensors":
            save_file(STATE, path)
        else:
            torch.save(STATE, path, _use_new_zipfile_serialization=form == "zip")
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(bytes(content))
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


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
class TestOnlyDenseNumbers:
    @pytest.mark.parametrize(
        ("tensor", "met"),
        [
            (torch.eye(2).to_sparse(), r"torch\.float32, sparse_coo"),
            (torch.ones(2, dtype=torch.complex64), r"torch\.complex64"),
            (torch.ones(2, dtype=torch.bool), r"torch\.bool"),
            (torch.ones(2, device="meta"), "on meta"),
            (3, "of type int"),
            ("text", "of type str"),
            ({"weight": torch.ones(2)}, "of type dict"),
        ],
    )
    def test_anything_else_is_refused_by_name(self, tmp_path: Path, tensor: object, met: str) -> None:
        path = tmp_path / "a.pth"
        torch.save({**STATE, "odd": tensor}, path)
        with pytest.raises(WeightsError, match=rf"'odd' is .*{met}.*wanted a dense tensor"):
            load_state(path)

    def test_names_are_text(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pth"
        torch.save({0: torch.ones(1)}, path)
        with pytest.raises(WeightsError, match="an entry named 0, wanted text"):
            load_state(path)

    @pytest.mark.parametrize("content", [{}, {"model": {}}])
    def test_a_file_without_tensors_is_refused(self, tmp_path: Path, content: object) -> None:
        path = tmp_path / "a.pth"
        torch.save(content, path)
        with pytest.raises(WeightsError, match=r"no tensors by name lie at the top\. There are none.*save the model's"):
            load_state(path)

    @pytest.mark.parametrize("form", ["safetensors", "pickle"])
    def test_a_flood_of_tensors_is_refused(self, tmp_path: Path, form: str) -> None:
        path, state = tmp_path / "a", {str(number): torch.empty(0) for number in range(MAX_TENSORS + 1)}
        if form == "safetensors":
            save_file(state, path)
        else:
            torch.save(dict.fromkeys(state, torch.ones(1)), path)
        with pytest.raises(WeightsError, match="holds 10001 tensors, at most 10000 are read"):
            load_state(path)
