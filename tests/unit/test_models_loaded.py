"""The wrapped classifier: normalisation inside, frozen, in evaluation mode, and strict on both of its sides."""

from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from robench.attacks.pgd import Pgd
from robench.attention.mom import Mom
from robench.attention.rpc import Rpc
from robench.core.declared import Declaration
from robench.core.errors import ContractError
from robench.core.protocols import Batch
from robench.core.seeds import LazySeeds
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.vit import Vit
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

PREPROCESSING = ImagePreprocessing(mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 2.0))
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


def pixels(batch: int = 2, side: int = 4) -> Tensor:
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(batch))


class TestNormalisation:
    def test_the_model_sees_pixels_minus_mean_over_std_channel_by_channel(self) -> None:
        seen = []

        def keep(x: Tensor) -> Tensor:
            seen.append(x)
            return x.mean(dim=(2, 3))

        LoadedModel(Returning(keep), PREPROCESSING).outputs(pixels())
        for channel, (mean, std) in enumerate(zip(PREPROCESSING.mean, PREPROCESSING.std, strict=True)):
            wanted = (pixels()[:, channel].double() - mean) / std
            assert torch.allclose(seen[0][:, channel].double(), wanted, rtol=0, atol=1e-6)

    def test_gradients_are_of_pixels_and_so_over_std(self) -> None:
        inputs = pixels().requires_grad_()
        LoadedModel(Returning(lambda x: x.sum(dim=(2, 3))), PREPROCESSING).outputs(inputs).sum().backward()
        assert inputs.grad is not None
        for channel, std in enumerate(PREPROCESSING.std):
            assert torch.allclose(inputs.grad[:, channel], torch.tensor(1 / std))


class TestFrozen:
    def test_dropout_and_batch_statistics_are_off(self) -> None:
        module = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.9), flat())
        module.train()
        victim = LoadedModel(module, PLAIN)
        assert torch.equal(victim.outputs(pixels()), victim.outputs(pixels()))
        assert torch.equal(module.state_dict()["0.running_mean"], torch.zeros(3))

    def test_arithmetic_is_float32_whatever_the_module_was(self) -> None:
        assert LoadedModel(flat().double(), PLAIN).outputs(pixels()).dtype == torch.float32
        assert LoadedModel(flat().half(), PLAIN).outputs(pixels()).dtype == torch.float32

    def test_a_model_that_goes_back_to_training_mode_is_caught(self) -> None:
        module = nn.Sequential(flat(), nn.Dropout(0.5))
        victim = LoadedModel(module, PLAIN)
        module[1].train()
        with pytest.raises(ContractError, match="went into training mode"):
            victim.outputs(pixels())


class TestLogits:
    def test_an_object_with_logits_is_opened(self) -> None:
        wanted = torch.ones(2, 5)
        output = SimpleNamespace(logits=wanted, hidden_states=None)
        assert torch.equal(LoadedModel(Returning(output), PLAIN).outputs(pixels()), wanted)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_outputs_become_float32_and_attacks_run(self, dtype: torch.dtype) -> None:
        class Short(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = flat()

            def forward(self, images: Tensor) -> Tensor:
                return self.layer(images).to(dtype)

        victim = LoadedModel(Short(), PLAIN)
        assert victim.outputs(pixels()).dtype == torch.float32
        batch = Batch(ids=("a", "b"), inputs=pixels(), targets=torch.tensor([0, 1]))
        attack = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=2)
        made = perturb(attack, batch, victim, ExampleDraws([1, 2], torch.device("cpu")), 2)
        assert not torch.equal(made.inputs, pixels())

    @pytest.mark.parametrize(
        ("output", "found"),
        [
            (torch.ones(2, 5).to_sparse(), "on cpu of the layout sparse_coo"),
            (torch.ones(2, 5, device="meta"), "on meta"),
        ],
    )
    def test_tensors_without_dense_values_are_refused(self, output: Tensor, found: str) -> None:
        with pytest.raises(ContractError, match=f"the model returned a tensor {found}.*wanted a dense one on cpu"):
            LoadedModel(Returning(output), PLAIN).outputs(pixels())


class TestSeeds:
    @pytest.mark.parametrize(("attention", "reads"), [(Rpc(), False), (Mom(num_blocks=3, block_fraction=0.5), True)])
    def test_lazy_ones_are_read_by_models_that_draw_and_by_no_others(self, attention: Declaration, reads: bool) -> None:
        architecture = Vit(image_size=8, patch_size=4, num_classes=3, depth=1, dim=8, num_heads=2, attention=attention)
        with torch.random.fork_rng():
            victim = LoadedModel(build(architecture), PLAIN)
        seeds = LazySeeds(lambda: (3, 4), 2)
        assert victim.takes_seeds
        assert torch.equal(victim.outputs(pixels(side=8), seeds), victim.outputs(pixels(side=8), (3, 4)))
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
            LoadedModel(Returning(output), PLAIN).outputs(pixels())
