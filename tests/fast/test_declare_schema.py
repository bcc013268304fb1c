"""Dataclasses as schemas, for every declaration that there is."""

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, MinLen

from examples import ARCHITECTURE
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attention import ATTENTIONS
from robench.attention.base import Layers
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric
from robench.core.errors import DeclarationError
from robench.core.identity import to_plain
from robench.declarations.base import DeclarationBase, FieldsError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import parse_architecture
from robench.declare.document import Problem, document_from_python
from robench.declare.schema import FAMILIES, attempt, construct, construct_member, model_of
from robench.models.foreign import Python, Timm
from robench.models.vit import Vit
from robench.training.images import Training

VIT = {"backbone": "vit", "image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 4, "dim": 64, "num_heads": 4}
MEMBERS = [declared for family in FAMILIES.values() for declared in family.members.values()]

KINDS = ", ".join(sorted(ATTENTIONS))


def read(declared: type, value: object) -> object:
    problems: list[Problem] = []
    document = document_from_python(value, "x")
    met = attempt(partial(construct, declared), document, (), problems)
    return document.settle(met, problems)


def problems_of(declared: type, value: object) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        read(declared, value)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def architecture_problems(**changes: object) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        parse_architecture({**VIT, **changes})
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


@pytest.mark.parametrize("declared", [*MEMBERS, Training], ids=lambda declared: declared.__name__)
def test_every_declaration_has_a_model_with_its_fields(declared: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_of.__wrapped__(declared)
    assert list(model.model_fields) == [field.name for field in dataclasses.fields(declared)]


@pytest.mark.parametrize(
    ("family", "declaration"),
    [
        ("perturbation", Fgsm(epsilon=Fraction(8, 255))),
        ("perturbation", Pgd(epsilon=Fraction(3, 100), step_size=Fraction(1, 1000), num_steps=20, random_start=False)),
        ("perturbation", Pgd(epsilon=Fraction(1), step_size=Fraction(1), num_steps=1, num_restarts=5)),
        ("attention", Softmax()),
        ("attention", Rpc(layers="all", sparsity=0.5, formula="released")),
        ("attention", Rpc(layers=(), num_iterations=6, elsewhere="softmax")),
        ("preprocessing", ImagePreprocessing(mean=(0.5, 0.25, 0.0), std=(1.0, 0.1, 0.3), resize=256, crop=224)),
        ("architecture", Timm(name="deit_tiny_patch16_224", arguments={"drop_rate": 0.1, "num_classes": 10})),
        ("architecture", Python(target="package.module:build", arguments={"a": None, "b": True, "c": "text"})),
        ("architecture", dataclasses.replace(ARCHITECTURE, mlp_ratio=2.0, attention=Rpc(layers=(0, 3)))),
    ],
    ids=str,
)
def test_the_plain_form_of_a_declaration_reads_back_as_itself(family: str, declaration: DeclarationBase) -> None:
    plain = to_plain(declaration)
    assert isinstance(plain, dict)
    # The implementation's version is of keys, not of files.
    tagged = {FAMILIES[family].tag if name == "kind" else name: plain[name] for name in plain.keys() - {"version"}}
    document = document_from_python(tagged, "x")
    problems: list[Problem] = []
    assert attempt(partial(construct_member, FAMILIES[family]), document, (), problems) == declaration
    assert problems == []


def test_an_architecture_by_itself() -> None:
    attention = {"kind": "rpc", "num_iterations": 6, "sparsity": 4, "layers": [0], "elsewhere": "symmetric"}
    assert parse_architecture({**VIT, "num_channels": 3, "attention": attention, "residual": {"kind": "plain"}}) == Vit(
        image_size=32,
        patch_size=8,
        num_channels=3,
        num_classes=10,
        depth=4,
        dim=64,
        num_heads=4,
        attention=Rpc(num_iterations=6, sparsity=4.0, layers=(0,)),
    )


def test_whole_numbers_in_float_fields_become_floats() -> None:
    vit = parse_architecture({**VIT, "mlp_ratio": 2})
    assert isinstance(vit, Vit)
    assert isinstance(vit.mlp_ratio, float)
    assert vit == parse_architecture({**VIT, "mlp_ratio": 2.0})


def test_a_mapping_that_omits_defaults_is_the_one_that_states_them() -> None:
    stated = {"num_channels": 3, "mlp_ratio": 4.0, "attention": {"kind": "softmax"}, "residual": {"kind": "plain"}}
    assert parse_architecture(VIT) == parse_architecture({**VIT, **stated})


def test_all_fields_are_checked_at_once() -> None:
    assert architecture_problems(depth=0, dim="64", mlp_ratio=-1.0, heads=4, attention={"kind": "symetric"}) == [
        "depth: must be at least 1, got 0",
        "dim: must be a whole number, got '64'",
        "attention.kind: unknown attention 'symetric'. Did you mean 'symmetric'?",
        "mlp_ratio: must be above 0, got -1.0",
        "heads: unknown field 'heads'. Did you mean 'num_heads'?",
    ]


def test_contradictions_between_fields_are_problems_at_their_fields() -> None:
    attention = {"kind": "rpc", "layers": [0, 4, -1]}
    assert architecture_problems(image_size=33, dim=65, attention=attention) == [
        "image_size: must be a multiple of patch_size 8, got 33",
        "dim: must be a multiple of num_heads 4, got 65",
        "attention.layers: must lie in 0..3 (depth 4), got [4, -1]",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strange:
    size: int
    plain: bool = False

    def __post_init__(self) -> None:
        if self.plain:
            raise ValueError("size must be a surprise; nothing fits")
        raise FieldsError(
            [("", "nothing fits; size must be a surprise"), ("size", "must be odd"), ("width", "must be given")]
        )


def test_contradictions_are_problems_of_their_field_or_of_the_whole() -> None:
    assert problems_of(Strange, {"size": 1}) == [
        "nothing fits; size must be a surprise",
        "size: must be odd",
        "width must be given",
    ]
    # No text is taken apart: what a foreign class raises stands as it is.
    assert problems_of(Strange, {"size": 1, "plain": True}) == ["size must be a surprise; nothing fits"]


@pytest.mark.parametrize(
    ("attention", "problem"),
    [
        ("rpc", "attention: must be a mapping such as {kind: rpc}, got 'rpc'"),
        ("other", "attention: must be a mapping such as {kind: softmax}, got 'other'"),
        (None, "attention: must be a mapping such as {kind: softmax}, got null"),
        ([], "attention: must be a mapping such as {kind: softmax}, got a list"),
        ({}, f"attention.kind: missing. Known: {KINDS}."),
        ({"kind": 3}, f"attention.kind: must be one of {KINDS}, got 3"),
        ({"kind": "softmax", "scale": 2}, "attention.scale: unknown field 'scale'. Known: kind."),
        ({"kind": "rpc", "layers": "al"}, "attention.layers: unknown value 'al'. Did you mean 'all'? Or a list."),
        ({"kind": "rpc", "layers": 3}, "attention.layers: must be a list, got 3"),
        ({"kind": "rpc", "layers": [0, "1"]}, "attention.layers[1]: must be a whole number, got '1'"),
        ({"kind": "rpc", "layers": None}, "attention.layers: must be a list, got null"),
        ({"kind": "rpc", "formula": "code"}, "attention.formula: unknown value 'code'. Known: paper, released."),
    ],
    ids=str,
)
def test_one_mistake_in_a_union_is_one_problem(attention: object, problem: str) -> None:
    assert architecture_problems(attention=attention) == [problem]


def test_the_backbone_is_told_by_kind_or_by_its_own_field() -> None:
    name = "deit_tiny_patch16_224"
    by_kind = parse_architecture({"kind": "timm", "name": name})
    assert by_kind == parse_architecture({"backbone": "timm", "name": name})


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        (
            {},
            "backbone: missing. Known: behaviour-cloning, decision-transformer, fan, language, python, quantized-vit, "
            "segmenter, series, text-classifier, timm, timm-segmenter, token-classifier, transformers, vit.",
        ),
        ({"kind": "vti"}, "kind: unknown backbone 'vti'. Did you mean 'vit'?"),
        ({"kind": "vit", "backbone": "vit"}, "kind: must not be given beside backbone; remove one of the two"),
    ],
    ids=str,
)
def test_exactly_one_of_the_two_tells_the_backbone(tags: dict[str, str], problem: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_architecture(tags, "mine")
    first, second = str(caught.value).splitlines()
    assert first == "mine: 1 problem"
    assert second.strip().startswith(problem)


def test_a_misspelt_required_field_is_one_problem() -> None:
    fields = {name: value for name, value in VIT.items() if name not in ("num_heads", "depth")}
    with pytest.raises(DeclarationError) as caught:
        parse_architecture({**fields, "num_head": 4})
    lines = str(caught.value).splitlines()[1:]
    assert [line.split(":")[0].strip() for line in lines] == ["depth", "num_head"]
    assert "Did you mean 'num_heads'?" in lines[1]


@pytest.mark.parametrize(
    ("mean", "problem"),
    [
        ([0.5], "std: must have as many entries as mean (1), got 3"),
        ([0.5] * 4, "std: must have as many entries as mean (4), got 3"),
        (0.5, "mean: must be a list, got 0.5"),
        ([0.5, "a", 0.5], "mean[1]: must be a number, got 'a'"),
        (
            [0.5, 123.0, 0.5],
            "mean: must lie in [0, 1] in every channel (pixel units), got [0.5, 123.0, 0.5]; "
            "divide mean and std by 255",
        ),
        ([0.5, 256.0, 0.5], "mean: must lie in [0, 1] in every channel (pixel units), got [0.5, 256.0, 0.5]"),
    ],
    ids=str,
)
def test_one_mistake_in_a_tuple_is_one_problem(mean: object, problem: str) -> None:
    assert problems_of(ImagePreprocessing, {"mean": mean, "std": [1, 1, 1]}) == [problem]


def test_optional_fields_take_null_and_keep_their_bounds() -> None:
    channels = {"mean": [0, 0, 0], "std": [1, 1, 1]}
    assert read(ImagePreprocessing, {**channels, "crop": None}) == ImagePreprocessing(mean=(0, 0, 0), std=(1, 1, 1))
    assert problems_of(ImagePreprocessing, {**channels, "crop": 0}) == ["crop: must be at least 1, got 0"]


def test_what_could_not_be_read_is_one_problem_wherever_it_stands() -> None:
    nowhere = float("nan")
    attention = {"kind": "rpc", "layers": nowhere, "formula": nowhere, "num_iterations": nowhere}
    problems = architecture_problems(depth=nowhere, mlp_ratio=nowhere, residual=nowhere, attention=attention)
    assert len(problems) == 6
    assert all(problem.endswith("must be a finite number of reasonable size") for problem in problems)
    assert architecture_problems(attention={"kind": nowhere}) == [
        "attention.kind: must be a finite number of reasonable size"
    ]


@pytest.mark.parametrize("value", [None, "vit", 3, [VIT]])
def test_an_architecture_is_a_mapping(value: object) -> None:
    with pytest.raises(DeclarationError, match="1 problem\n  must be a mapping such as"):
        parse_architecture(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    size: Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: Inner
    maybe: Inner | None = None
    several: Annotated[tuple[Inner, ...], MinLen(1)] = (Inner(size=1),)
    by_name: Mapping[str, Inner] = field(default_factory=dict)
    layers: Layers | None = None
    how: Literal["deep"] = "deep"


def test_dataclasses_nest_in_each_other_in_tuples_and_in_mappings() -> None:
    value = {
        "inner": {"size": 1}, "maybe": {"size": 2}, "several": [{"size": 3}, {"size": 4}],
        "by_name": {"a": {"size": 5}}, "layers": [1, 2],
    }  # fmt: skip
    assert read(Outer, value) == Outer(
        inner=Inner(size=1), maybe=Inner(size=2), several=(Inner(size=3), Inner(size=4)),
        by_name={"a": Inner(size=5)}, layers=(1, 2),
    )  # fmt: skip
    assert read(Outer, {"inner": {"size": 1}, "maybe": None, "layers": "all"}) == Outer(
        inner=Inner(size=1), layers="all"
    )


def test_problems_in_nested_dataclasses_have_their_whole_place() -> None:
    value = {
        "inner": 3, "maybe": {"size": 0}, "several": [{"size": 3}, {"sizes": 4}],
        "by_name": {"a": {}, "b": {"size": True}}, "layers": "none", "how": None,
    }  # fmt: skip
    assert problems_of(Outer, value) == [
        "inner: must be a mapping, got 3",
        "maybe.size: must be at least 1, got 0",
        "several[1].sizes: unknown field 'sizes'. Did you mean 'size'?",
        "by_name.a.size: missing: it must be a whole number",
        "by_name.b.size: must be a whole number, got true",
        "layers: unknown value 'none'. Known: all. Or a list.",
        "how: must be one of deep, got null",
    ]
    assert problems_of(Outer, {"inner": {"size": 1}, "several": [], "by_name": []}) == [
        "several: must have at least 1 entry, got 0",
        "by_name: must be a mapping, got a list",
    ]


def test_a_field_that_nothing_reads_is_an_error_of_the_program() -> None:
    @dataclass
    class Unknown:
        value: complex

    @dataclass
    class Ambiguous:
        value: int | str

    @dataclass
    class Familyless:
        nobody: DeclarationBase

    for declared in (Unknown, Ambiguous, Familyless):
        with pytest.raises(
            TypeError, match=r"no reader for the field value|no family of declarations for the field nobody"
        ):
            model_of(declared)


def test_kinds_are_told_apart_where_names_are_alike() -> None:
    assert parse_architecture({**VIT, "attention": {"kind": "symmetric"}}) != parse_architecture(VIT)
    vit = parse_architecture({**VIT, "attention": {"kind": "symmetric"}})
    assert isinstance(vit, Vit)
    assert vit.attention == Symmetric()
