"""From an entry of the registry to a victim: strictly the weights that fit, and nothing else disturbed."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from examples import CHECKPOINT
from robench.attention.rpc import Rpc
from robench.attention.symmetric import Symmetric
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, UsageError, WeightsError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.foreign import Python
from robench.models.loading import digest, load_model, load_strictly
from robench.models.vit import Vit
from robench.perturbations.clean import Clean

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
        CHECKPOINT,
        name="small",
        architecture=architecture,
        weights=Weights(uri=path.name, sha256=digest(path)),
        preprocessing=PREPROCESSING,
        folder=folder,
    )


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
