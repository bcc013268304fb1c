"""From an entry of the registry to a frozen victim: its file found, the weights that fit, and strict on both sides."""

import hashlib
import os
import random
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from examples import CHECKPOINT
from robench.attacks.pgd import Pgd
from robench.attention.mom import Mom
from robench.attention.rpc import Rpc
from robench.attention.symmetric import Symmetric
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.declared import Declaration
from robench.core.errors import ContractError, DeclarationError, UsageError, WeightsError
from robench.core.protocols import Batch
from robench.core.seeds import LazySeeds
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints
from robench.models.build import build
from robench.models.foreign import Python
from robench.models.loaded import LoadedModel
from robench.models.loading import digest, load_model, load_strictly, resolve
from robench.models.vit import Vit
from robench.perturbations.clean import Clean
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

SMALL = Vit(image_size=8, patch_size=4, num_classes=5, depth=2, dim=12, num_heads=3, attention=Rpc(sparsity=0.5))
PREPROCESSING = ImagePreprocessing(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


class Noisy(nn.Module):
    """Draws a buffer that its state does not keep, and from the generator at every turn."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("noise", torch.randn(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.mean(dim=(2, 3))) + self.get_buffer("noise")
        return logits


def noisy() -> nn.Module:
    return Noisy()


def state_of(architecture: Vit = SMALL, seed: int = 0) -> dict[str, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return {name: 2 * value + 0.01 for name, value in build(architecture).state_dict().items()}


def checkpoint(folder: Path, state: dict[str, Tensor] | None = None, architecture: Vit | Python = SMALL) -> Checkpoint:
    path = folder / "small.safetensors"
    save_file(state_of() if state is None else state, path)
    return replace(
        CHECKPOINT, name="small", architecture=architecture, weights=Weights(uri=path.name, sha256=digest(path)),
        preprocessing=PREPROCESSING, folder=folder,
    )  # fmt: skip


def pixels() -> Tensor:
    return torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(5))


class TestLoadVictim:
    def test_its_logits_are_those_of_the_saved_weights_on_normalised_pixels(self, tmp_path: Path) -> None:
        module = build(SMALL)
        module.load_state_dict(state_of())
        mean, std = torch.tensor(PREPROCESSING.mean), torch.tensor(PREPROCESSING.std)
        wanted = module.eval()((pixels() - mean[:, None, None]) / std[:, None, None])
        assert torch.equal(load_model(checkpoint(tmp_path)).outputs(pixels()), wanted)

    def test_the_callers_generators_are_left_as_they_were(self, tmp_path: Path) -> None:
        entry = checkpoint(tmp_path)
        with torch.random.fork_rng():
            torch.manual_seed(20_250_611)
            before = torch.get_rng_state(), random.getstate()
            load_model(entry)
            assert torch.equal(torch.get_rng_state(), before[0])
            assert random.getstate() == before[1]

    def test_what_a_model_draws_and_does_not_keep_is_the_same_in_every_process(self, tmp_path: Path) -> None:
        entry = checkpoint(tmp_path, Noisy().state_dict(), Python(target=f"{__name__}:noisy"))
        logits = []
        with torch.random.fork_rng():
            for seed in (1, 2):
                torch.manual_seed(seed)
                logits.append(load_model(entry).outputs(pixels()))
        assert torch.equal(*logits)

    def test_the_layout_says_which_of_a_files_models_is_meant(self, tmp_path: Path) -> None:
        entry = checkpoint(tmp_path)
        path = tmp_path / "small.pth"
        torch.save({"model": state_of(), "model_ema": state_of(seed=1), "epoch": 300}, path)
        logits = []
        for layout, seed in (("deit", 0), ("deit-ema", 1)):
            nested = replace(entry, weights=Weights(uri=path.name, sha256=digest(path)[:8], layout=layout))
            logits.append(load_model(nested).outputs(pixels()))
            assert torch.equal(logits[-1], load_model(checkpoint(tmp_path, state_of(seed=seed))).outputs(pixels()))
        assert not torch.equal(*logits)

    def test_later_changes_of_the_file_do_not_reach_the_victim(self, tmp_path: Path) -> None:
        path = tmp_path / "small.pth"
        torch.save(state_of(), path)
        victim = load_model(replace(checkpoint(tmp_path), weights=Weights(uri=path.name, sha256=None)))
        wanted = victim.outputs(pixels())
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
        assert torch.equal(victim.outputs(pixels()), wanted)


class TestRefusals:
    def test_a_wrong_digest_stops_before_anything_is_read(self, tmp_path: Path) -> None:
        entry = checkpoint(tmp_path)
        (tmp_path / "small.safetensors").write_bytes(b"<html>")
        with pytest.raises(WeightsError, match=r"have SHA-256 .*The file is a web page"):
            load_model(entry)

    def test_preprocessing_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DeclarationError, match="must be of kind image or none or normalise, got clean"):
            load_model(replace(checkpoint(tmp_path), preprocessing=Clean()))

    @pytest.mark.parametrize("device", ["cuda:99", "no-such-device"])
    def test_a_device_that_this_machine_lacks_is_refused(self, tmp_path: Path, device: str) -> None:
        with pytest.raises(UsageError, match=f"device '{device}' cannot be used here"):
            load_model(checkpoint(tmp_path), device)

    def test_a_file_in_another_layout_is_refused_before_the_model_is_built(self, tmp_path: Path) -> None:
        path = tmp_path / "small.pth"
        torch.save({"model": state_of()}, path)
        entry = replace(
            checkpoint(tmp_path, architecture=Python(target="no_such_module:build")),
            weights=Weights(uri=path.name, sha256=None),
        )
        with pytest.raises(WeightsError, match=r"under 'model' \(layout: deit\)"):
            load_model(entry)

    def test_a_checkpoint_of_lightning_is_refused_with_the_fields_that_read_it(self, tmp_path: Path) -> None:
        """``state_dict`` has ``model.`` before the names of the model, and what else the module has beside them."""
        right = state_of()
        saved = {**{f"model.{name}": each for name, each in right.items()}, "criterion.weight": torch.ones(5)}
        torch.save({"epoch": 3, "state_dict": saved, "pytorch-lightning_version": "2.5"}, tmp_path / "last.ckpt")
        weights = Weights(uri="last.ckpt", sha256=None)
        with pytest.raises(WeightsError, match=r"under 'state_dict' \(key: state_dict, prefix: model\.\)\. Write the"):
            load_model(replace(checkpoint(tmp_path), weights=weights))
        stated = replace(weights, key="state_dict", prefix="model.")
        found = load_model(replace(checkpoint(tmp_path), weights=stated)).module.state_dict()
        assert all(torch.equal(found[name], each) for name, each in right.items())


class TestLoadStrictly:
    def test_one_message_lists_all_that_does_not_fit(self) -> None:
        state = state_of()
        for key in [key for key in state if key.startswith("blocks.1.")]:
            del state[key]
        state |= {"extra.weight": torch.ones(1), "head.weight": torch.ones(7, 12)}
        state["head.bias"] = torch.ones(5, dtype=torch.int64)
        with pytest.raises(WeightsError) as caught:
            load_strictly(build(SMALL), state, "a.pth")
        assert str(caught.value) == (
            "a.pth does not fit the architecture: 12 missing: blocks.1.norm1.weight, blocks.1.norm1.bias,"
            " blocks.1.attn.qkv.weight and 9 more; 1 unexpected: extra.weight; 1 of another shape: head.weight (7, 12)"
            " where (5, 12) is wanted; 1 of another type: head.bias torch.int64 where torch.float32 is wanted."
            " Correct the architecture in the registry, or get the weights that were trained with it"
        )

    @pytest.mark.parametrize("wrong", ["missing", "unexpected", "shape", "type"])
    def test_each_single_flaw_is_enough_and_nothing_is_copied(self, wrong: str) -> None:
        module, state = build(SMALL), state_of()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        match wrong:
            case "missing":
                del state["pos_embed"]
            case "unexpected":
                state["pos_embed_2"] = state["pos_embed"]
            case "shape":
                state["pos_embed"] = state["pos_embed"].reshape(-1)
            case "type":
                state["pos_embed"] = state["pos_embed"].int()
        with pytest.raises(WeightsError, match="pos_embed"):
            load_strictly(module, state, "a.pth")
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())

    def test_symmetric_weights_fit_rpc_since_the_two_differ_in_no_parameter(self) -> None:
        symmetric = state_of(replace(SMALL, attention=Symmetric()))
        module = build(SMALL)
        load_strictly(module, symmetric, "a.pth")
        assert all(torch.equal(value, symmetric[name]) for name, value in module.state_dict().items())


CHANNELWISE = ImagePreprocessing(mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 2.0))
PLAIN = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


class Returning(nn.Module):
    """A model that gives what it is told to."""

    def __init__(self, output: object) -> None:
        super().__init__()
        self.output = output

    def forward(self, x: Tensor) -> object:
        return self.output(x) if callable(self.output) else self.output


def flat(classes: int = 4) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, classes))


def few_pixels(batch: int = 2, side: int = 4) -> Tensor:
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(batch))


class TestNormalisation:
    def test_the_model_sees_pixels_minus_mean_over_std_channel_by_channel(self) -> None:
        seen = []

        def keep(x: Tensor) -> Tensor:
            seen.append(x)
            return x.mean(dim=(2, 3))

        LoadedModel(Returning(keep), CHANNELWISE).outputs(few_pixels())
        for channel, (mean, std) in enumerate(zip(CHANNELWISE.mean, CHANNELWISE.std, strict=True)):
            wanted = (few_pixels()[:, channel].double() - mean) / std
            assert torch.allclose(seen[0][:, channel].double(), wanted, rtol=0, atol=1e-6)

    def test_gradients_are_of_pixels_and_so_over_std(self) -> None:
        inputs = few_pixels().requires_grad_()
        LoadedModel(Returning(lambda x: x.sum(dim=(2, 3))), CHANNELWISE).outputs(inputs).sum().backward()
        assert inputs.grad is not None
        for channel, std in enumerate(CHANNELWISE.std):
            assert torch.allclose(inputs.grad[:, channel], torch.tensor(1 / std))


class TestFrozen:
    def test_dropout_and_batch_statistics_are_off(self) -> None:
        module = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.9), flat())
        module.train()
        victim = LoadedModel(module, PLAIN)
        assert torch.equal(victim.outputs(few_pixels()), victim.outputs(few_pixels()))
        assert torch.equal(module.state_dict()["0.running_mean"], torch.zeros(3))

    def test_arithmetic_is_float32_whatever_the_module_was(self) -> None:
        assert LoadedModel(flat().double(), PLAIN).outputs(few_pixels()).dtype == torch.float32
        assert LoadedModel(flat().half(), PLAIN).outputs(few_pixels()).dtype == torch.float32

    def test_a_model_that_goes_back_to_training_mode_is_caught(self) -> None:
        module = nn.Sequential(flat(), nn.Dropout(0.5))
        victim = LoadedModel(module, PLAIN)
        module[1].train()
        with pytest.raises(ContractError, match="went into training mode"):
            victim.outputs(few_pixels())


class TestLogits:
    def test_an_object_with_logits_is_opened(self) -> None:
        wanted = torch.ones(2, 5)
        output = SimpleNamespace(logits=wanted, hidden_states=None)
        assert torch.equal(LoadedModel(Returning(output), PLAIN).outputs(few_pixels()), wanted)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_outputs_become_float32_and_attacks_run(self, dtype: torch.dtype) -> None:
        class Short(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = flat()

            def forward(self, images: Tensor) -> Tensor:
                return self.layer(images).to(dtype)

        victim = LoadedModel(Short(), PLAIN)
        assert victim.outputs(few_pixels()).dtype == torch.float32
        batch = Batch(ids=("a", "b"), inputs=few_pixels(), targets=torch.tensor([0, 1]))
        attack = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=2)
        made = perturb(attack, batch, victim, ExampleDraws([1, 2], torch.device("cpu")), 2)
        assert not torch.equal(made.inputs, few_pixels())

    @pytest.mark.parametrize(
        ("output", "found"),
        [
            (torch.ones(2, 5).to_sparse(), "on cpu of the layout sparse_coo"),
            (torch.ones(2, 5, device="meta"), "on meta"),
        ],
    )
    def test_tensors_without_dense_values_are_refused(self, output: Tensor, found: str) -> None:
        with pytest.raises(ContractError, match=f"the model returned a tensor {found}.*wanted a dense one on cpu"):
            LoadedModel(Returning(output), PLAIN).outputs(few_pixels())


class TestSeeds:
    @pytest.mark.parametrize(("attention", "reads"), [(Rpc(), False), (Mom(num_blocks=3, block_fraction=0.5), True)])
    def test_lazy_ones_are_read_by_models_that_draw_and_by_no_others(self, attention: Declaration, reads: bool) -> None:
        architecture = Vit(image_size=8, patch_size=4, num_classes=3, depth=1, dim=8, num_heads=2, attention=attention)
        with torch.random.fork_rng():
            victim = LoadedModel(build(architecture), PLAIN)
        seeds = LazySeeds(lambda: (3, 4), 2)
        assert victim.takes_seeds
        assert torch.equal(victim.outputs(few_pixels(side=8), seeds), victim.outputs(few_pixels(side=8), (3, 4)))
        assert seeds.were_read == reads


class TestContract:
    @pytest.mark.parametrize("shape", [(3, 4, 4), (2, 1, 4, 4), (2, 4, 4, 3), (2, 3, 16), (2, 1, 3, 4, 4)])
    def test_inputs_of_another_rank_or_channels_are_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ContractError, match=r"must be images \(batch, 3, height, width\), got \("):
            LoadedModel(flat(), PLAIN).outputs(torch.zeros(shape))

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.float16, torch.int64])
    def test_inputs_of_another_type_are_refused_and_not_rescaled_in_silence(self, dtype: torch.dtype) -> None:
        with pytest.raises(ContractError, match=rf"must be float32 in \[0, 1\], got {dtype}"):
            LoadedModel(flat(), PLAIN).outputs(torch.zeros(2, 3, 4, 4, dtype=dtype))

    def test_inputs_on_another_device_are_refused(self) -> None:
        with pytest.raises(ContractError, match="must be on cpu, where the model is, got meta"):
            LoadedModel(flat(), PLAIN).outputs(torch.zeros(2, 3, 4, 4, device="meta"))

    @pytest.mark.parametrize(
        "output",
        [torch.ones(2), torch.ones(3, 5), torch.ones(2, 5, 1), torch.ones(2, 5, dtype=torch.int64), torch.tensor(1.0)],
    )
    def test_outputs_that_are_no_logits_are_refused(self, output: Tensor) -> None:
        with pytest.raises(ContractError, match=r"for 2 images, wanted floating-point logits \(2, classes\)"):
            LoadedModel(Returning(output), PLAIN).outputs(few_pixels())


CONTENT = b"not really weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
HOW = "python fetch.py downloads it"


def entry_in(folder: Path, uri: str = "weights/a.safetensors", sha256: str | None = None, how: str = HOW) -> Checkpoint:
    return replace(CHECKPOINT, name="vit-a", weights=Weights(uri=uri, sha256=sha256, how_to_get=how), folder=folder)


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    path = tmp_path / "weights" / "a.safetensors"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


class TestLocate:
    def test_an_absolute_uri_stands_for_itself(self, tmp_path: Path, placed: Path) -> None:
        assert resolve(entry_in(tmp_path / "elsewhere", uri=str(placed)))[0] == placed

    def test_a_folder_of_checkpoints(self, tmp_path: Path, placed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROBENCH_CHECKPOINTS", str(placed.parent))
        absent = entry_in(tmp_path / "site", uri="checkpoints/a.safetensors", sha256=SHA256)
        assert resolve(absent) == (placed, SHA256)
        monkeypatch.setenv("ROBENCH_CHECKPOINTS", str(tmp_path))
        assert resolve(entry_in(tmp_path))[0] == placed
        with pytest.raises(WeightsError, match=r"put the file at .*site/checkpoints/a\.safetensors"):
            resolve(absent)

    def test_missing_weights_are_reported_with_the_exact_path_and_how_to_get_them(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError) as caught:
            resolve(entry_in(tmp_path))
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
            resolve(entry_in(tmp_path, uri="weights"))

    @pytest.mark.parametrize("kind", ["pipe", "device", "null"])
    def test_what_is_no_regular_file_is_not_waited_for(self, tmp_path: Path, kind: str) -> None:
        if kind == "pipe":
            os.mkfifo(tmp_path / "pipe")
        uri = {"pipe": "pipe", "device": "/dev/zero", "null": "a\0b"}[kind]
        reason = {"pipe": "it is a named pipe", "device": "it is a device", "null": "it is not a valid file name"}[kind]
        for read in (lambda: resolve(entry_in(tmp_path, uri=uri)), lambda: digest(tmp_path / uri)):
            with pytest.raises(WeightsError, match=rf"cannot be read \({reason}"):
                read()


class TestLocateOnTheHub:
    def test_its_repository_has_the_file(self, tmp_path: Path, placed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []

        def download(repository: str, file: str) -> str:
            asked.append((repository, file))
            return str(placed)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        assert resolve(entry_in(tmp_path, uri="hf-hub:owner/repository/deep/file.safetensors"))[0] == placed
        assert asked == [("owner/repository", "deep/file.safetensors")]

    @pytest.mark.parametrize("address", ["", "owner", "owner/repository", "owner/repository/", "/repository/file"])
    def test_an_address_without_owner_repository_and_file_is_refused(self, tmp_path: Path, address: str) -> None:
        with pytest.raises(DeclarationError, match=r"must be hf-hub:owner/repository/file, got 'hf-hub:"):
            resolve(entry_in(tmp_path, uri=f"hf-hub:{address}"))

    def test_without_network_the_message_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def unreachable(repository: str, file: str) -> str:
            raise ConnectionError("name resolution failed")

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
        with pytest.raises(WeightsError) as caught:
            resolve(entry_in(tmp_path, uri="hf-hub:owner/repository/file"))
        assert "hf-hub:owner/repository/file (ConnectionError: name resolution failed)" in str(caught.value)
        assert "write its path into weights.uri" in str(caught.value)
        assert isinstance(caught.value.__cause__, ConnectionError)

    def test_without_the_library_it_says_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(WeightsError, match=r"pip install .*\[hub\]"):
            resolve(entry_in(tmp_path, uri="hf-hub:owner/repository/file"))


class TestDigest:
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"gone cannot be read \(No such file"):
            digest(tmp_path / "gone")


class TestResolve:
    @pytest.mark.parametrize("sha256", [SHA256, SHA256.upper(), SHA256[:8], SHA256[:40], None])
    def test_what_agrees_comes_back_as_path_and_digest(self, tmp_path: Path, placed: Path, sha256: str | None) -> None:
        assert resolve(entry_in(tmp_path, sha256=sha256)) == (placed, SHA256)

    @pytest.mark.parametrize("sha256", ["0" * 64, "0" * 8, SHA256[1:9], SHA256[::-1]])
    def test_another_digest_is_refused_with_what_to_do(self, tmp_path: Path, placed: Path, sha256: str) -> None:
        with pytest.raises(WeightsError) as caught:
            resolve(entry_in(tmp_path, sha256=sha256))
        message = str(caught.value)
        assert SHA256 in message
        assert f"wants {sha256}" in message
        assert str(placed) in message
        assert message.endswith(f"change weights.sha256 in the registry. How to get them: {HOW}")
        assert "change weights.sha256" in message

    @pytest.mark.parametrize("sha256", ["", SHA256[:7], SHA256 + "0", "g" * 64, "sha256:" + SHA256])
    def test_a_digest_not_written_as_one_never_agrees(self, tmp_path: Path, placed: Path, sha256: str) -> None:
        with pytest.raises(DeclarationError, match="must be 64 hexadecimal digits or the first 8 or more"):
            resolve(entry_in(tmp_path, sha256=sha256))

    def test_a_web_page_in_place_of_the_weights_is_called_one(self, tmp_path: Path, placed: Path) -> None:
        placed.write_bytes(b"\n<!DOCTYPE html><html><title>Sign in</title></html>")
        with pytest.raises(WeightsError, match="The file is a web page"):
            resolve(entry_in(tmp_path, sha256=SHA256))
