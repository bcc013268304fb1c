"""Laws of the attention mechanisms whose cost grows linearly with the number of tokens."""

from dataclasses import replace
from typing import Any

import pytest
import reference_linear
import torch
from attention_laws import LargestTensor, close
from attention_settings import title
from presence import present
from reference_base import layer
from scipy.stats import kstest  # type: ignore[import-untyped]  # its stubs are no dependency
from test_attention_contract import GEOMETRY, made, tokens
from torch import Tensor, nn

from robench.attention.base import Formula
from robench.attention.build import build_attention
from robench.attention.heads import attend
from robench.attention.linear import Linear
from robench.attention.linear_impl import feature_factors, log_feature
from robench.attention.linear_twicing import LinearTwicing
from robench.attention.linformer import Linformer
from robench.attention.nystrom import Nystrom
from robench.attention.nystrom_impl import attend_through_landmarks, pseudo_inverse, segment_means
from robench.attention.performer import Performer
from robench.attention.performer_impl import orthogonal_gaussian
from robench.attention.softmax import Softmax
from robench.core.declared import Declaration
from robench.core.identity import key_of
from robench.models.build import build
from robench.models.vit import Vit

ALL = [
    Linear(), LinearTwicing(), Performer(num_features=7), Performer(num_features=7, formula="released"),
    Linformer(projection_length=3), Nystrom(num_landmarks=3), Nystrom(num_landmarks=3, formula="released"),
]  # fmt: skip
# Their weights are positive and sum to one, so that outputs are means of values.
AVERAGING = [Linear(), Performer(num_features=7), Performer(num_features=7, formula="released")]
FORMULAS: tuple[Formula, Formula] = ("paper", "released")
OTHER_SIZES = [
    *(Performer(num_features=count) for count in (1, 2, 3, 12)),
    *(Linformer(projection_length=length) for length in (1, 5)),
    *(Nystrom(num_landmarks=count) for count in (4, 8)),
    *(Performer(num_features=count, formula="released", epsilon=1e-6) for count in (1, 12)),
    *(Nystrom(num_landmarks=count, formula="released") for count in (1, 4)),
]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def like_softmax(declaration: Declaration, **more: Tensor) -> nn.Module:
    """The mechanism with the parameters of a softmax attention, and ``more`` of its own."""
    module = build_attention(declaration, GEOMETRY).double()
    module.load_state_dict(module.state_dict() | made(Softmax(), spread=0.2).state_dict() | more)
    return module


def difference_to_softmax(module: nn.Module) -> float:
    with torch.no_grad():
        return float((module(tokens()) - made(Softmax(), spread=0.2)(tokens())).abs().max())


def largest_tensor(declaration: Declaration, num_tokens: int) -> int:
    module = made(declaration, geometry=replace(GEOMETRY, num_tokens=num_tokens))
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]  # its base is untyped
        module(tokens(batch=1, num_tokens=num_tokens)).sum().backward()
    return int(largest.num_elements)


class TestCost:
    @pytest.mark.parametrize("declaration", ALL, ids=title)
    def test_no_tensor_forwards_or_backwards_grows_faster_than_the_number_of_tokens(
        self, declaration: Declaration
    ) -> None:
        assert largest_tensor(declaration, 400) <= 2 * largest_tensor(declaration, 200)

    def test_those_of_softmax_attention_do(self) -> None:
        assert largest_tensor(Softmax(), 400) == 4 * largest_tensor(Softmax(), 200)


@pytest.mark.parametrize("declaration", OTHER_SIZES, ids=title)
def test_other_sizes_equal_the_slow_reference_too(declaration: Declaration) -> None:
    module, x_BNC = made(declaration), tokens()
    parameters = {name: value.tolist() for name, value in module.state_dict().items()}
    reference = reference_linear.REFERENCES[declaration.kind]
    wanted = torch.tensor(layer(reference, declaration, x_BNC.tolist(), parameters, 2, {}), dtype=torch.float64)
    assert close(module(x_BNC), wanted, 1e-10)


@pytest.mark.parametrize("declaration", AVERAGING, ids=title)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_outputs_are_weighted_means_of_values_at_every_scale(declaration: Declaration, scale: float) -> None:
    module = made(declaration).float()
    with torch.no_grad():
        module.get_parameter("proj.weight").copy_(torch.eye(6))
        module.get_parameter("proj.bias").zero_()
        x_BNC = scale * tokens().float()
        values_BNC = module.get_submodule("qkv")(x_BNC)[..., 12:]
        output_BNC = module(x_BNC)
    slack = 1e-5 * values_BNC.abs().max()
    assert (output_BNC <= values_BNC.amax(dim=1, keepdim=True) + slack).all()
    assert (output_BNC >= values_BNC.amin(dim=1, keepdim=True) - slack).all()


class TestFeatureFactors:
    def test_their_product_is_the_normalised_inner_products_of_the_features(self) -> None:
        queries_BHNF, keys_BHMF = normal(2, 3, 5, 4).exp(), normal(2, 3, 6, 4, seed=1).exp()
        products_BHNM = queries_BHNF @ keys_BHMF.transpose(-2, -1)
        spread_BHNF, gather_BHFM = feature_factors(queries_BHNF.log(), keys_BHMF.log())
        wanted_BHNM = products_BHNM / products_BHNM.sum(dim=-1, keepdim=True)
        assert close(spread_BHNF @ gather_BHFM, wanted_BHNM, 1e-14)

    def test_a_factor_common_to_the_features_of_a_query_or_to_all_keys_cancels(self) -> None:
        log_queries, log_keys = normal(1, 1, 5, 4), normal(1, 1, 6, 4, seed=1)
        spread, gather = feature_factors(log_queries, log_keys)
        moved_spread, moved_gather = feature_factors(log_queries + normal(1, 1, 5, 1, seed=2), log_keys - 700)
        assert close(moved_spread @ moved_gather, spread @ gather)

    def test_features_far_below_the_smallest_number_still_have_weights(self) -> None:
        log_queries, log_keys = 1e5 * normal(1, 1, 5, 4), 1e5 * normal(1, 1, 6, 4, seed=1) - 1e6
        spread, gather = feature_factors(log_queries, log_keys)
        assert torch.allclose((spread @ gather).sum(dim=-1), torch.ones(1, 1, 5, dtype=torch.float64))


class TestLinear:
    def test_features_are_elu_plus_one_with_its_gradient(self) -> None:
        x = torch.linspace(-5, 5, 101, dtype=torch.float64).requires_grad_()
        ours, theirs = log_feature(x).exp(), nn.functional.elu(x) + 1
        assert torch.allclose(ours, theirs, rtol=1e-14, atol=0)
        our_gradient, their_gradient = (torch.autograd.grad(values.sum(), x)[0] for values in (ours, theirs))
        assert torch.allclose(our_gradient, their_gradient, rtol=1e-14, atol=0)

    def test_gradients_of_features_are_finite_where_their_logarithm_is_not(self) -> None:
        x = torch.tensor([-1e4, -1.0, 0.0, 1e30], requires_grad=True)
        log_feature(x).sum().backward()
        assert torch.allclose(present(x.grad), torch.tensor([1.0, 1.0, 1.0, 1e-30]))

    def test_queries_whose_features_all_underflow_have_weights(self) -> None:
        module = made(Linear()).float()
        with torch.no_grad():
            module.get_parameter("qkv.bias")[:6] -= 1000
        features = nn.functional.elu(module.get_submodule("qkv")(tokens().float())[..., :6]) + 1
        assert features.max() == 0
        assert module(tokens().float()).isfinite().all()

    def test_large_positive_features_weigh_in_proportion_to_their_products(self) -> None:
        q_BHND, k_BHND = 1e9 * normal(1, 1, 5, 4).abs(), 1e9 * normal(1, 1, 5, 4, seed=1).abs()
        spread, gather = feature_factors(log_feature(q_BHND), log_feature(k_BHND))
        products = q_BHND @ k_BHND.transpose(-2, -1)
        assert torch.allclose(spread @ gather, products / products.sum(dim=-1, keepdim=True), rtol=1e-6, atol=0)


class TestPerformer:
    def test_it_tends_to_softmax_attention_as_features_grow(self) -> None:
        errors = []
        for count in (8, 512, 65536):
            modules = [like_softmax(Performer(num_features=count, redraw_seed=seed)) for seed in range(5)]
            errors.append(sum(difference_to_softmax(module) for module in modules) / 5)
        assert errors[1] < errors[0] / 2
        assert errors[2] < errors[1] / 4
        assert errors[2] < 0.01

    def test_inner_products_of_features_are_the_softmax_kernel_on_average(self) -> None:
        projection_FD = orthogonal_gaussian(300_000, 3, seed=0)
        x_D, y_D = 0.5 * normal(3), 0.5 * normal(3, seed=1)
        features = [(projection_FD @ z_D - z_D.square().sum() / 2).exp() for z_D in (x_D, y_D)]
        assert float((features[0] * features[1]).mean()) == pytest.approx(float((x_D @ y_D).exp()), rel=0.01)

    def test_each_row_of_the_projection_is_standard_normal_in_every_direction(self) -> None:
        rows_RP4 = orthogonal_gaussian(4 * 5000, 4, seed=0).reshape(5000, 4, 4).transpose(0, 1)
        oblique = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.6, -0.8, 0, 0]], dtype=torch.float64)
        for direction in [*torch.eye(4, dtype=torch.float64), *oblique]:
            pvalues = [kstest((row_P4 @ direction).numpy(), "norm").pvalue for row_P4 in rows_RP4]
            assert min(pvalues) > 1e-4, direction

    def test_rows_of_a_block_are_orthogonal_and_those_of_others_are_not(self) -> None:
        projection_FD = orthogonal_gaussian(10, 4, seed=0)
        unit_FD = projection_FD / projection_FD.norm(dim=-1, keepdim=True)
        cosines_FF = (unit_FD @ unit_FD.T).abs() - torch.eye(10, dtype=torch.float64)
        for start in (0, 4, 8):
            assert cosines_FF[start : start + 4, start : start + 4].abs().max() < 1e-12
        assert cosines_FF[:4, 4:].max() > 0.1

    def test_the_projection_is_a_function_of_seed_and_layer_alone(self) -> None:
        def drawn(seed: int, place: int) -> Tensor:
            geometry = replace(GEOMETRY, layer=place)
            return build_attention(Performer(num_features=5, redraw_seed=seed), geometry).get_buffer("projection")

        torch.manual_seed(1)
        first = drawn(0, 0)
        torch.manual_seed(2)
        assert torch.equal(drawn(0, 0), first)
        assert (drawn(1, 0) - first).abs().min() > 1e-4
        assert (drawn(0, 1) - first).abs().min() > 1e-4


class TestReleasedPerformer:
    """The features of the authors' code: over the largest of them, plus an epsilon that does not cancel."""

    def outputs(self, scale: float, **released: Any) -> tuple[Tensor, Tensor]:
        """What both formulas make of queries and keys as long as ``scale`` makes them; the values stay as they are."""
        found = []
        for declaration in (Performer(num_features=7), Performer(num_features=7, formula="released", **released)):
            module = made(declaration)
            with torch.no_grad():
                module.get_parameter("qkv.weight")[:12] *= scale
                module.get_parameter("qkv.bias")[:12] *= scale
                found.append(module(tokens()))
        return found[0], found[1]

    def test_without_its_epsilon_it_is_the_printed_form(self) -> None:
        paper, released = self.outputs(1.0, epsilon=1e-30)
        assert close(paper, released)

    def test_the_two_differ_in_proportion_to_the_epsilon_where_queries_and_keys_are_short(self) -> None:
        sizes = []
        for epsilon in (1e-4, 1e-6):
            paper, released = self.outputs(0.2, epsilon=epsilon)
            sizes.append(float((paper - released).abs().max()))
        assert sizes[0] == pytest.approx(100 * sizes[1], rel=0.05)
        assert 1e-5 < sizes[0] < 1e-2

    def test_long_queries_and_keys_are_averaged_where_the_printed_form_selects(self) -> None:
        paper, released = self.outputs(40.0)
        values_BNC = made(Performer(num_features=7)).get_submodule("qkv")(tokens())[..., 12:]
        mean_BNC = values_BNC.mean(dim=1, keepdim=True).expand_as(values_BNC)
        uniform_BNC = made(Performer(num_features=7)).get_submodule("proj")(mean_BNC)
        assert (released - uniform_BNC).abs().max() < 1e-6
        assert (paper - released).abs().max() > paper.std() / 2


class TestLinformer:
    def test_projected_by_the_identity_it_is_softmax_attention(self) -> None:
        identity = torch.eye(5, dtype=torch.float64).expand(2, 5, 5)
        assert difference_to_softmax(like_softmax(Linformer(projection_length=5), E=identity)) < 1e-12

    def test_a_permutation_of_projected_tokens_changes_nothing(self) -> None:
        permutation = torch.eye(5, dtype=torch.float64)[[3, 1, 4, 0, 2]].expand(2, 5, 5)
        assert difference_to_softmax(like_softmax(Linformer(projection_length=5), E=permutation)) < 1e-12

    def test_initial_projections_have_the_papers_deviation_also_in_a_whole_model(self) -> None:
        declaration = Linformer(projection_length=65)
        module = build(
            Vit(image_size=32, patch_size=4, num_classes=2, depth=2, dim=6, num_heads=2, attention=declaration)
        )
        for place in range(2):
            projection_HKN = module.get_parameter(f"blocks.{place}.attn.E").detach()
            assert projection_HKN.shape == (2, 65, 65)
            assert float(projection_HKN.std()) == pytest.approx(0.02, rel=0.05)
            assert abs(float(projection_HKN.mean())) < 0.001

    def test_another_number_of_tokens_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match="size"):
            made(Linformer(projection_length=3))(tokens(num_tokens=4))


def row_stochastic(size: int, sharpness: float = 4.0) -> Tensor:
    """Matrices (2, 3, size, size) as those among landmarks, with much on the diagonal."""
    scores = normal(2, 3, size, size) + sharpness * torch.eye(size, dtype=torch.float64)
    return scores.softmax(dim=-1)


class TestPseudoInverse:
    def test_enough_steps_give_the_inverse_of_what_has_one(self) -> None:
        weights = row_stochastic(6)
        assert close(pseudo_inverse(weights, num_steps=20), weights.inverse(), 1e-9)

    def test_each_step_cubes_what_is_missing(self) -> None:
        weights = row_stochastic(5, sharpness=1.0)
        identity = torch.eye(5, dtype=torch.float64)
        for num_steps in range(6):
            missing = identity - weights @ pseudo_inverse(weights, num_steps)
            next_missing = identity - weights @ pseudo_inverse(weights, num_steps + 1)
            wanted = missing @ missing @ missing @ (3 * identity + missing) / 4
            assert close(next_missing, wanted, 1e-10)

    def test_the_start_is_near_enough_to_converge_from(self) -> None:
        for sharpness in (0.0, 1.0, 10.0):
            weights = row_stochastic(8, sharpness)
            values = torch.linalg.svdvals(weights @ pseudo_inverse(weights, num_steps=0))
            assert values.max() <= 1 + 1e-12

    def test_landmarks_that_are_all_alike_have_their_pseudo_inverse(self) -> None:
        weights = torch.full((1, 1, 7, 7), 1 / 7, dtype=torch.float64)
        assert close(pseudo_inverse(weights), torch.linalg.pinv(weights), 1e-10)

    def test_a_shared_scale_is_the_one_that_the_largest_column_of_all_gives(self) -> None:
        weights = row_stochastic(5, sharpness=1.0)
        sums_BH = weights.sum(dim=-2).amax(dim=-1)
        start = pseudo_inverse(weights, num_steps=0, common_scale=True)
        assert close(start, weights.transpose(-2, -1) / sums_BH.max(), 1e-14)
        largest = sums_BH == sums_BH.max()
        assert largest.sum() == 1
        shared, own = (pseudo_inverse(weights, common_scale=common_scale) for common_scale in (True, False))
        assert torch.equal(shared[largest], own[largest])
        assert ((shared - own)[~largest].abs().amax(dim=(-2, -1)) > 1e-3).sum() >= 3  # the others have converged


class TestSegmentMeans:
    @pytest.mark.parametrize(
        ("num_tokens", "num_segments", "lengths"),
        [
            (6, 3, [2, 2, 2]),
            (5, 2, [2, 3]),
            (5, 3, [1, 2, 2]),
            (7, 4, [1, 2, 2, 2]),
            (197, 64, 59 * [3] + 5 * [4]),
            (5, 5, 5 * [1]),
            (3, 64, 3 * [1]),
            (4, 1, [4]),
        ],
    )
    def test_segments_differ_by_one_token_at_most_and_the_shorter_come_first(
        self, num_tokens: int, num_segments: int, lengths: list[int]
    ) -> None:
        x_BHND = normal(2, 3, num_tokens, 4)
        wanted = torch.stack([part.mean(dim=2) for part in x_BHND.split(lengths, dim=2)], dim=2)
        assert close(segment_means(x_BHND, num_segments), wanted, 1e-14)
        assert [len(segment) for segment in reference_linear.segments(num_tokens, num_segments)] == lengths


class TestNystrom:
    def test_with_a_landmark_a_token_and_the_exact_inverse_it_is_softmax_attention(self) -> None:
        q_BHND, k_BHND, v_BHND = (normal(2, 2, 6, 4, seed=seed) for seed in range(3))
        approximations = [
            attend_through_landmarks(q_BHND, k_BHND, v_BHND, 6, num_steps) for num_steps in (2, 6, 10, 30)
        ]
        exact_BHND = attend(q_BHND, k_BHND, v_BHND)
        errors = [float((approximation - exact_BHND).abs().max()) for approximation in approximations]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > 1e-3
        assert errors[-1] < 1e-9

    def test_where_tokens_of_a_segment_are_alike_landmarks_lose_nothing(self) -> None:
        distinct = [2 * normal(1, 1, 4, 8, seed=seed) for seed in range(2)]
        q_BHND, k_BHND = (each.repeat_interleave(3, dim=2) for each in distinct)
        v_BHND = normal(1, 1, 12, 8, seed=2)
        approximation = attend_through_landmarks(q_BHND, k_BHND, v_BHND, 4, num_steps=40)
        assert close(approximation, attend(q_BHND, k_BHND, v_BHND), 1e-9)

    def test_the_convolution_adds_a_value_at_a_distance_of_at_most_17_tokens(self) -> None:
        geometry = replace(GEOMETRY, num_tokens=40)
        x_BNC = tokens(num_tokens=40)
        module = made(Nystrom(num_landmarks=7), geometry=geometry)
        values_BNC = module.get_submodule("qkv")(x_BNC)[..., 12:]
        with torch.no_grad():
            module.get_parameter("proj.bias").zero_()
            module.get_parameter("conv.weight").zero_()
            without_BNC = module(x_BNC)
            for place, distance in [(0, -17), (17, 0), (18, 1), (34, 17)]:
                module.get_parameter("conv.weight").zero_()[:, 0, place, 0] = 1
                shifted_BNC = torch.zeros_like(values_BNC)
                for token in range(max(0, -distance), min(40, 40 - distance)):
                    shifted_BNC[:, token] = values_BNC[:, token + distance]
                added_BNC = nn.functional.linear(shifted_BNC, module.get_parameter("proj.weight"))
                assert close(module(x_BNC) - without_BNC, added_BNC, 1e-10)


class TestReleasedNystrom:
    """The initial inverse of the authors' code: one scale for all heads of the batch."""

    def modules(self, num_landmarks: int, spread: float = 1.0) -> tuple[nn.Module, nn.Module]:
        paper, released = (
            made(Nystrom(num_landmarks=num_landmarks, formula=formula), spread=spread, seed=1) for formula in FORMULAS
        )
        return paper, released

    def test_copies_of_an_example_change_nothing_and_another_example_does(self) -> None:
        _, released = self.modules(3)
        alone_BNC = released(tokens(batch=1))
        copies_BNC = released(tokens(batch=1).expand(3, -1, -1))
        assert close(copies_BNC, alone_BNC.expand(3, -1, -1), 1e-9)
        among_BNC = released(torch.cat([tokens(batch=1), 3 * tokens(batch=5, seed=2)]))
        assert (among_BNC[:1] - alone_BNC).abs().max() > 1e-3

    def test_with_one_landmark_there_is_no_scale_to_share(self) -> None:
        paper, released = self.modules(1)
        assert close(paper(tokens()), released(tokens()))
        assert not Nystrom(num_landmarks=1, formula="released").is_coupled

    @pytest.mark.parametrize("num_landmarks", [5, 64])
    def test_a_landmark_a_token_is_softmax_attention_and_the_convolution(self, num_landmarks: int) -> None:
        _, released = self.modules(num_landmarks, spread=0.2)
        with torch.no_grad():
            released.get_parameter("conv.weight").zero_()
            softmax = build_attention(Softmax(), GEOMETRY).double()
            softmax.load_state_dict({name: released.state_dict()[name] for name in softmax.state_dict()})
            assert torch.equal(released(tokens()), softmax(tokens()))

    def test_a_whole_model_of_it_is_coupled(self) -> None:
        images = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        changes = []
        for formula in FORMULAS:
            declaration = Nystrom(num_landmarks=4, formula=formula)
            model = build(
                Vit(image_size=8, patch_size=2, num_classes=2, depth=2, dim=6, num_heads=2, attention=declaration)
            ).double()
            generator = torch.Generator().manual_seed(1)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
                alone = torch.cat([model(image.unsqueeze(0)) for image in images])
                changes.append(float((model(images) - alone).abs().max()))
        assert changes[0] < 1e-9
        assert changes[1] > 1e-4


class TestDeclarations:
    @pytest.mark.parametrize(
        ("declaration", "key"),  # keys as they were before a formula was declared
        [
            (Performer(num_features=8), "e31058c9515f8584d590f9bd8259e8d6"),
            (Nystrom(num_landmarks=8), "78952639920b61998e939924c11e4452"),
        ],
        ids=["performer", "nystrom"],
    )
    def test_the_formula_leaves_keys_as_they_were_where_it_is_the_papers(self, declaration: Any, key: str) -> None:
        assert key_of(declaration) == key
        assert key_of(replace(declaration, formula="released")) != key

    def test_an_epsilon_that_nothing_adds_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"epsilon has no effect with formula paper, got 0\.5"):
            Performer(num_features=1, epsilon=0.5)
        with pytest.raises(ValueError, match=r"epsilon must be above 0, got 0\.0"):
            Performer(num_features=1, formula="released", epsilon=0.0)

    @pytest.mark.parametrize(
        ("declaration", "field"),
        [(Linformer(projection_length=198), "projection_length"), (Nystrom(num_landmarks=198), "num_landmarks")],
        ids=["linformer", "nystrom"],
    )
    def test_a_backbone_with_fewer_tokens_than_asked_for_is_a_problem(self, declaration: Any, field: str) -> None:
        message = "must be at most the 197 tokens of the backbone, got 198"
        assert declaration.problems_in(num_tokens=197, depth=12) == [(field, message)]
        assert declaration.problems_in(num_tokens=198, depth=12) == []
