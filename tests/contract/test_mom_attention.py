"""Laws of median-of-means attention and of the random subsets that it draws."""

from typing import Any

import pytest
import torch
from reference_mom import REFERENCES, median_block
from scipy import stats
from torch import Tensor, nn

import robench
from robench.attention.build import build_attention
from robench.attention.fourier_mom import FourierMom
from robench.attention.geometry import Geometry
from robench.attention.kernels import gaussian_scores
from robench.attention.mom import MedianOfMeans, Mom
from robench.attention.mom_impl import median_members
from robench.attention.state import ForwardState
from robench.attention.subsets import random_subsets
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.loaded import LoadedModel

GEOMETRY = Geometry(dim=6, num_heads=2, num_tokens=5, depth=2, layer=0)
TOKENS = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def made(declaration: MedianOfMeans, geometry: Geometry = GEOMETRY) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_attention(declaration, geometry).double()


def called(module: nn.Module, x_BNC: Tensor, seeds: tuple[int, ...] | None) -> Tensor:
    mixed_BNC: Tensor = module(x_BNC, ForwardState(seeds=seeds))
    return mixed_BNC


class TestSubsets:
    def test_those_of_a_padded_example_are_those_of_its_valid_tokens(self) -> None:
        settings: dict[str, Any] = {"layer": 1, "num_subsets": 3, "fraction": 0.5}
        padded_BLN = random_subsets((8, 9), lengths=(9, 5), num_tokens=12, **settings)
        assert padded_BLN.shape == (2, 3, 12)
        for row, (seed, length) in enumerate([(8, 9), (9, 5)]):
            alone_1LN = random_subsets((seed,), lengths=(length,), num_tokens=length, **settings)
            assert torch.equal(padded_BLN[row, :, :length], alone_1LN[0])
            assert not padded_BLN[row, :, length:].any()

    def test_they_are_a_function_of_seed_and_layer_alone(self) -> None:
        settings: dict[str, Any] = {"num_subsets": 3, "num_tokens": 9, "fraction": 0.5}
        both = random_subsets((8, 9), lengths=(9, 9), layer=1, **settings)
        assert torch.equal(random_subsets((9,), lengths=(9,), layer=1, **settings)[0], both[1])
        assert not torch.equal(random_subsets((9,), lengths=(9,), layer=2, **settings)[0], both[1])
        assert not torch.equal(both[0], both[1])

    def test_every_token_is_as_likely_as_any_other(self) -> None:
        drawn_BLN = random_subsets(range(400), lengths=(10,) * 400, layer=0, num_subsets=5, num_tokens=10, fraction=0.4)
        assert stats.chisquare(drawn_BLN.sum((0, 1)).tolist()).pvalue > 0.01

    def test_without_seeds_they_come_from_torchs_generator(self) -> None:
        settings: dict[str, Any] = {"lengths": (9,) * 4, "layer": 0, "num_subsets": 3, "num_tokens": 9, "fraction": 0.5}
        with torch.random.fork_rng():
            torch.manual_seed(5)
            first, second = random_subsets(None, **settings), random_subsets(None, **settings)
            torch.manual_seed(5)
            assert torch.equal(random_subsets(None, **settings), first)
        assert not torch.equal(first, second)


class TestMom:
    @pytest.mark.parametrize("formula", ["paper", "released"])
    def test_one_block_of_all_keys_is_kernel_attention_without_any_median(self, formula: Any) -> None:
        declaration = Mom(num_blocks=1, block_fraction=1.0, formula=formula)
        module = made(declaration)
        q, k, v = (
            part.unflatten(-1, (2, 3)).transpose(1, 2) for part in module.get_submodule("qkv")(TOKENS).chunk(3, -1)
        )
        k = k / k.norm(dim=-1, keepdim=True)
        distances = torch.cdist(q, k).square()
        weights = torch.softmax(-distances / 3**0.5 / (2 if formula == "paper" else 1), dim=-1)
        expected = module.get_submodule("proj")((weights @ v).transpose(1, 2).flatten(2))
        torch.testing.assert_close(called(module, TOKENS, (1, 2, 3)), expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("declaration", REFERENCES["mom"].declarations, ids=str)
    def test_a_row_is_a_function_of_its_own_seed(self, declaration: Mom) -> None:
        module = made(declaration)
        whole = called(module, TOKENS, (11, 12, 13))
        assert torch.equal(called(module, TOKENS, (21, 12, 23))[1], whole[1])
        torch.testing.assert_close(called(module, TOKENS[2:], (13,))[0], whole[2], rtol=0, atol=1e-12)
        assert not torch.equal(called(module, TOKENS, (21, 22, 23)), whole)

    def test_only_keys_of_the_median_subset_have_weight(self) -> None:
        log_kernel = gaussian_scores(torch.randn(1, 2, 5, 3), torch.randn(1, 2, 5, 3), 0.5)
        drawn = random_subsets((7,), lengths=(5,), layer=0, num_subsets=5, num_tokens=5, fraction=0.6)
        chosen_members = median_members(log_kernel, drawn, "paper")
        for head in range(2):
            for query in range(5):
                sums = [float(log_kernel[0, head, query][row].exp().sum()) for row in drawn[0]]
                chosen = drawn[0, median_block(sums)]
                assert torch.equal(chosen_members[0, head, query], chosen)

    def test_an_outlying_key_is_met_by_fewer_queries_than_in_the_mean(self) -> None:
        """A third of the subsets of 5 in 10 keys hold none of two outliers; the median avoids them where they repel."""
        q_BHND = torch.zeros(1, 1, 1, 3)
        k_BHMD = torch.full((1, 1, 10, 3), 0.1)
        k_BHMD[..., :2, :] = 50.0
        log_kernel = gaussian_scores(q_BHND, k_BHMD, 0.5)
        drawn = random_subsets((1,), lengths=(10,), layer=0, num_subsets=9, num_tokens=10, fraction=0.5)
        weights = log_kernel.masked_fill(~median_members(log_kernel, drawn, "paper"), -torch.inf).softmax(-1)
        assert float(weights[..., :2].sum()) < 1e-6

    def test_even_numbers_of_blocks_are_refused(self) -> None:
        with pytest.raises(ValueError, match="num_blocks must be odd, got 4"):
            Mom(num_blocks=4)

    @pytest.mark.parametrize(("fraction", "is_refused"), [(0.01, True), (0.06, False)])
    def test_a_subset_has_at_least_one_token(self, fraction: float, is_refused: bool) -> None:
        assert bool(Mom(block_fraction=fraction).problems_in(num_tokens=17, depth=4)) == is_refused


class TestFourierMom:
    def keys_with_weight(self, formula: Any, radius: float) -> Tensor:
        """Whether each query's output changes with each token's value, (B, N, M)."""
        module = made(FourierMom(num_blocks=5, block_fraction=0.6, formula=formula))
        with torch.no_grad():
            module.get_parameter("paramR").fill_(radius)
            module.get_parameter("qkv.weight")[:12] *= 3
        q, k, v = (
            part.unflatten(-1, (2, 3)).transpose(1, 2) for part in module.get_submodule("qkv")(TOKENS).chunk(3, -1)
        )
        v = v.detach().requires_grad_()
        mixed = module.mix((q, k, v), ForwardState(seeds=(1, 2, 3)))  # type: ignore[operator]  # of ProjectedAttention
        rows = [torch.autograd.grad(mixed[:, :, n].sum(), v, retain_graph=True)[0] for n in range(5)]
        return torch.stack([row.abs().amax(dim=(1, 3)) > 0 for row in rows], dim=1)

    def test_the_released_choice_knows_no_radius_and_the_papers_does(self) -> None:
        radii = (0.3, 1.0, 2.0, 4.0)
        released = [self.keys_with_weight("released", radius) for radius in radii]
        assert all(torch.equal(released[0], other) for other in released)
        assert (released[0] == released[0][:, :1]).all()
        paper = [self.keys_with_weight("paper", radius) for radius in radii]
        assert not all(torch.equal(paper[0], other) for other in paper)


def test_a_whole_models_prediction_is_reproducible_in_any_batch_and_new_without_seeds() -> None:
    architecture = {
        "backbone": "vit", "image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 2, "dim": 16,
        "num_heads": 2, "attention": {"kind": "mom", "num_blocks": 3, "block_fraction": 0.5},
    }  # fmt: skip
    module = robench.build_model(architecture)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    victim = LoadedModel(module, ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3))
    pixels = torch.rand(4, 3, 32, 32)
    whole = victim.outputs(pixels, [1, 2, 3, 4])
    torch.testing.assert_close(victim.outputs(pixels[[3, 1]], [4, 2]), whole[[3, 1]], rtol=0, atol=1e-5)
    assert not torch.allclose(victim.outputs(pixels, [5, 6, 7, 8]), whole, atol=1e-4)
    assert not torch.equal(victim.outputs(pixels), victim.outputs(pixels))
