"""Every number that a file may state has a bound below and one above, so that no file asks for what never ends."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

import annotated_types
import pytest
from pydantic import ValidationError

from robench.attention import ATTENTIONS
from robench.attention.scaled import Scaled
from robench.core.errors import DeclarationError
from robench.datasets.base import DatasetBase
from robench.declarations.preprocessing import PREPROCESSINGS
from robench.declare import parse_architecture
from robench.declare.registry import CheckpointEntry, RegistryEntry, WeightsEntry
from robench.declare.schema import construct
from robench.declare.suites import ConditionEntry, SuiteEntry
from robench.declare.sweeps import SweepEntry
from robench.evaluation.actions import Audit
from robench.models import BACKBONES, RESIDUALS
from robench.models.foreign import Timm
from robench.models.transformer import MOST_PARAMETERS
from robench.models.vit import MOST_TOKENS
from robench.perturbations import PERTURBATIONS
from robench.testing.expectations import unbounded
from robench.training import TRAININGS

REGISTRIES: tuple[Mapping[str, type], ...] = (
    BACKBONES, ATTENTIONS, RESIDUALS, PERTURBATIONS, PREPROCESSINGS, TRAININGS,
)  # fmt: skip
ENTRIES = (SuiteEntry, ConditionEntry, SweepEntry, RegistryEntry, CheckpointEntry, WeightsEntry)
DECLARED = [*dict.fromkeys([*(kind for each in REGISTRIES for kind in each.values()), Audit, DatasetBase, *ENTRIES])]

# Fields whose bounds are no annotation, with the reason.
ALLOWED = {
    "layers": "0 to depth - 1, by Transformer.contradictions",
    "mean": "0 to 1, by ImagePreprocessing.contradictions",
    "std": "above 0 and at most 10^6, by ImagePreprocessing.contradictions",
    "arguments": "of timm, by Timm.contradictions; of the user's own function, whatever that takes",
    "output": "an index that the user's own model has, and is asked for when it runs",
    "expected": "0 to 1, by its reader",
}


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
def test_every_number_has_both_bounds(declared: type) -> None:
    hints = get_type_hints(declared, include_extras=True)
    found = {
        field.name: missing
        for field in dataclasses.fields(declared)
        if field.name not in ALLOWED and (missing := list(unbounded(hints[field.name])))
    }
    assert found == {}


def test_the_exceptions_are_of_fields_that_need_one() -> None:
    needing = {
        field.name
        for declared in DECLARED
        for field in dataclasses.fields(declared)
        if list(unbounded(get_type_hints(declared, include_extras=True)[field.name]))
    }
    assert needing == ALLOWED.keys()


def test_this_test_sees_what_lacks_a_bound() -> None:
    assert list(unbounded(int)) == ["int without Ge or Gt", "int without Le or Lt"]
    assert list(unbounded(Annotated[float | None, annotated_types.Ge(0)])) == ["float without Le or Lt"]
    assert list(unbounded(tuple[Annotated[int, annotated_types.Gt(0), annotated_types.Lt(9)], ...])) == []
    assert len(list(unbounded(Mapping[str, int | str]))) == 2


VIT = {"backbone": "vit", "image_size": 32, "patch_size": 4, "num_classes": 10, "depth": 4, "dim": 64, "num_heads": 4}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"num_classes": 2147483647}, "num_classes: must be at most 1000000, got 2147483647"),
        ({"num_classes": 2**64}, "num_classes: must be at most"),
        ({"image_size": 32000}, "image_size: must be at most 4096, got 32000"),
        ({"depth": 10**9}, "depth: must be at most 1000"),
        ({"dim": 10**9}, "dim: must be at most 65536"),
        ({"mlp_ratio": 1e300}, "mlp_ratio: must be at most 1000"),
        ({"image_size": 4096, "patch_size": 1}, "image_size: must give at most 65,537 tokens, got 16,777,217"),
        ({"dim": 65536, "depth": 1000}, "dim: must be so small, with the other sizes"),
        ({"image_size": 4096, "patch_size": 16, "attention": {"kind": "rvt"}}, "at most 2,000,000,000 parameters"),
        ({"image_size": 4096, "patch_size": 16, "attention": {"kind": "scaled"}}, "at most 2,000,000,000 parameters"),
        ({"attention": {"kind": "mgk", "num_mixtures": 1000}, "dim": 4096}, "at most 2,000,000,000 parameters"),
        ({"attention": {"kind": "rpc", "num_iterations": 10**6}}, "num_iterations: must be at most 1000"),
        ({"attention": {"kind": "rpc", "layers": [9] * 500}}, "got [9, 9, 9, 9, 9, 9, 9, 9, 9, 9] and 490 more"),
        ({"attention": {"kind": "rpc", "layers": [9] * 1001}}, "must have at most 1,000 entries, got 1,001"),
    ],
)  # fmt: skip
def test_a_backbone_that_cannot_be_built_is_refused_before_it_is(fields: dict[str, Any], found: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_architecture({**VIT, **fields})
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"), [("depth", 10**9), ("img_size", 32000), ("num_classes", 2**40), ("drop_rate", float("inf"))]
)
def test_numbers_for_timm_have_bounds_too(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"arguments\.{field} must lie in -.*\.\."):
        Timm(name="deit_tiny_patch16_224", arguments={field: value})


def test_published_models_are_within_the_bounds() -> None:
    giant = parse_architecture(VIT | {"image_size": 518, "patch_size": 14, "depth": 48, "dim": 1664, "num_heads": 16,
                                      "mlp_ratio": 4.9231, "num_classes": 21_843})  # fmt: skip
    assert 1.6e9 < giant.num_parameters < MOST_PARAMETERS  # type: ignore[attr-defined]  # a vit's
    assert giant.num_tokens < MOST_TOKENS  # type: ignore[attr-defined]  # likewise
    assert Scaled().parameters_in(num_tokens=197, num_heads=3, dim=192) == 3 * 197**2


@pytest.mark.parametrize("value", [10**60, 65_537, 2**31])
def test_a_batch_that_no_memory_holds_is_refused(value: int) -> None:
    with pytest.raises(ValidationError, match="must be at most 65536"):
        construct(
            SuiteEntry, {"name": "a", "version": 1, "seed": 0, "batch_size": value, "conditions": [], "metrics": []}
        )
