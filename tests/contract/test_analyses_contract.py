"""What every analysis promises, over the whole registry, and its numbers against slow references."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import planted_analyses as planted
import pytest
import torch
from analysis_references import REFERENCES, Inside, Layer
from presence import present

from robench.analyses import ANALYSES
from robench.analyses.base import AnalysisBase, Pass
from robench.analyses.change import AttentionChange
from robench.analyses.kernel_pca import Eigenvectors, ProjectionError
from robench.analyses.observing import check_shown, layout_of, observe, possible_analyses
from robench.analyses.spectra import EffectiveRank, Spectrum
from robench.analyses.weights import AttentionDistance, Entropy
from robench.attention.base import AttentionBase
from robench.attention.geometry import TokenLayout
from robench.attention.primal import Primal
from robench.attention.rkde import Rkde
from robench.attention.rpc import Rpc
from robench.attention.seen import Seen
from robench.attention.softmax import Softmax
from robench.attention.twicing import Twicing
from robench.core.errors import DeclarationError
from robench.testing import check_analysis
from robench.testing.analysis import ANALYSIS_CHECKS, numbers_of, pass_of, passes_for, random_images, random_model
from robench.testing.expectations import DECLARATION_CHECKS

TOLERANCE = 1e-10
# Formulas of random samples, which take seconds by their defaults.
FEW = {"num_samples": 20, "max_tokens": 1000, "num_sizes": 5}
CHEAPER = {"softmax-noise": FEW, "softmax-lipschitz": FEW}
MECHANISMS: list[AttentionBase] = [Softmax(), Twicing(), Rkde(), Rpc(num_iterations=2)]
PRIMAL = Primal(num_directions=3)
OF_MODELS = sorted(kind for kind, declared in ANALYSES.builtin.items() if ANALYSES[kind].subject != "formula")
SETTINGS = [
    pytest.param(kind, settings, id="-".join([kind, *map(str, settings.values())]))
    for kind in OF_MODELS
    for settings in REFERENCES[kind].settings
]


@pytest.mark.parametrize("check", [*DECLARATION_CHECKS, *ANALYSIS_CHECKS], ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", sorted(ANALYSES.builtin))
def test_analyses(kind: str, check: Callable[..., None]) -> None:
    assert ANALYSES[kind].kind == kind
    check(ANALYSES[kind](**CHEAPER.get(kind, {})))


def inside_of(seen: Pass, place: int) -> Inside:
    """One example of a pass, as nested lists."""
    return Inside(
        layers=[
            Layer(
                heads=layer.heads_BHND[place].tolist(),
                queries=lists_of(layer.queries_BHND, place),
                keys=lists_of(layer.keys_BHMD, place),
                values=lists_of(layer.values_BHMD, place),
                weights=lists_of(layer.weights_BHNM, place),
            )
            for layer in seen.layers
        ],
        tokens=[tokens_BNC[place].tolist() for tokens_BNC in seen.tokens_BNC],
        num_special=seen.layout.num_special,
        grid=seen.layout.grid,
    )


def lists_of(part: torch.Tensor | None, place: int) -> Any:
    return present(part)[place].tolist()


def require_as_referenced(declaration: AnalysisBase, passes: tuple[Pass, ...]) -> None:
    found = numbers_of(declaration, passes)
    for place in range(len(passes[0].tokens_BNC[0])):
        wanted = REFERENCES[declaration.kind].compute(declaration, *(inside_of(each, place) for each in passes))
        assert wanted.keys() == found.keys()
        for name, numbers in wanted.items():
            expected = torch.tensor(numbers, dtype=torch.float64)
            torch.testing.assert_close(found[name][place], expected, rtol=TOLERANCE, atol=TOLERANCE, msg=name)


@pytest.mark.parametrize("attention", MECHANISMS, ids=lambda each: each.kind)
@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
def test_numbers_are_those_of_the_reference(kind: str, settings: dict[str, Any], attention: AttentionBase) -> None:
    declaration = ANALYSES[kind](**settings)
    model, images = random_model(attention), random_images(2).double()
    passes = [pass_of(*model, images), pass_of(*model, images + 0.1 * images.sin())]
    require_as_referenced(declaration, tuple(passes[: 2 if declaration.subject == "change" else 1]))


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
def test_numbers_of_causal_layers_and_without_a_class_token_are_too(kind: str, settings: dict[str, Any]) -> None:
    declaration = ANALYSES[kind](**settings)
    for passes in passes_for(declaration):
        if passes[0].tokens_BNC[0].dtype == torch.float64:
            require_as_referenced(declaration, passes)
    pooled = pass_of(*random_model(Softmax(), pooling="mean"), random_images(2).double())
    require_as_referenced(declaration, (pooled,) * len(passes_for(declaration)[0]))


@pytest.mark.parametrize("attention", [*MECHANISMS, PRIMAL], ids=lambda each: each.kind)
def test_observing_changes_no_output(attention: AttentionBase) -> None:
    architecture, module = random_model(attention)
    images, outputs = random_images().double(), []

    def run() -> None:
        outputs.append(module(images))

    with torch.no_grad():
        run()
    observe(module, run, layout_of(architecture))
    assert torch.equal(*outputs)


def test_what_a_model_does_not_show_is_refused_with_what_is_possible() -> None:
    without_weights = Primal(num_directions=3, data_dependent=False)
    seen = pass_of(*random_model(without_weights), random_images().double())
    assert possible_analyses(seen) == ["token-similarity"]
    with pytest.raises(DeclarationError, match=r"needs weights in layers 0, 1, 2.*Possible are: token-similarity$"):
        check_shown(Entropy(), seen, "digits-primal-vit")
    texts = replace(pass_of(*random_model(Softmax()), random_images().double()), layout=TokenLayout())
    with pytest.raises(DeclarationError, match="needs patches of images: its tokens are others"):
        check_shown(ANALYSES["rollout"](), texts, "a language model")


def of_weights(weights: torch.Tensor, values: torch.Tensor | None = None, layout: TokenLayout | None = None) -> Pass:
    """Pass of one layer with one head, whose weights are given."""
    values = torch.randn(len(weights), 3, dtype=torch.float64) if values is None else values
    part = values.expand(1, 1, *values.shape)
    layer = Seen(
        heads_BHND=part, queries_BHND=part, keys_BHMD=part, values_BHMD=part, weights_BHNM=weights.expand(1, 1, -1, -1)
    )
    return Pass(layers=(layer,), tokens_BNC=(values[None],) * 2, layout=layout or TokenLayout())


def test_numbers_of_weights_that_are_known_in_closed_form() -> None:
    size = 6
    uniform, alone = torch.full((size, size), 1 / size).double(), torch.eye(size).double()
    shifted = alone.roll(1, dims=1)
    of = {
        "entropy": Entropy(),
        "effective_rank": EffectiveRank(),
        "distance": AttentionDistance(),
        "smoothing": Spectrum(),
    }

    def number(name: str, weights: torch.Tensor) -> float:
        return numbers_of(of[name], (of_weights(weights),))[name].item()

    assert [number("effective_rank", each) for each in (uniform, alone, 0 * alone)] == pytest.approx([1, size, 0])
    assert number("distance", shifted) == pytest.approx((size - 1) * 2 / size)
    assert [number("smoothing", each) for each in (uniform, alone, shifted)] == pytest.approx([0, 1, 1])
    # Signed weights count by their sizes.
    signs = torch.tensor([1.0, -1.0]).double().repeat(size // 2)
    assert number("entropy", signs * uniform) == pytest.approx(math.log(size))
    # Twicing makes 2 x - x^2 of an eigenvalue x.
    symmetric = uniform / 2 + alone / 2
    eigenvalues, twiced = (
        numbers_of(Spectrum(), (of_weights(each),))["eigenvalue"].flatten()
        for each in (symmetric, 2 * symmetric - symmetric @ symmetric)
    )
    assert eigenvalues.tolist() == pytest.approx([1, *[0.5] * (size - 1)])
    torch.testing.assert_close(twiced, 2 * eigenvalues - eigenvalues.square())


def test_what_has_no_number_counts_as_nothing() -> None:
    zeros = torch.zeros(4, 4).double()
    for kind in OF_MODELS:
        declaration = ANALYSES[kind]()
        layout = TokenLayout(num_special=0, grid=(2, 2))
        passes = (of_weights(zeros, zeros, layout),) * (2 if declaration.subject == "change" else 1)
        assert all(numbers.isfinite().all() for numbers in numbers_of(declaration, passes).values()), kind


def test_large_logits_overflow_no_projection_error() -> None:
    # exp(q.q / sqrt(D)) is exp(1,600), and its quotient by the square of the sum is 1 / exp(1,600).
    values = torch.full((3, 16), 20.0).double()
    (found,) = numbers_of(ProjectionError(), (of_weights(torch.eye(3).double(), values),)).values()
    assert found.item() == pytest.approx(-6400)
    found_ratios = numbers_of(Eigenvectors(), (of_weights(torch.eye(3).double(), values + torch.eye(3, 16)),))
    assert all(numbers.isfinite().all() for numbers in found_ratios.values())


def test_values_that_are_eigenvectors_have_one_ratio() -> None:
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    kernel = (keys @ keys.T / 2).exp()
    g = kernel.sum(dim=1)
    centring = torch.eye(7).double() - 1 / 7
    eigenvalues, vectors = torch.linalg.eigh(centring @ (kernel / g / g[:, None]) @ centring)
    # The last four, of the largest eigenvalues.
    values = vectors[:, -4:] / g[:, None]
    layer = replace(of_weights(torch.eye(7).double(), keys).layers[0], values_BHMD=values.expand(1, 1, -1, -1))
    seen = Pass(layers=(layer,), tokens_BNC=(), layout=TokenLayout())
    found = numbers_of(Eigenvectors(), (seen,))
    assert found["eigenvalue_max"].item() == pytest.approx(eigenvalues[-1].item() / 7, rel=1e-9)
    assert found["eigenvalue_min"].item() == pytest.approx(eigenvalues[-4].item() / 7, rel=1e-9)
    assert found["difference_mean"].max().item() < 1e-9


def test_changes_of_other_numbers_of_tokens_are_refused() -> None:
    with pytest.raises(DeclarationError, match="makes 5 tokens of 4"):
        numbers_of(AttentionChange(), (of_weights(torch.eye(4)), of_weights(torch.eye(5))))


def test_what_is_honest_passes() -> None:
    check_analysis(planted.HonestAnalysis())
    check_analysis(planted.HonestFormula())


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (planted.LeavesOneOut, "returns ; expected largest"),
        (
            planted.ForgetsHeads,
            "returns largest of shape (3, 3) for 3 examples, 3 layers of 2 heads; expected the axes",
        ),
        (planted.CountsInIntegers, "returns largest as torch.int64; expected a tensor of float32 or float64"),
        (planted.DividesByZero, "returns largest that is infinite or no number"),
        (planted.MixesExamples, "has another largest of example 0 alone than in a batch"),
        (planted.WritesIntoWeights, "writes into the tensors of the pass"),
        (planted.DrawsNumbers, "moves the global random generator of torch"),
        (planted.ReadsValues, "raised AssertionError for a pass that shows only weights, which it needs"),
        (planted.LacksALabel, "has largest with axes ('layer', 'x') and no label of x"),
        (planted.WithoutPlaces, "returns square with 0 places on x; expected 5"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_of_an_analysis_is_found(declared: Any, found: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_analysis(declared())
    assert str(caught.value).startswith("analysis 'planted' ")
    assert found in str(caught.value)
