"""Files of weights are read whole, by content and layout, without running anything; all else is refused."""

import argparse
import copy
import json
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import Refusal, check
from safetensors.torch import save, save_file
from torch import Tensor, nn

from robench.core.checkpoint import Weights
from robench.core.errors import UnknownNameError, WeightsError
from robench.models.build import build
from robench.models.layouts import LAYOUTS, Layout, layout_of
from robench.models.layouts_impl import MAX_TENSORS, proposal, tensors_in
from robench.models.loading import digest, load_strictly
from robench.models.state_files import digest_of, load_state
from robench.models.vit import Vit

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


SMALL = Vit(image_size=8, patch_size=4, num_classes=5, depth=2, dim=12, num_heads=3)


def model(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(SMALL)


def trained() -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """A model after one step, so that its optimiser has moments to save."""
    module = model()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    module(torch.ones(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    scheduler.step()
    return module, optimizer, scheduler


def save_as_deit(path: Path, **changes: Any) -> dict[str, Tensor]:
    """What facebookresearch/deit's main.py saves; returns the weights."""
    module, optimizer, scheduler = trained()
    content = {
        "model": module.state_dict(), "optimizer": optimizer.state_dict(), "lr_scheduler": scheduler.state_dict(),
        "epoch": 299, "model_ema": model(seed=1).state_dict(), "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "args": argparse.Namespace(lr=5e-4, model="deit_tiny_patch16_224", distributed=True, world_size=4),
    }  # fmt: skip
    torch.save(content | changes, path)
    return dict(module.state_dict())


def save_as_timm(path: Path, **changes: Any) -> dict[str, Tensor]:
    """What timm's CheckpointSaver saves; returns the weights."""
    module, optimizer, _ = trained()
    content = {
        "epoch": 3, "arch": "fan_tiny_12_p16_224", "state_dict": module.state_dict(),
        "optimizer": optimizer.state_dict(), "version": 2,
        "args": argparse.Namespace(model="fan_tiny_12_p16_224", aa="rand-m9-mstd0.5-inc1"),
        "amp_scaler": {"scale": 65536.0, "growth_factor": 2.0}, "state_dict_ema": model(seed=1).state_dict(),
        "metric": 79.2,
    }  # fmt: skip
    torch.save(content | changes, path)
    return dict(module.state_dict())


def wrapped(state: dict[str, Tensor]) -> OrderedDict[str, Tensor]:
    return OrderedDict((f"module.{name}", value) for name, value in state.items())


def assert_listed(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert list(found) == list(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert not any(value.requires_grad for value in found.values())


class TestRoundTrips:
    def test_deit(self, tmp_path: Path) -> None:
        wanted = save_as_deit(tmp_path / "checkpoint.pth")
        assert_listed(load_state(tmp_path / "checkpoint.pth", "deit"), wanted)

    def test_a_published_file_of_deit_holds_the_weights_alone_under_the_same_key(self, tmp_path: Path) -> None:
        wanted = dict(model().state_dict())
        torch.save({"model": OrderedDict(wanted)}, tmp_path / "deit.pth")
        assert_listed(load_state(tmp_path / "deit.pth", "deit"), wanted)

    def test_timm(self, tmp_path: Path) -> None:
        wanted = save_as_timm(tmp_path / "model_best.pth.tar")
        assert_listed(load_state(tmp_path / "model_best.pth.tar", "timm"), wanted)

    @pytest.mark.parametrize(("save", "layout"), [(save_as_deit, "deit-ema"), (save_as_timm, "timm-ema")])
    def test_the_moving_average_lies_beside_the_weights(self, tmp_path: Path, save: Any, layout: str) -> None:
        weights = save(tmp_path / "a.pth")
        found = load_state(tmp_path / "a.pth", layout)
        assert_listed(found, dict(model(seed=1).state_dict()))
        assert not torch.equal(found["head.weight"], weights["head.weight"])

    @pytest.mark.parametrize("layout", ["plain-ddp", "deit-ddp", "timm-ddp"])
    def test_what_was_saved_in_its_wrapper_loses_the_wrappers_prefix(self, tmp_path: Path, layout: str) -> None:
        wanted = dict(nn.Sequential(OrderedDict(module=model()))[0].state_dict())
        saved = nn.DataParallel(model()).state_dict() if layout == "plain-ddp" else wrapped(wanted)
        (key,) = LAYOUTS[layout].path or ("",)
        torch.save({key: saved} if key else saved, tmp_path / "a.pth")
        assert_listed(load_state(tmp_path / "a.pth", layout), wanted)

    def test_fan_in_its_older_spelling_reads_as_in_the_newer_one(self, tmp_path: Path) -> None:
        older = OrderedDict({"pos_embeder.token_projection.weight": torch.ones(2), "head.pos_embeder.x": torch.ones(1)})
        newer = OrderedDict({"pos_embed.token_projection.weight": torch.ones(2), "head.pos_embeder.x": torch.ones(1)})
        for name, state in (("older", older), ("newer", newer)):
            save_as_timm(tmp_path / name, state_dict=state)
            assert_listed(load_state(tmp_path / name, "fan"), dict(newer))

    def test_a_segmenters_file_is_read_without_the_heads_of_its_pretrained_encoder(self, tmp_path: Path) -> None:
        """As rstrudel/segmenter saves: the encoder keeps its 1,000 classes of ImageNet."""
        wanted = {"encoder.norm.weight": torch.ones(2), "decoder.head.weight": torch.ones(3, 2)}
        heads = {f"encoder.{name}.weight": torch.ones(9, 2) for name in ("head", "head_dist")}
        torch.save({"model": wanted | heads, "optimizer": {}, "epoch": 63}, tmp_path / "a.pth")
        assert_listed(load_state(tmp_path / "a.pth", "segmenter"), wanted)
        with pytest.raises(WeightsError, match=r"There are: 4 under 'model' \(layout: segmenter\)"):
            load_state(tmp_path / "a.pth", "plain")

    def test_plain_is_the_default_of_both_formats(self, tmp_path: Path) -> None:
        wanted = {name: value.clone() for name, value in sorted(model().state_dict().items())}
        torch.save(wanted, tmp_path / "a.pth")
        save_file(wanted, tmp_path / "a.safetensors")
        for file in ("a.pth", "a.safetensors"):
            found = load_state(tmp_path / file)
            assert_listed(dict(sorted(found.items())), wanted)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_declared_layout_reads_what_is_saved_as_it_says(self, tmp_path: Path, layout: str) -> None:
        declared, wanted = LAYOUTS[layout], dict(model().state_dict())
        content: Any = {declared.prefix + name: value for name, value in wanted.items()}
        for key in reversed(declared.path):
            content = {key: content, "epoch": 3}
        torch.save(content, tmp_path / "a.pth")
        assert_listed(load_state(tmp_path / "a.pth", layout), wanted)


class TestDeclarations:
    def test_each_says_which_code_saves_so(self) -> None:
        assert all(layout.source for layout in LAYOUTS.values())

    def test_the_page_on_models_names_each(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
        (table,) = re.findall(r"(?m)^\| `layout:` .*\n((?:\|.*\n)+)", page)
        first_column = " ".join(line.split("|")[1] for line in table.splitlines())
        assert sorted(re.findall(r"`([a-z-]+)`", first_column)) == sorted(LAYOUTS)

    def test_no_two_read_a_file_alike(self) -> None:
        assert len({replace(layout, source="") for layout in LAYOUTS.values()}) == len(LAYOUTS)

    def test_an_unknown_one_gets_the_nearest(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown layout 'diet'\. Did you mean 'deit'\?"):
            load_state(tmp_path / "a.pth", "diet")


class TestAnotherLayoutThanDeclared:
    @pytest.mark.parametrize("declared", ["plain", "timm", "timm-ema", "timm-ddp", "fan"])
    def test_the_message_says_where_the_tensors_are_and_what_to_write(self, tmp_path: Path, declared: str) -> None:
        path = tmp_path / "a.pth"
        num_tensors = len(save_as_deit(path))
        with pytest.raises(WeightsError) as caught:
            load_state(path, declared)
        where = " ".join(f"under {key!r}" for key in LAYOUTS[declared].path) or "at the top"
        assert str(caught.value) == (
            f"{path} (layout: {declared}): no tensors by name lie {where}. There are:"
            f" {num_tensors} under 'model' (layout: deit); {num_tensors} under 'model_ema' (layout: deit-ema)."
            " Write the right fields into `weights` of the registry entry"
        )

    @pytest.mark.parametrize("file", ["a.pth", "a.safetensors"])
    def test_tensors_at_the_top_are_plain(self, tmp_path: Path, file: str) -> None:
        state = dict(model().state_dict())
        (save_file if file.endswith("safetensors") else torch.save)(state, tmp_path / file)
        with pytest.raises(WeightsError, match=rf"under 'model'\. There are: {len(state)} at the top \(layout: plain"):
            load_state(tmp_path / file, "deit")

    def test_names_without_the_declared_prefix_are_refused(self, tmp_path: Path) -> None:
        save_as_deit(tmp_path / "a.pth")
        with pytest.raises(WeightsError, match=r"'cls_token' does not begin with 'module\.'.* 'model' \(layout: deit"):
            load_state(tmp_path / "a.pth", "deit-ddp")

    def test_one_name_without_the_prefix_is_enough(self, tmp_path: Path) -> None:
        torch.save(wrapped({"a": torch.ones(1)}) | {"b": torch.ones(1)}, tmp_path / "a.pth")
        with pytest.raises(WeightsError, match=r"'b' does not begin with"):
            load_state(tmp_path / "a.pth", "plain-ddp")

    @pytest.mark.parametrize(
        ("path", "beginning", "fields"),
        [
            (["model"], "module.", "layout: deit-ddp"),
            (["state_dict_ema"], "module.", "key: state_dict_ema, prefix: module."),
            (["state_dict"], "model.", "key: state_dict, prefix: model."),
            (["net"], "module._orig_mod.", "key: net, prefix: module._orig_mod."),
            ([], "_orig_mod.", "prefix: _orig_mod."),
            ([], "student.vit.", "prefix: student.vit."),
        ],
        ids=["deit", "timm-ema", "lightning", "compiled-net", "compiled", "part"],
    )
    def test_a_prefix_that_was_not_declared_is_proposed_and_read_as_proposed(
        self, tmp_path: Path, path: list[str], beginning: str, fields: str
    ) -> None:
        """Beside what the model does not have, such as a loss or raw weights beside their moving average."""
        right, file = model(seed=1).state_dict(), tmp_path / "a.pth"
        saved: Any = {beginning + name: value for name, value in right.items()}
        saved |= {} if fields.startswith("layout") else {"criterion.weight": torch.ones(3)}
        others = {"state_dict": wrapped(model().state_dict())} if path == ["state_dict_ema"] else {}
        torch.save({**others, path[0]: saved} if path else saved, file)
        declared = Weights(uri="a.pth", sha256=None, key=path[0]) if path else Weights(uri="a.pth", sha256=None)
        with pytest.raises(WeightsError, match=rf"write {re.escape(fields)}; or correct"):
            load_strictly(model(), load_state(file, declared), "a.pth", layout_of(declared))
        stated = dict(each.split(": ") for each in fields.split(", "))
        found = load_state(file, Weights(uri="a.pth", sha256=None, **stated))
        assert_listed(found, dict(right))
        if path:
            # As the message of another place proposes.
            with pytest.raises(WeightsError, match=rf"under '{path[0]}' \({re.escape(fields)}\)"):
                load_state(file, "plain", right.keys())

    def test_no_other_fields_are_proposed_where_sizes_are_wrong_or_own_names_begin_like_a_wrappers(self) -> None:
        own = nn.Sequential(OrderedDict(model=nn.Linear(2, 2), net=nn.Linear(2, 2)))
        for state in ({"model.weight": torch.ones(3, 2)}, {"model.weight": torch.ones(2, 2), "model.x": torch.ones(1)}):
            with pytest.raises(WeightsError, match=r"\. Correct the architecture in the registry, or get the weights"):
                load_strictly(own, state, "a.pth")
        with pytest.raises(WeightsError, match=r"no entry begins with 'net\.'\. There are: 1 at the top"):
            tensors_in({"a": torch.ones(1)}, Layout(prefix="net.", leaves_others=True, source="test"), "a.pth")

    def test_a_missing_number_of_batches_is_that_of_torch(self) -> None:
        module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        state = {name: torch.rand_like(each) for name, each in module.state_dict().items() if each.is_floating_point()}
        by_torch, ours = (copy.deepcopy(module) for _ in range(2))
        by_torch.load_state_dict(dict(state))
        load_strictly(ours, state, "a.pth")
        assert_listed(dict(ours.state_dict()), dict(by_torch.state_dict()))
        with pytest.raises(WeightsError, match=r"1 missing: 1\.running_var"):
            load_strictly(ours, {name: each for name, each in state.items() if name != "1.running_var"}, "a.pth")

    def test_shards_with_an_index_are_read_as_one_file_and_all_count_in_the_digest(self, tmp_path: Path) -> None:
        state = {name: each.clone() for name, each in sorted(model().state_dict().items())}
        parts = [dict(list(state.items())[part::2]) for part in (0, 1)]
        index = tmp_path / "model.safetensors.index.json"
        files = [f"model-{part}.safetensors" for part in (0, 1)]
        for file, part in zip(files, parts, strict=True):
            save_file(part, tmp_path / file)
        names = {name: file for file, part in zip(files, parts, strict=True) for name in part}
        index.write_text(json.dumps({"weight_map": names}))
        assert_listed(dict(sorted(load_state(index).items())), state)
        before = digest(index)
        save_file({name: each + 1 for name, each in parts[1].items()}, tmp_path / files[1])
        assert digest(index) != before
        for wrong in ({"weight_map": {"a": "../model-0.safetensors"}}, {"weight_map": {"a": "x.bin"}}, {}, []):
            index.write_text(json.dumps(wrong))
            with pytest.raises(WeightsError, match=r"is not the index of safetensors .* expected an object with"):
                load_state(index)

    def test_a_model_whose_own_names_begin_like_the_wrappers_is_read_as_it_is(self, tmp_path: Path) -> None:
        state = wrapped({"weight": torch.ones(2)})
        torch.save(state, tmp_path / "a.pth")
        assert_listed(load_state(tmp_path / "a.pth"), dict(state))

    def test_where_several_layouts_fit_the_one_that_changes_most_names_is_told(self, tmp_path: Path) -> None:
        for state, wanted in (
            (wrapped({"a": torch.ones(1)}), "layout: timm-ddp"),
            ({"pos_embeder.a": torch.ones(1)}, "layout: fan"),
            ({"pos_embed.a": torch.ones(1)}, "layout: timm or fan"),
        ):
            torch.save({"state_dict": state}, tmp_path / "a.pth")
            with pytest.raises(WeightsError) as caught:
                load_state(tmp_path / "a.pth")
            assert f"1 under 'state_dict' ({wanted})" in str(caught.value)

    def test_tensors_under_a_key_that_no_layout_has_are_told_too(self, tmp_path: Path) -> None:
        torch.save({"net": model().state_dict(), 3: {"a": torch.ones(1)}}, tmp_path / "a.pth")
        with pytest.raises(WeightsError, match=r"'net' \(key: net\); 1 under 3 \(which no key names"):
            load_state(tmp_path / "a.pth", "timm")

    def test_without_tensors_anywhere_the_message_says_so(self, tmp_path: Path) -> None:
        torch.save({"epoch": 3, "model": {}, "args": argparse.Namespace()}, tmp_path / "a.pth")
        with pytest.raises(WeightsError, match=r"lie under 'model'\. There are none at the top or one key below it"):
            load_state(tmp_path / "a.pth", "deit")


class TestStrictness:
    LAYOUT = Layout(
        path=("net", "weights"),
        prefix="net.",
        renames=(("old.", "new."), ("o", "x")),
        dropped=(("loss.", "a buffer of the loss of training, which no output depends on"),),
        source="nobody",
    )

    def read(self, **entries: Any) -> dict[str, Tensor]:
        content = {"net": {"weights": {f"net.{name.replace('__', '.')}": value for name, value in entries.items()}}}
        return tensors_in(content, self.LAYOUT, "a.pth")

    def test_a_path_may_have_several_keys_and_the_first_renaming_that_fits_counts(self) -> None:
        one = torch.ones(1)
        assert list(self.read(old__a=one, other=one, new=one)) == ["new.a", "xther", "new"]

    def test_what_a_layout_drops_is_gone_whatever_it_is_and_all_else_stays(self) -> None:
        assert list(self.read(a=torch.ones(1), loss__mean=torch.ones(2), loss__count=3)) == ["a"]
        assert list(self.read(a=torch.ones(1), lossy=torch.ones(2))) == ["a", "lossy"]

    def test_what_no_layout_drops_reaches_the_model_and_is_refused_there(self, tmp_path: Path) -> None:
        state = model().state_dict() | {"loss.mean": torch.ones(1)}
        save_as_deit(tmp_path / "a.pth", model=state)
        with pytest.raises(WeightsError, match=r"1 unexpected: loss\.mean"):
            load_strictly(model(), load_state(tmp_path / "a.pth", "deit"), "a.pth")

    def test_two_entries_that_read_alike_are_refused(self) -> None:
        with pytest.raises(WeightsError, match=r"two entries read as 'new\.a', 'net\.new\.a' is one"):
            self.read(old__a=torch.ones(1), new__a=torch.ones(1))

    @pytest.mark.parametrize("odd", [3, "text", None, [torch.ones(1)], {"weight": torch.ones(1)}])
    def test_anything_else_among_the_tensors_is_refused_by_name(self, odd: object) -> None:
        with pytest.raises(WeightsError, match=r"entry 'net\.odd' is of type .*, wanted a dense tensor"):
            self.read(a=torch.ones(1), odd=odd)

    def test_attributes_of_a_mapping_or_a_tensor_that_hide_their_methods_are_not_met(self) -> None:
        state = OrderedDict({"net.a": torch.ones(1)})
        state.items = state.get = state.keys = dict  # type: ignore[assignment, method-assign]  # as an unpickled file may
        content = OrderedDict({"net": OrderedDict({"weights": state})})
        content.get = content["net"].get = dict  # type: ignore[assignment, method-assign]  # likewise
        state["net.a"].detach = lambda: "never"  # type: ignore[assignment, method-assign, return-value]  # likewise
        assert torch.equal(tensors_in(content, self.LAYOUT, "a.pth")["a"], torch.ones(1))

    def test_fields_are_proposed_for_names_that_all_begin_with_a_prefix_or_any_that_is_renamed(self) -> None:
        assert proposal((), ["module.a", "module.b"]) == "layout: plain-ddp"
        assert proposal((), ["module.a", "b"]) == "layout: plain"
        assert proposal(("state_dict",), ["pos_embeder.a", "b"]) == "layout: fan"
        assert proposal(("a: b",), ["model._orig_mod.a"]) == 'key: "a: b", prefix: model._orig_mod.'
