"""The site's reference has every kind and field that YAML may name, with bounds and meanings, and every licence."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import yaml
from annotated_types import Ge, Gt, Le, Lt, MinLen
from conftest import ROOT

from robench.attacks import ATTACKS
from robench.attention import ATTENTIONS
from robench.cli.main import COMMANDS
from robench.corruptions import TYPES
from robench.datasets import DATASET_KINDS, DATASETS
from robench.declarations.base import DeclarationBase
from robench.declarations.preprocessing import PREPROCESSINGS
from robench.declare import shipped_suites
from robench.declare.fields import WeightsEntry
from robench.declare.registry import CheckpointEntry, RegistryEntry, SeedEntry
from robench.declare.suites import ConditionEntry, SuiteEntry, parse_suite
from robench.metrics import METRICS
from robench.models import BACKBONES, RESIDUALS
from robench.models.layouts import LAYOUTS
from robench.models.word_transformer import Experts
from robench.perturbations import PERTURBATIONS
from robench.perturbations.sweep import Sweep
from robench.tasks import TASKS
from robench.training import TRAININGS

SCRIPTS = str(ROOT / "scripts")
OF_SUITES = dict(PERTURBATIONS.builtin)
OF_REGISTRIES = {
    **{f"preprocessing {kind}": each for kind, each in PREPROCESSINGS.items()},
    **{f"backbone {kind}": each for kind, each in BACKBONES.builtin.items()},
    **{f"attention {kind}": each for kind, each in ATTENTIONS.builtin.items()},
    **{f"residual {kind}": each for kind, each in RESIDUALS.builtin.items()},
    **{f"training {kind}": each for kind, each in TRAININGS.builtin.items()},
    **{f"dataset {kind}": each for kind, each in DATASET_KINDS.items()},
}
ENTRIES = (SuiteEntry, ConditionEntry, RegistryEntry, CheckpointEntry, WeightsEntry, SeedEntry, Experts)
EVERY = [*OF_SUITES.values(), *OF_REGISTRIES.values(), *ENTRIES]


@pytest.fixture(scope="module", autouse=True)
def _scripts_on_the_path() -> Iterator[None]:
    sys.path.insert(0, SCRIPTS)
    yield
    sys.path.remove(SCRIPTS)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    import reference_pages

    found: dict[str, str] = reference_pages.pages()
    return found


def section(page: str, heading: str) -> str:
    """Return what is below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"no heading {heading}"
    return found[1]


def fields_in(text: str) -> list[str]:
    """Return the fields that the first cells of a table name."""
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def names(declared: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(declared)}


@pytest.mark.parametrize("kind", OF_SUITES)
def test_the_page_on_suites_has_every_perturbation_with_every_field(pages: Mapping[str, str], kind: str) -> None:
    text = section(pages["reference/suites.md"], f"`{kind}`")
    assert sorted(fields_in(text)) == sorted(names(OF_SUITES[kind]))
    assert text.strip()


@pytest.mark.parametrize("kind", OF_REGISTRIES)
def test_the_page_on_registries_has_every_kind_with_every_field(pages: Mapping[str, str], kind: str) -> None:
    family, name = kind.split()
    titles = {"preprocessing": "Preprocessing", "backbone": "Architectures", "attention": "Attention"}
    titles |= {"residual": "Residual connections", "training": "Training", "dataset": "Formats of datasets"}
    page = pages["reference/registry.md"]
    of_family = re.split(r"^## ", page[page.index(f"## {titles[family]}\n") :], flags=re.MULTILINE)[1]
    assert sorted(fields_in(section(of_family, f"`{name}`"))) == sorted(names(OF_REGISTRIES[kind]))


@pytest.mark.parametrize(
    ("page", "heading", "declared"),
    [
        ("suites", "Fields of a suite", SuiteEntry),
        ("suites", "Fields of a condition", ConditionEntry),
        ("registry", "Fields of a file", RegistryEntry),
        ("registry", "Fields of a checkpoint", CheckpointEntry),
        ("registry", "Fields of weights", WeightsEntry),
        ("registry", "Fields of a further seed", SeedEntry),
        ("registry", "Sparse mixtures of experts", Experts),
    ],
)
def test_entries_of_files_have_every_field(pages: Mapping[str, str], page: str, heading: str, declared: type) -> None:
    assert set(fields_in(section(pages[f"reference/{page}.md"], heading))) == names(declared)


@pytest.mark.parametrize("declared", EVERY, ids=lambda declared: declared.__name__)
def test_every_field_of_a_declaration_has_a_meaning(declared: type) -> None:
    from reference_fields import meanings_of, rows_of

    assert [row.name for row in rows_of(declared) if not row.meaning] == []
    # No meaning runs on into the next field's.
    for name, meaning in meanings_of(declared).items():
        assert len(meaning) < 500, f"{declared.__name__}.{name}: {meaning}"


def test_sweeps_are_described_by_the_fields_of_yaml(pages: Mapping[str, str]) -> None:
    text = section(pages["reference/suites.md"], "Sweeps of budgets")
    assert set(fields_in(text)) == {"epsilons", *names(Sweep)} - {"attacks"}


def test_metrics_corruptions_tasks_and_suites_are_all_there(pages: Mapping[str, str]) -> None:
    page = pages["reference/suites.md"]
    assert set(fields_in(section(page, "Metrics"))) == set(METRICS.builtin)
    assert set(re.findall(r"`(\w+)`", section(page, "Types of corruptions"))) >= set(TYPES)
    assert all(f"| `{task}` |" in section(page, "Tasks and domains") for task in TASKS.builtin)
    shipped = page[page.index("## Shipped suites") :]
    assert re.findall(r"^### (.+)$", shipped, re.MULTILINE) == list(shipped_suites())
    assert all(f"`{layout}`" in section(pages["reference/registry.md"], "Layouts") for layout in LAYOUTS)


def test_the_example_of_a_suite_is_one(pages: Mapping[str, str]) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", pages["reference/suites.md"], re.DOTALL)
    assert parse_suite(yaml.safe_load(example)).metrics == ("top1_accuracy", "robust_accuracy")


def test_every_dataset_has_its_licence_and_source(pages: Mapping[str, str]) -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in pages["reference/datasets.md"].splitlines()
        if line.startswith("| `")
    ]
    licences: dict[str, tuple[str, str]] = {}
    for name, _, source, licence in rows:
        levels = [re.findall(r"`([^`]+)`", level) for level in name.split(" / ")]
        combined = [""]
        for level in levels:
            combined = [f"{first}/{second}".strip("/") for first in combined for second in level]
        licences |= dict.fromkeys(combined, (source, licence))
    assert licences == {name: (each.source, each.licence) for name, each in DATASETS.builtin.items()}


def test_the_page_on_commands_has_every_command_and_option(pages: Mapping[str, str]) -> None:
    page = pages["reference/commands.md"]
    assert re.findall(r"^## robench (\w+)$", page, re.MULTILINE) == list(COMMANDS)
    for option in ("--suite", "--keep-adversarial", "--shard-timeout", "--tolerance", "--decode", "-h, --help"):
        assert option in page
    assert "robench baseline write [OPTIONS]" in page


@pytest.mark.slow
def test_the_pages_need_no_torch_and_are_the_same_whatever_the_terminal() -> None:
    """In processes of their own: click keeps the option of help with which a command was called first."""
    code = "import json, sys, reference_pages as r; print(json.dumps(r.pages())); sys.exit('torch' in sys.modules)"
    environment = {"PYTHONPATH": f"{SCRIPTS}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    command = [sys.executable, "-c", code]
    outputs = [
        subprocess.run(command, env=environment | {"COLUMNS": columns}, capture_output=True, check=True).stdout
        for columns in ("40", "200")
    ]
    assert outputs[0] == outputs[1]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parent(DeclarationBase):
    """Base of an example.

    Attributes:
        first, second: two sizes
            over two lines.
        share: a share; ``third``: another field's meaning; ``exact``: still of third.
    """

    kind: ClassVar[str] = "parent"

    first: Annotated[int, Ge(1), Le(2_000)]
    second: Annotated[int, Ge(1)] = 3
    share: Annotated[float, Gt(0), Lt(1)] = 0.5
    third: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Child(Parent):
    """Example | of a declaration, with ``code``.

    More of it.

    Attributes:
        own: whether it is its own.
        share: the child's share.

    Raises:
        ValueError: never.
    """

    own: bool = True


def test_meanings_are_read_from_the_class_and_its_bases() -> None:
    from reference_fields import meanings_of

    assert meanings_of(Child) == {
        "first": "two sizes over two lines.",
        "second": "two sizes over two lines.",
        "share": "the child's share.",
        "third": "another field's meaning; `exact`: still of third.",
        "own": "whether it is its own.",
    }


def test_rows_begin_with_what_is_required_and_then_with_the_fields_of_the_class_itself() -> None:
    from reference_fields import rows_of

    rows = rows_of(Child)
    assert [row.name for row in rows] == ["first", "own", "second", "share", "third"]
    assert [row.default for row in rows] == ["", "`true`", "`3`", "`0.5`", "empty text"]
    assert rows[0].values == "whole number; at least 1, at most 2,000"
    assert rows[3].values == "number; above 0, below 1"
    assert rows[0].cells == ("`first`", "whole number; at least 1, at most 2,000", "required", rows[0].meaning)


def test_the_summary_ends_before_the_attributes() -> None:
    from reference_fields import summary_of, table

    assert summary_of(Child) == "Example | of a declaration, with `code`.\n\nMore of it."
    assert table(("a",), [("x|y",)]) == "| a |\n| --- |\n| x\\|y |\n"


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (bool, "`true` or `false`"),
        (Fraction | None, "fraction such as `8/255`, or number or `null`"),
        (Literal["a", "b", "c"], "`a`, `b` or `c`"),
        (tuple[int, ...], "list: whole number"),
        (tuple[float, float, float], "list of 3: number"),
        (Mapping[str, float], "mapping: text to number"),
        (Annotated[tuple[str, ...], MinLen(1)], "list: text; at least 1 of them"),
        (tuple[int, ...] | Literal["all"], "list: whole number or `all`"),
    ],
)
def test_types_are_told_in_words(hint: Any, words: str) -> None:
    from reference_fields import values_of

    assert values_of(hint) == words


def test_a_field_of_a_family_names_what_tells_its_members_apart() -> None:
    from reference_fields import rows_of

    rows = {row.name: row for row in rows_of(CheckpointEntry)}
    assert rows["architecture"].values == "backbone, by its `backbone`"
    assert rows["weights"].values == "mapping, fields of weights"
    assert rows["training"].default == "`null`"
    assert {row.name: row.default for row in rows_of(ATTACKS["pgd"])}["momentum"] == "`0.0`"
