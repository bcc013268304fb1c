"""JSON Schemas of suite and registry files: current, valid, and of one mind with the reader about shapes."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Robench
from jsonschema import Draft202012Validator

from robench.core.errors import DeclarationError
from robench.declare import shipped_registry, shipped_suites
from robench.declare.boards import leaderboard_entry
from robench.declare.document import document_from_python
from robench.declare.json_schema import FILES, field_docs, json_schema
from robench.declare.registry import registry_of
from robench.declare.suites import SuiteEntry, suite_of
from robench.perturbations import PERTURBATIONS

SCHEMAS = {kind: Draft202012Validator(json_schema(kind)) for kind in FILES}
SHIPPED = [*(("suite", path) for path in shipped_suites().values()), ("registry", shipped_registry())]
GOLDEN = sorted((ROOT / "tests" / "golden" / "declare").glob("*.yaml"))


def loaded(path: Path) -> Any:
    """Return a file as an editor reads it, robench's reader being another."""
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def is_refused_by_robench(kind: str, value: Any) -> bool:
    document = document_from_python(value, kind)
    try:
        if kind == "registry":
            registry_of(document, ROOT)
        else:
            {"suite": suite_of, "leaderboard": leaderboard_entry}[kind](document)
    except DeclarationError:
        return True
    return False


@pytest.mark.parametrize("kind", FILES)
def test_it_is_a_schema_of_the_draft_that_it_names(kind: str) -> None:
    schema: Any = SCHEMAS[kind].schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


def of_each_kind(registry: Any) -> Any:
    """Return a registry with the first entry of each combination of kinds alone, since the validator takes its time."""
    first: dict[object, str] = {}
    for name, entry in registry["checkpoints"].items():
        architecture, training = entry.get("architecture", {}), entry.get("training", {})
        kinds = [architecture.get("backbone"), architecture.get("attention", {}).get("kind"), training.get("kind")]
        first.setdefault((*kinds, *sorted(entry)), name)
    return registry | {"checkpoints": {name: registry["checkpoints"][name] for name in first.values()}}


@pytest.mark.parametrize(("kind", "path"), SHIPPED, ids=lambda each: getattr(each, "stem", each))
def test_every_shipped_file_is_valid_and_names_its_schema(kind: str, path: Path) -> None:
    value = loaded(path)
    checked = of_each_kind(value) if kind == "registry" else value
    assert [error.message for error in SCHEMAS[kind].iter_errors(checked)] == []
    first = path.read_text().splitlines()[0]
    mark, _, place = first.partition("$schema=")
    assert mark == "# yaml-language-server: "
    assert json.loads((path.parent / place).read_text()) == SCHEMAS[kind].schema


def test_every_definition_that_is_referred_to_exists() -> None:
    for kind in FILES:
        schema: Any = SCHEMAS[kind].schema
        text = json.dumps(schema)
        for name in schema["$defs"]:
            assert f"#/$defs/{name.replace(' ', '%20')}" in text
        for error in SCHEMAS[kind].iter_errors({}):
            assert error.validator == "required" or kind == "registry"


LIBRARY: dict[str, Any] = {"backend": "torchattacks"}
SUITE: dict[str, Any] = {
    **{"name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 8},
    "conditions": [
        {"name": "clean"},
        {"name": "pgd", "perturbation": {"kind": "pgd", "epsilon": "8/255", "step_size": 0.01, "num_steps": 2}},
        {"name": "swept", "perturbation": {"kind": "fgsm", "epsilons": ["2/255", "8/255"], "carry": True}},
        {"name": "cw", "perturbation": {"kind": "cw", "num_steps": 5, "initial_c": 1, "learning_rate": 0.01} | LIBRARY},
    ],
    "metrics": ["top1_accuracy"],
}
ENTRY: dict[str, Any] = {
    "architecture": {
        **{"backbone": "vit", "image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 1, "dim": 8},
        **{"num_heads": 2, "attention": {"kind": "rpc", "layers": [0]}},
    },
    "weights": {"uri": "w.safetensors", "sha256": None},
    "preprocessing": {"kind": "image", "mean": [0.3, 0.3, 0.3], "std": [0.3, 0.3, 0.3]},
    "training": {
        **{"dataset": "digits", "seed": 0, "num_epochs": 1, "batch_size": 8, "learning_rate": 0.001},
        **{"max_shift": 0, "noise_scale": 0.1},
    },
    "trained_on": "digits",
    "expected": {"top1_accuracy": 0.9},
}
REGISTRY = {"checkpoints": {"mine": ENTRY}, "datasets": {"photos": {"kind": "npz", "path": "x", "num_classes": 3}}}
SORT = {"column": "pgd", "direction": "worst-first"}
LEADERBOARD = {"leaderboard": {"title": "T", "headline": ["pgd*"], "sort": SORT, "note": "n"}}
WHOLE: dict[str, Any] = {"suite": SUITE, "registry": REGISTRY, "leaderboard": LEADERBOARD}
CHECKPOINT = ("checkpoints", "mine")
PERTURBATION = ("conditions", 1, "perturbation")
DELETED = object()


def damaged(kind: str, place: tuple[str | int, ...], value: object) -> Any:
    whole = copy.deepcopy(WHOLE[kind])
    *above, last = place
    inner: Any = whole
    for step in above:
        inner = inner[step]
    if value is DELETED:
        del inner[last]
    else:
        inner[last] = value
    return whole


@pytest.mark.parametrize("kind", FILES)
def test_the_whole_examples_are_accepted_by_both(kind: str) -> None:
    assert [error.message for error in SCHEMAS[kind].iter_errors(WHOLE[kind])] == []
    assert not is_refused_by_robench(kind, WHOLE[kind])


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("suite", ("nam",), "x"),
        ("suite", ("name",), "Not A Name"),
        ("suite", ("name",), 3),
        ("suite", ("version",), 0),
        ("suite", ("seed",), -1),
        ("suite", ("seed",), 2**63),
        ("suite", ("batch_size",), 100_000),
        ("suite", ("batch_size",), "8"),
        ("suite", ("conditions",), []),
        ("suite", ("conditions",), {}),
        ("suite", ("conditions",), DELETED),
        ("suite", ("audit",), "yes"),
        ("suite", ("metrics",), [3]),
        ("suite", ("conditions", 0, "examples"), 3),
        ("suite", ("conditions", 0, "num_examples"), 0),
        ("suite", ("conditions", 0, "perturbation"), "pgd"),
        ("suite", (*PERTURBATION, "kind"), DELETED),
        ("suite", (*PERTURBATION, "steps"), 3),
        ("suite", (*PERTURBATION, "num_steps"), 0),
        ("suite", (*PERTURBATION, "num_steps"), 2.5),
        ("suite", (*PERTURBATION, "num_steps"), DELETED),
        ("suite", (*PERTURBATION, "epsilon"), -0.5),
        ("suite", (*PERTURBATION, "epsilon"), "8 %"),
        ("suite", (*PERTURBATION, "epsilon"), True),
        ("suite", (*PERTURBATION, "epsilon"), DELETED),
        ("suite", (*PERTURBATION, "epsilons"), [0.1]),
        ("suite", (*PERTURBATION, "carry"), True),
        ("suite", (*PERTURBATION, "norm"), "l3"),
        ("suite", (*PERTURBATION, "random_start"), None),
        ("registry", ("models",), {}),
        ("registry", (*CHECKPOINT, "weights", "sha256"), DELETED),
        ("registry", (*CHECKPOINT, "weights", "md5"), "x"),
        ("registry", (*CHECKPOINT, "architecture", "backbone"), DELETED),
        ("registry", (*CHECKPOINT, "architecture", "kind"), "vit"),
        ("registry", (*CHECKPOINT, "architecture", "heads"), 2),
        ("registry", (*CHECKPOINT, "architecture", "depth"), 0),
        ("registry", (*CHECKPOINT, "architecture", "attention", "layers"), "first"),
        ("registry", (*CHECKPOINT, "architecture", "attention", "sparsities"), 1),
        ("registry", (*CHECKPOINT, "preprocessing", "mean"), [0.3, "grey"]),
        ("registry", (*CHECKPOINT, "preprocessing", "crop"), 5000),
        ("registry", (*CHECKPOINT, "training", "num_epochs"), 0),
        ("registry", (*CHECKPOINT, "training", "epochs"), 3),
        ("registry", (*CHECKPOINT, "coupled"), 1),
        ("registry", (*CHECKPOINT, "seeds"), [{"seed": 1}]),
        ("registry", ("checkpoints", "Not A Name"), ENTRY),
        ("registry", ("datasets", "photos", "num_classes"), 1),
        ("registry", ("datasets", "photos", "image_sizes"), 32),
        ("leaderboard", ("leaderboard",), DELETED),
        ("leaderboard", ("leaderboard", "titel"), "x"),
        ("leaderboard", ("leaderboard", "headline"), "pgd"),
        ("leaderboard", ("leaderboard", "sort", "column"), DELETED),
        ("leaderboard", ("leaderboard", "sort", "direction"), "descending"),
    ],
)
def test_damage_to_the_shape_is_refused_by_both(kind: str, place: tuple[str | int, ...], value: object) -> None:
    whole = damaged(kind, place, value)
    assert is_refused_by_robench(kind, whole)
    assert not SCHEMAS[kind].is_valid(whole)


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("suite", (*PERTURBATION, "kind"), "somebodys-attack"),
        ("suite", ("metrics",), ["somebodys_metric", {"kind": "python", "target": "a.b:C"}]),
        ("suite", ("dataset",), "somebodys-images"),
        ("registry", (*CHECKPOINT, "architecture", "attention"), {"kind": "somebodys", "anything": 1}),
        ("registry", (*CHECKPOINT, "expected"), {"somebodys_metric": 0.5}),
    ],
)
def test_what_plug_ins_may_add_is_open(kind: str, place: tuple[str | int, ...], value: object) -> None:
    assert SCHEMAS[kind].is_valid(damaged(kind, place, value))


@pytest.mark.parametrize(
    ("architecture", "is_right"),
    [
        ({"attention": {"kind": "rpc", "layers": [0]}}, True),
        ({"depth": 2, "residual": {"kind": "boost"}}, True),
        ({"attention": {"kind": "rpc", "layers": "first"}}, False),
        ({"attention": {"kind": "rpc", "sparsities": 1}}, False),
        ("vit", False),
    ],
)
def test_a_part_of_an_architecture_is_right_beside_like_alone(architecture: Any, is_right: bool) -> None:
    entry = {"weights": ENTRY["weights"], "architecture": architecture, "training": {"seed": 2}}
    like = {"checkpoints": {"mine": entry | {"like": "digits-vit"}}}
    assert (SCHEMAS["registry"].is_valid(like), not is_refused_by_robench("registry", like)) == (is_right, is_right)
    assert not SCHEMAS["registry"].is_valid({"checkpoints": {"mine": entry | {"of": "digits-vit"}}})


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_robench_accepts_is_never_refused(path: Path) -> None:
    """Of mistakes of authors some are no matter of shape, but nothing that is right may be marked in an editor."""
    try:
        value = loaded(path)
    except (yaml.YAMLError, UnicodeDecodeError):
        return
    kind = "registry" if isinstance(value, dict) and {"checkpoints", "datasets"} & value.keys() else "suite"
    if not SCHEMAS[kind].is_valid(value):
        assert is_refused_by_robench(kind, value)


def test_fields_have_their_descriptions() -> None:
    definitions: Any = SCHEMAS["suite"].schema["$defs"]
    pgd = definitions["perturbation:pgd:sweep"]
    assert pgd["description"].startswith("Projected gradient descent. Madry et al. 2018")
    assert "loss" in pgd["properties"]["loss"]["description"]
    lacking = {
        f"{kind}.{name}"
        for kind, declared in PERTURBATIONS.builtin.items()
        for name in definitions[f"perturbation:{kind}:sweep"]["properties"]
        if name not in (*field_docs(declared), "kind", "epsilons", "carry", "epsilon", "norm")
    }
    assert len(lacking) <= 25, sorted(lacking)


def test_descriptions_are_read_over_lines_and_bases() -> None:
    class Base:
        """Summary: of something.

        Attributes:
            first: one: two,
                three.
            a, b: both.

        Other text: not a field.
        """

    class Derived(Base):
        """Without attributes."""

    assert field_docs(Derived) == {"first": "one: two, three.", "a": "both.", "b": "both."}

    class Plain:
        """Documented without attributes."""

    assert field_docs(Plain) == {}
    assert field_docs(SuiteEntry)["batch_size"].startswith("number of rows")


@pytest.mark.parametrize("kind", FILES)
def test_the_command_prints_it(robench: Robench, kind: str) -> None:
    ended = robench("schema", kind)
    assert (ended.code, json.loads(ended.stdout)) == (0, SCHEMAS[kind].schema)
