"""Declarations check themselves, whoever constructs them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import GaussianNoise, UniformNoise
from robench.attacks.pgd import Pgd
from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.attention.rpc import Rpc
from robench.datasets import DATASETS
from robench.declarations.base import FieldProblem, FieldsError, violations
from robench.declarations.preprocessing import PREPROCESSINGS, ImagePreprocessing
from robench.models import BACKBONES, RESIDUALS
from robench.models.foreign import Python
from robench.models.transformer import PlainResidual
from robench.models.vit import Vit
from robench.perturbations import PERTURBATIONS
from robench.perturbations.clean import Clean
from robench.training.images import Training

VIT: dict[str, Any] = {"image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 4, "dim": 64, "num_heads": 4}
PGD: dict[str, Any] = {"epsilon": Fraction(8, 255), "step_size": Fraction(2, 255), "num_steps": 20}
IMAGE: dict[str, Any] = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
TRAINING: dict[str, Any] = {"dataset": "digits", "seed": 0, "num_epochs": 1, "batch_size": 1, "learning_rate": 0.1}


@pytest.mark.parametrize("registry", [PERTURBATIONS, ATTENTIONS, RESIDUALS, BACKBONES, PREPROCESSINGS])
def test_registries_call_each_declaration_by_its_own_kind(registry: dict[str, Any]) -> None:
    assert {kind: declaration.kind for kind, declaration in registry.items()} == {kind: kind for kind in registry}
    assert all(declaration.__doc__ and declaration.version >= 1 for declaration in registry.values())


def test_datasets_are_called_by_their_own_name() -> None:
    assert {name: declared.name for name, declared in DATASETS.items()} == {name: name for name in DATASETS}


@pytest.mark.parametrize(
    ("declaration", "fields", "message"),
    [
        (Pgd, PGD | {"epsilon": Fraction(-1, 255)}, "epsilon must be at least 0, got -1/255"),
        (Pgd, PGD | {"step_size": Fraction(0)}, "step_size must be above 0, got 0"),
        (Pgd, PGD | {"num_steps": -3}, "num_steps must be at least 1, got -3"),
        (Pgd, PGD | {"num_restarts": 0}, "num_restarts must be at least 1, got 0"),
        (Pgd, PGD | {"num_restarts": 5, "random_start": False}, "num_restarts must be 1 without random_start, got 5"),
        (Pgd, PGD | {"step_size": None}, "one of step_size and relative_step must be given, got neither"),
        (Pgd, PGD | {"relative_step": Fraction(1, 4)}, "one of step_size and relative_step must be given, got both"),
        (Pgd, PGD | {"step_size": Fraction(9, 255)}, "a step must be at most epsilon 8/255 long, got 3/85"),
        (Pgd, PGD | {"returns": "last", "stop": "at_success"}, "returns must be best with stop at_success, got last"),
        (Pgd, PGD | {"momentum": 1.0}, "momentum must be below 1, got 1.0"),
        (UniformNoise, {"epsilon": Fraction(1, 2), "norm": "l2"}, "norm must be linf for uniform-noise, got l2"),
        (GaussianNoise, {"epsilon": 1, "norm": "l1"}, "norm must be linf or l2 for gaussian-noise, got l1"),
        (Rpc, {"num_iterations": 0}, "num_iterations must be at least 1, got 0"),
        (Rpc, {"sparsity": -1.0}, "sparsity must be at least 0, got -1.0"),
        (Vit, VIT | {"patch_size": 7}, "image_size must be a multiple of patch_size 7, got 32"),
        (Vit, VIT | {"num_heads": 5}, "dim must be a multiple of num_heads 5, got 64"),
        (Vit, VIT | {"attention": Rpc(layers=(0, 4))}, r"attention.layers must lie in 0..3 (depth 4), got [4]"),
        (Vit, VIT | {"attention": Rpc(layers=(-1,))}, r"attention.layers must lie in 0..3 (depth 4), got [-1]"),
        (Vit, VIT | {"mlp_ratio": 0.0}, "mlp_ratio must be above 0, got 0.0"),
        (Python, {"target": "package.module"}, "target must be package.module:function, got package.module"),
        (Python, {"target": "a b:c"}, "target must be package.module:function, got a b:c"),
        (ImagePreprocessing, IMAGE | {"std": (0.5, 0.0, 0.5)}, "std must be above 0 in every channel"),
        (ImagePreprocessing, IMAGE | {"mean": (124.0, 0.5, 0.5)}, r"mean must lie in [0, 1] in every channel"),
        (ImagePreprocessing, IMAGE | {"mean": (123.7, 116.3, 103.5)}, "103.5]; divide mean and std by 255"),
        (ImagePreprocessing, IMAGE | {"crop": 0}, "crop must be at least 1, got 0"),
        (Training, TRAINING | {"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        (Training, TRAINING | {"label_smoothing": 1.5}, "label_smoothing must be at most 1, got 1.5"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(declaration: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the message is what is compared
        declaration(**fields)
    assert message in str(caught.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"epsilon.*num_steps.*step_size"):
        Pgd(epsilon=Fraction(-8), step_size=Fraction(0), num_steps=-3)


def test_sound_declarations_are_accepted() -> None:
    assert Vit(**VIT, attention=Rpc(layers="all")).num_tokens == 17
    assert Pgd(**PGD).threat_model.epsilon == Fraction(8, 255)
    assert Python(target="package.module:function").arguments == {}
    assert ImagePreprocessing(**IMAGE).crop is None


def test_only_bounded_attacks_have_a_threat_model() -> None:
    assert Clean().threat_model is None
    assert str(Fgsm(epsilon=Fraction(4, 255)).threat_model) == "linf-4/255"


def test_nothing_is_wanted_of_none() -> None:
    assert violations(None, ("anything",)) == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Landmarks(AttentionBase):
    """A mechanism of which a backbone knows more than it does itself."""

    kind: ClassVar[str] = "landmarks"

    num_landmarks: int
    last_layer: int = 0

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        problems = []
        if self.num_landmarks > num_tokens:
            problems.append(("num_landmarks", f"must be at most {num_tokens}, the tokens, got {self.num_landmarks}"))
        if self.last_layer >= depth:
            problems.append(("last_layer", f"must be below {depth}, the depth, got {self.last_layer}"))
        return problems


OWN = ("dim", "must be a multiple of num_heads 4, got 65")
OF_TOKENS = ("attention.num_landmarks", "must be at most 17, the tokens, got 18")
OF_DEPTH = ("attention.last_layer", "must be below 4, the depth, got 4")


@pytest.mark.parametrize(("dim", "last_layer", "problems"), [(64, 4, (OF_TOKENS, OF_DEPTH)), (65, 0, (OWN, OF_TOKENS))])
def test_an_attention_is_asked_what_does_not_fit_its_backbone_beside_whose_own_problems_it_is_told(
    dim: int, last_layer: int, problems: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(FieldsError) as caught:
        Vit(**VIT | {"dim": dim}, attention=Landmarks(num_landmarks=18, last_layer=last_layer))
    assert caught.value.problems == problems
    assert str(caught.value) == "; ".join(map(" ".join, problems))


@pytest.mark.parametrize("wrong", ["softmax", None, PlainResidual(), Landmarks])
def test_a_member_of_another_type_is_refused(wrong: Any) -> None:
    with pytest.raises(FieldsError, match=r"^attention must be a declaration of the type AttentionBase, got "):
        Vit(**VIT, attention=wrong)


def test_an_attention_that_fits_its_backbone_is_accepted() -> None:
    assert Vit(**VIT, attention=Landmarks(num_landmarks=17, last_layer=3)).attention.kind == "landmarks"


def test_residual_connections_have_the_kinds_and_fields_that_are_documented() -> None:
    assert list(RESIDUALS) == ["plain", "boost", "featscale"]
    assert RESIDUALS["featscale"]().formula == "paper"  # type: ignore[attr-defined]  # of FeatScale alone


@pytest.mark.parametrize("field", ["patch_size", "num_heads", "depth"])
def test_a_size_of_zero_is_refused_by_its_bound_before_anything_is_divided_by_it(field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must be at least 1, got 0$"):
        Vit(**VIT | {field: 0})
