"""Laws of reading declarations: nothing that anybody can write does anything but read or be refused."""

import copy
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from robench.attacks.fgsm import Fgsm
from robench.core.errors import DeclarationError
from robench.core.suite import Suite
from robench.declare import parse_architecture, parse_suite
from robench.declare.document import MAX_DEPTH, MOST_SHOWN, Document, Number, document_from_python
from robench.declare.registry import registry_of
from robench.declare.suites import suite_of
from robench.declare.yaml_source import document_from_yaml


def many(number: int) -> int:
    """Return the number of examples of ``make test-all``, a quarter of it otherwise."""
    return number if settings().max_examples > 100 else number // 4


SUITE: dict[str, Any] = {
    "name": "small",
    "version": 1,
    "seed": 0,
    "dataset": "digits",
    "batch_size": 100,
    "batches_per_shard": 2,
    "description": "A suite",
    "conditions": [
        {"name": "clean", "dataset": "digits"},
        {"name": "fgsm", "num_examples": 100, "perturbation": {"kind": "fgsm", "epsilon": "8/255", "norm": "linf"}},
        {
            "name": "pgd",
            "perturbation": {
                "kind": "pgd",
                "epsilon": 0.03,
                "step_size": "2/255",
                "num_steps": 20,
                "random_start": True,
                "num_restarts": 2,
            },
        },
    ],
    "metrics": ["top1_accuracy", "top5_accuracy"],
}
WORDS = st.sampled_from(
    [
        "name",
        "seed",
        "conditions",
        "perturbation",
        "kind",
        "pgd",
        "fgsm",
        "epsilon",
        "8/255",
        "8/0",
        "3%",
        "1e-3",
        "0.03",
        "010",
        ".inf",
        "true",
        "no",
        "null",
        "~",
        "checkpoints",
        "weights",
        "sha256",
        "architecture",
        "backbone",
        "vit",
        "attention",
        "rpc",
        "layers",
        "all",
        "metrics",
        "top1_accuracy",
        "digits",
        "clean",
    ]
)
PIECES = st.one_of(
    WORDS,
    st.sampled_from([": ", "- ", "\n", "\n  ", "\n    ", ", ", "{", "}", "[", "]", "&a ", "*a", "!!str ", "!x ", "<<"]),
    st.sampled_from(
        ["'", '"', "|\n", ">-\n", "# ", "? ", "---\n", "...\n", "%YAML 1.2\n", "\t", "\\", "\\U", "é", "\r\n"]
    ),
    st.text(max_size=5),
)
YAML_LIKE = st.lists(PIECES, max_size=40).map("".join)
# Without characters that JSON leaves as they are and YAML excludes.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=20)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(
    allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | WORDS, inner, max_size=4),
    max_leaves=12,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.fractions(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
)


def places(value: object, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Places of all values within ``value`` that hold no others."""
    if isinstance(value, dict):
        return [found for name, item in value.items() for found in places(item, (*place, name))]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in places(item, (*place, index))]
    return [place]


def changed(place: tuple[str | int, ...], item: object) -> dict[str, Any]:
    """The suite with another value at one place."""
    value: Any = copy.deepcopy(SUITE)
    inner = value
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = item
    return value  # type: ignore[no-any-return]  # a mapping still


def read_as_anything(content: bytes) -> None:
    try:
        document = document_from_yaml(content, "x")
    except DeclarationError:
        return
    read_document(document)


def read_document(document: Document) -> None:
    for read in (suite_of, lambda one: registry_of(one, Path("/"))):
        try:
            read(document)
        except DeclarationError as error:
            check_count(error)


def check_count(error: DeclarationError) -> None:
    header, *problems = error.lines
    assert header.startswith("x: ")
    assert int(header.split()[1].replace(",", "")) == error.num_problems > 0
    if error.num_problems <= MOST_SHOWN:
        assert len(problems) == error.num_problems
    else:
        assert len(problems) == MOST_SHOWN + 1
        assert problems[-1] == f"  ... and {error.num_problems - MOST_SHOWN:,} more"


@settings(max_examples=many(300))
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    read_as_anything(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=many(200))
@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    read_as_anything(content)


@settings(max_examples=many(600))
@given(YAML_LIKE)
def test_anything_like_yaml_is_read_or_refused(text: str) -> None:
    read_as_anything(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=many(300))
@given(ANYTHING)
def test_any_python_value_is_read_or_refused(value: object) -> None:
    read_document(document_from_python(value, "x"))
    with pytest.raises(DeclarationError):
        parse_architecture(value)


@settings(max_examples=many(300))
@given(JSON_VALUES)
def test_json_is_yaml_and_reads_as_the_same_python(value: object) -> None:
    from_yaml = document_from_yaml(json.dumps(value, ensure_ascii=False).encode(), "x")
    from_python = document_from_python(value, "x")
    assert from_yaml.problems == ()
    assert from_yaml.value == from_python.value


@settings(max_examples=many(200))
@given(JSON_VALUES)
def test_every_mapping_entry_has_the_line_of_its_key(value: object) -> None:
    text = yaml.safe_dump({"top": value}, allow_unicode=True, default_flow_style=False, width=10_000)
    # Quoted keys and long ones ("? ") are written differently; those of the suite are not.
    document = document_from_yaml(text.encode(), "x")
    lines = text.split("\n")
    for place, line in document.lines.items():
        if place and isinstance(place[-1], str) and place[-1].isidentifier() and place[-1].isascii():
            assert place[-1] in lines[line - 1]


@settings(max_examples=many(300))
@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=8))
def test_every_decimal_is_read_exactly(number: Decimal) -> None:
    for text in (f"{number:f}", f"{number:e}"):
        met = document_from_yaml(text.encode(), "x").value
        assert isinstance(met, Number)
        assert Fraction(met.text) == Fraction(number)
        assert met.nearest == float(number)


@settings(max_examples=many(200))
@given(st.integers(0, 1020), st.integers(1, 1020))
def test_every_fraction_is_read_exactly(numerator: int, denominator: int) -> None:
    perturbation = {"kind": "fgsm", "epsilon": f"{numerator}/{denominator}"}
    value = {**SUITE, "conditions": [{"name": "fgsm", "perturbation": perturbation}]}
    if numerator > denominator:
        with pytest.raises(DeclarationError, match="must be at most 1"):
            parse_suite(value)
    else:
        assert parse_suite(value).conditions[0].perturbation == Fgsm(epsilon=Fraction(numerator, denominator))


@settings(max_examples=many(400))
@given(st.sampled_from(places(SUITE)), JSON_VALUES)
def test_a_suite_with_anything_in_one_place_is_a_suite_or_refused_there(
    place: tuple[str | int, ...], item: object
) -> None:
    try:
        read: object = parse_suite(changed(place, item))
    except DeclarationError as error:
        read = str(error)
    assert isinstance(read, Suite) or str(read).startswith("suite: ")


@pytest.mark.parametrize("place", places(SUITE), ids=str)
def test_one_mistake_is_one_problem_at_its_place(place: tuple[str | int, ...]) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_suite(changed(place, {"stray": [1]}))
    header, problem = str(caught.value).splitlines()
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    assert header == "suite: 1 problem"
    assert problem.startswith(f"  {path}: ")


@settings(max_examples=many(100))
@given(st.lists(st.sampled_from(places(SUITE)), min_size=2, max_size=6, unique=True))
def test_mistakes_in_several_places_are_as_many_problems(wrong: list[tuple[str | int, ...]]) -> None:
    # A kind that cannot be read leaves the fields beside it unknown.
    kinds = {place[:-1] for place in wrong if place[-1] == "kind"}
    wrong = [place for place in wrong if place[-1] == "kind" or place[:-1] not in kinds]
    value = copy.deepcopy(SUITE)
    for place in wrong:
        inner: Any = value
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = {}
    with pytest.raises(DeclarationError) as caught:
        parse_suite(value)
    assert len(str(caught.value).splitlines()) == 1 + len(wrong)


@given(st.integers(1, 3 * MAX_DEPTH))
def test_depth_is_bounded_alike_in_yaml_and_python(depth: int) -> None:
    value: object = "leaf"
    for _ in range(depth):
        value = [value]
    from_python = document_from_python(value, "x").problems
    try:
        from_yaml = document_from_yaml(json.dumps(value).encode(), "x").problems
    except DeclarationError:
        assert depth > MAX_DEPTH
        assert len(from_python) == 1
    else:
        assert depth <= MAX_DEPTH
        assert from_python == from_yaml == ()
