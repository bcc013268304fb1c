"""Laws of single causal forms: running sums, subsets of the past, limits, and what is refused."""

import inspect
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from attention_laws import close
from causal_references import CAUSAL_REFERENCES
from presence import present
from test_causal_attention import GEOMETRY, geometry_of, made
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase, Formula
from robench.attention.bilateral import Bilateral
from robench.attention.build import build_attention
from robench.attention.elliptical import Elliptical
from robench.attention.fourier_mom import FourierMom
from robench.attention.heads import running_mean, running_sum
from robench.attention.kde import Kde
from robench.attention.linear import Linear
from robench.attention.linear_impl import CHUNK, running_features
from robench.attention.linear_twicing import LinearTwicing
from robench.attention.mgk import Mgk
from robench.attention.mom import Mom
from robench.attention.neutreno import Neutreno
from robench.attention.performer import Performer
from robench.attention.primal import Primal
from robench.attention.rkde import Rkde
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.softmax_impl import SoftmaxAttention
from robench.attention.state import ForwardState
from robench.attention.subsets import prefix_subsets
from robench.attention.symmetric_impl import SymmetricAttention
from robench.attention.twicing import Twicing
from robench.attention.twicing_impl import TwicingAttention
from robench.core.errors import DeclarationError
from robench.core.identity import key_of, to_plain
from robench.declarations.base import FieldsError
from robench.models.transformer import Boost, FeatScale, PlainResidual, ResidualBase
from robench.models.transformer_impl import BoostBlock, FeatScaleBlock, PlainBlock, build_block, parts_of
from robench.models.word_transformer import Language
from robench.testing.attention import tokens, tokens_for

X_BNC = tokens_for(GEOMETRY)
LANGUAGE = Language(vocabulary_size=8, depth=2, dim=8, num_heads=2, feedforward=8, context=12)


def drawn(*shape: int, seed: int = 3, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """Gradients of parameters and tokens of a weighted sum of the output, and the output."""
    X = X_BNC.clone().requires_grad_()
    output_BNC = module(X)
    (output_BNC * drawn(*output_BNC.shape)).sum().backward()
    found = {name: each.grad for name, each in module.named_parameters() if each.grad is not None}
    return {**found, "tokens": present(X.grad), "output": output_BNC.detach()}


def output(declaration: AttentionBase) -> Tensor:
    output_BNC: Tensor = made(declaration)(X_BNC)
    return output_BNC


def explicit(log_queries_BHNF: Tensor, log_keys_BHNF: Tensor, x_BHND: Tensor) -> Tensor:
    """A X with every weight formed from the logarithm of each pair of features."""
    rows = []
    for i in range(x_BHND.shape[-2]):
        pairs_BHMF = log_queries_BHNF[..., i : i + 1, :] + log_keys_BHNF[..., : i + 1, :]
        rows.append(pairs_BHMF.logsumexp(dim=-1).softmax(dim=-1).unsqueeze(-2) @ x_BHND[..., : i + 1, :])
    return torch.cat(rows, dim=-2)


class TestRunning:
    def test_means_and_sums_are_of_a_token_and_its_past(self) -> None:
        x_ND = torch.tensor([[2.0, 0.0], [4.0, -6.0], [0.0, 3.0]])
        assert running_sum(x_ND).tolist() == [[2, 0], [6, -6], [6, -3]]
        assert running_mean(x_ND).tolist() == [[2, 0], [3, -3], [2, -1]]

    @pytest.mark.parametrize("num_tokens", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
    def test_chunks_change_nothing(self, num_tokens: int) -> None:
        log_queries_BHNF, log_keys_BHNF = drawn(2, 2, num_tokens, 7), drawn(2, 2, num_tokens, 7, seed=4, scale=3)
        x_BHND = drawn(2, 2, num_tokens, 3, seed=5)
        found_BHND = running_features(log_queries_BHNF, log_keys_BHNF, x_BHND)
        assert close(found_BHND, explicit(log_queries_BHNF, log_keys_BHNF, x_BHND))

    @pytest.mark.parametrize("declaration", [Linear(), LinearTwicing(), Performer(num_features=8)], ids=str)
    @pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
    def test_gradients_through_chunks_are_finite_in_float32(self, declaration: AttentionBase, scale: float) -> None:
        geometry = replace(GEOMETRY, num_tokens=3 * CHUNK)
        x_BNC = (scale * tokens_for(geometry)).float().requires_grad_()
        output_BNC = made(declaration, geometry=geometry).float()(x_BNC)
        output_BNC.sum().backward()
        assert bool(output_BNC.isfinite().all() and present(x_BNC.grad).isfinite().all())

    @pytest.mark.parametrize("declaration", [Linear(), LinearTwicing(), Performer(num_features=8)], ids=str)
    def test_a_later_chunk_changes_nothing_before_it(self, declaration: AttentionBase) -> None:
        geometry = replace(GEOMETRY, num_tokens=3 * CHUNK)
        x_BNC, module = tokens_for(geometry), made(declaration, geometry=geometry)
        changed_BNC = torch.cat([x_BNC[:, : CHUNK + 3], 5 - 2 * x_BNC[:, CHUNK + 3 :]], dim=1)
        same_BN = (module(changed_BNC) == module(x_BNC)).all(dim=-1)
        assert bool(same_BN[:, : CHUNK + 3].all())
        assert not bool(same_BN[:, CHUNK + 3 :].any())


class TestLimits:
    def test_the_last_token_is_that_of_the_other_form_where_no_output_is_used_again(self) -> None:
        two_sided = replace(GEOMETRY, is_causal=False)
        for declaration in (Softmax(), Kde(), Linear(), Performer(num_features=8), Rkde(num_iterations=2)):
            other_BNC = made(declaration, geometry=two_sided)(X_BNC)
            assert close(output(declaration)[:, -1], other_BNC[:, -1], 1e-10), declaration.kind
            assert not close(output(declaration)[:, 0], other_BNC[:, 0], 1e-3), declaration.kind

    @pytest.mark.parametrize("formula", ["paper", "released"])
    @pytest.mark.parametrize("prefix", ["query", "key"])
    def test_equal_weights_are_kernel_regression(self, formula: str, prefix: str) -> None:
        declaration = Rkde(threshold=100, formula=formula, prefix=prefix)  # type: ignore[arg-type]  # both are literals
        assert close(output(declaration), output(Kde(formula=formula)))  # type: ignore[arg-type]  # as above

    def test_a_token_has_the_threshold_of_the_keys_up_to_it(self) -> None:
        """Large keys at the end change no threshold before; in the two-sided form they do."""
        declaration = Rpc(layers="all", num_iterations=2, sparsity=0.1)
        larger_BNC = torch.cat([X_BNC[:, :-1], 50 * X_BNC[:, -1:]], dim=1)
        moved = [
            (made(declaration, geometry=replace(GEOMETRY, is_causal=is_causal))(larger_BNC))[:, 0]
            - made(declaration, geometry=replace(GEOMETRY, is_causal=is_causal))(X_BNC)[:, 0]
            for is_causal in (True, False)
        ]
        assert bool((moved[0] == 0).all())
        assert bool((moved[1].abs() > 1e-3).any())

    def test_relevance_is_that_of_the_past(self) -> None:
        """The first token's W is of its own change, over the largest."""
        module = made(Elliptical())
        v_BHND, earlier_BHND = drawn(2, 2, 5, 4), drawn(2, 2, 5, 4, seed=9)
        diagonal_BHND = module.layer.relevance(v_BHND, earlier_BHND)  # type: ignore[operator]  # of EllipticalAttention
        change_BHND = (v_BHND - earlier_BHND).abs()
        assert close(diagonal_BHND[..., 0, :], change_BHND[..., 0, :] / change_BHND[..., 0, :].amax(-1, keepdim=True))
        two_BHD = change_BHND[..., :2, :].mean(dim=-2)
        assert close(diagonal_BHND[..., 1, :], two_BHD / two_BHD.amax(-1, keepdim=True))


class TestSubsetsOfThePast:
    def test_a_shorter_text_has_the_same_subsets(self) -> None:
        longer, shorter = (
            prefix_subsets((1, 2), batch_size=2, layer=3, num_subsets=3, num_tokens=count, fraction=0.6)
            for count in (20, 11)
        )
        assert torch.equal(longer[:, :, :11, :11], shorter)

    def test_subsets_examples_and_layers_differ_and_equal_seeds_do_not(self) -> None:
        first, second, again = prefix_subsets(
            (1, 2, 1), batch_size=3, layer=0, num_subsets=3, num_tokens=20, fraction=0.5
        )
        (other,) = prefix_subsets((1,), batch_size=1, layer=1, num_subsets=3, num_tokens=20, fraction=0.5)
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
        assert not torch.equal(first, other)
        assert not torch.equal(first[0], first[1])

    def test_every_token_of_a_prefix_is_as_likely(self) -> None:
        num_seeds, fraction, last = 4000, 0.5, 9
        members = prefix_subsets(
            range(num_seeds), batch_size=num_seeds, layer=0, num_subsets=1, num_tokens=last + 1, fraction=fraction
        )
        rates_N = members[:, 0, last].double().mean(dim=0)
        assert float((rates_N - fraction).abs().max()) < 5 * (fraction * (1 - fraction) / num_seeds) ** 0.5

    def test_without_seeds_draws_are_those_of_torchs_generator(self) -> None:
        sizes = {"batch_size": 2, "layer": 0, "num_subsets": 3, "num_tokens": 8, "fraction": 0.5}
        with torch.random.fork_rng():
            torch.manual_seed(5)
            first, second = (prefix_subsets(None, **sizes) for _ in range(2))  # type: ignore[arg-type]  # all are right
            torch.manual_seed(5)
            assert torch.equal(prefix_subsets(None, **sizes), first)  # type: ignore[arg-type]  # as above
        assert not torch.equal(first, second)

    def test_all_keys_are_taken_while_there_are_fewer_than_blocks(self) -> None:
        of_blocks, of_all = (output(each()) for each in (Mom, Kde))
        assert close(of_blocks[:, :4], of_all[:, :4])
        assert not close(of_blocks[:, 4:], of_all[:, 4:], 1e-3)
        assert close(output(Mom(num_blocks=13)), of_all)

    @pytest.mark.parametrize("kind", [Mom, FourierMom])
    def test_the_released_median_of_all_queries_is_refused(self, kind: type[Mom | FourierMom]) -> None:
        assert not kind().causal_problem
        with pytest.raises(DeclarationError, match=r"no causal form.*a query sees itself and later keys alone"):
            kind(formula="released").implemented_for(is_causal=True)
        with pytest.raises(FieldsError, match=r"attention must have a causal form.*the authors' language model is not"):
            replace(LANGUAGE, attention=kind(formula="released"))


class TestPrefixOfRkde:
    @pytest.mark.parametrize("formula", ["paper", "released"])
    @pytest.mark.parametrize("loss", ["huber", "hampel"])
    def test_the_authors_released_language_model_is_kernel_regression(self, formula: Formula, loss: str) -> None:
        """Also in its gradients, and whatever the loss, its threshold and the number of iterations."""
        of_kde, of_rkde = (
            gradients(made(each))
            for each in (
                Kde(formula=formula),
                Rkde(formula=formula, prefix="none", loss=loss, threshold=0.01, num_iterations=3),  # type: ignore[arg-type]  # literal
            )
        )
        assert of_kde.keys() == of_rkde.keys()
        assert all(close(of_kde[name], of_rkde[name], 1e-10) for name in of_kde)

    def test_the_default_changes_no_key_and_the_other_does(self) -> None:
        plain, stated, other = (key_of(to_plain(each)) for each in (Rkde(), Rkde(prefix="query"), Rkde(prefix="key")))
        assert plain == stated != other
        fields = to_plain(Rkde())
        assert isinstance(fields, dict)
        assert "prefix" not in fields


class TestParametersAndState:
    def test_the_mixture_weight_of_a_position_is_that_of_the_key(self) -> None:
        """Without the weights of position 5 its token counts for no query, and nothing else changes."""
        module = made(Mgk())
        before_BNC = module(X_BNC)
        with torch.no_grad():
            for name in ("pi0", "pi1"):
                module.get_parameter(name).fill_(0.7)
                module.get_parameter(name)[..., 5] = 0
            without_BNC = module(X_BNC)
            changed_BNC = X_BNC.clone()
            changed_BNC[:, 5] = 9
            same_N = (module(changed_BNC) == without_BNC).all(dim=-1).all(dim=0)
        assert not torch.equal(before_BNC, without_BNC)
        assert same_N.tolist() == [True] * 5 + [False] + [True] * 6

    def test_kept_logits_of_positions_are_those_of_the_length(self) -> None:
        for declaration in (Bilateral(), Bilateral(positions="sinusoid")):
            module = made(declaration).eval()
            with torch.no_grad():
                whole_BNC = module(X_BNC)
                assert close(module(X_BNC[:, :5]), whole_BNC[:, :5])
                assert torch.equal(module(X_BNC), whole_BNC)

    def test_the_loss_of_primal_attention_is_of_the_cumulative_means(self) -> None:
        module = made(Primal(num_directions=2, data_dependent=False))
        states = [ForwardState(losses_B=[]) for _ in range(2)]
        permuted_BNC = X_BNC.flip(1)
        for state, x_BNC in zip(states, (X_BNC, permuted_BNC), strict=True):
            module.layer(x_BNC, state)
        (one_B,), (other_B,) = (state.losses_B or [] for state in states)
        assert one_B.shape == (2,)
        assert not close(one_B, other_B, 1e-3)

    def test_performer_takes_no_maximum_over_keys(self) -> None:
        """A key that is far larger than the others leaves their features as they are."""
        module = made(Performer(num_features=8, formula="released")).layer
        q_BHND, k_BHND = drawn(1, 2, 4, 4), drawn(1, 2, 4, 4, seed=4)
        larger_BHND = torch.cat([k_BHND[..., :-1, :], 40 * k_BHND[..., -1:, :]], dim=-2)
        (_, before), (_, after) = (module.log_features(q_BHND, each) for each in (k_BHND, larger_BHND))  # type: ignore[operator]  # of PerformerAttention
        assert torch.equal(before[..., :-1, :], after[..., :-1, :])


class TestLayers:
    def test_other_layers_are_causal_too(self) -> None:
        twicing, rpc = Twicing(layers=(2,)), Rpc(layers=(0,))
        layers = [build_attention(twicing, replace(GEOMETRY, layer=place)) for place in range(3)]
        layers.append(build_attention(rpc, replace(GEOMETRY, layer=1)))
        assert [type(each) for each in layers] == [
            *(SoftmaxAttention, SoftmaxAttention),
            *(TwicingAttention, SymmetricAttention),
        ]
        assert all(each.is_causal for each in layers)

    def test_layers_that_read_earlier_values_run_one_after_the_other(self) -> None:
        for declaration in (Neutreno(), Elliptical()):
            layers = [build_attention(declaration, replace(GEOMETRY, layer=place)).double() for place in range(3)]
            x_BNC, outputs = tokens_for(GEOMETRY), []
            for tokens_BNC in (x_BNC, torch.cat([x_BNC[:, :7], -x_BNC[:, 7:]], dim=1)):
                state, y_BNC = ForwardState(), tokens_BNC
                for module in layers:
                    y_BNC = y_BNC + module(y_BNC, state)
                outputs.append(y_BNC)
            assert torch.equal(outputs[0][:, :7], outputs[1][:, :7])
            assert not close(outputs[0][:, 7:], outputs[1][:, 7:], 1e-3)


class TestRefusals:
    def test_primal_attention_with_weights_of_the_tokens_says_what_to_use(self) -> None:
        message = "attention primal has no causal form.*: data_dependent weights mix all tokens.*data_dependent: false"
        with pytest.raises(DeclarationError, match=message):
            build_attention(Primal(num_directions=2), GEOMETRY)
        assert Primal(num_directions=2, data_dependent=False).causal_problem == ""

    def test_a_mechanism_that_says_nothing_is_refused(self) -> None:
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Silent(Softmax):
            kind: ClassVar[str] = "silent"
            has_causal_form: ClassVar[bool] = False

        with pytest.raises(DeclarationError, match=r"attention silent .*: its declaration does not set has_causal"):
            build_attention(Silent(), GEOMETRY)

    def test_residual_connections(self) -> None:
        """All but FeatScale treat each token alone, and are their own causal forms."""
        parts = parts_of(Block(dim=8, num_heads=2), build_attention(Softmax(), GEOMETRY))
        for declaration, block in ((PlainResidual(), PlainBlock), (Boost(), BoostBlock)):
            assert type(build_block(declaration, parts, is_causal=True)) is block
        with pytest.raises(
            DeclarationError, match=r"residual connection featscale .*: it scales the mean over all tokens"
        ):
            build_block(FeatScale(), parts, is_causal=True)
        assert type(build_block(FeatScale(), parts)) is FeatScaleBlock

    def test_a_boosted_block_of_a_causal_layer_is_causal(self) -> None:
        parts = parts_of(Block(dim=8, num_heads=2), build_attention(Softmax(), GEOMETRY))
        block = build_block(Boost(), parts, is_causal=True).double()
        with torch.no_grad():
            block.get_parameter("t").fill_(0.3)
        x_BNC = tokens(num_tokens=6, dim=8)
        changed_BNC = torch.cat([x_BNC[:, :4], 3 - x_BNC[:, 4:]], dim=1)
        outputs = [block(each, each, ForwardState()) for each in (x_BNC, changed_BNC)]
        assert torch.equal(outputs[0][:, :4], outputs[1][:, :4])
        assert not close(outputs[0][:, 4:], outputs[1][:, 4:], 1e-3)

    def test_a_residual_connection_that_says_nothing_is_refused(self) -> None:
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Silent(ResidualBase):
            kind: ClassVar[str] = "silent"
            implementation: ClassVar[str] = PlainResidual.implementation

        with pytest.raises(DeclarationError, match=r"residual connection silent .*: its declaration does not set"):
            Silent().implemented_for(is_causal=True)


@pytest.mark.parametrize("kind", sorted(CAUSAL_REFERENCES))
def test_every_causal_form_states_its_source_and_its_cost(kind: str) -> None:
    module = sys.modules[ATTENTIONS[kind].implemented().__module__]
    paragraphs = (inspect.getdoc(module) or "").partition("\n\nCausal form: ")[2].split("\n\n")
    assert [text.partition(":")[0] for text in paragraphs if text.startswith(("Source:", "Cost:"))] == [
        "Source",
        "Cost",
    ]
    assert geometry_of(CAUSAL_REFERENCES[kind].declarations[0]).is_causal  # type: ignore[arg-type]  # all are attentions
