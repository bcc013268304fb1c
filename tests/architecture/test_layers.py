"""Lower layers know nothing of higher ones; checked on the syntax trees, so that lazy imports count too."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from layers import RANK
from sources import parsed

PACKAGE = Path(__file__).parents[2] / "robench"
ATTENTION_IMPORTERS = {"models", "attention", "testing"}
# What all others may import of it: the mapping from kinds to declarations, what layers show, and where tokens are.
ATTENTION_KINDS = {
    *("robench.attention", "robench.attention.ATTENTIONS"),
    *("robench.attention.seen", "robench.attention.seen.Seen", "robench.attention.seen.ShowsInside"),
    *("robench.attention.seen.seen_of", "robench.attention.seen.valid_length"),
    *("robench.attention.geometry", "robench.attention.geometry.TokenLayout"),
}


def layer_of(path: Path, package: Path) -> str:
    return path.relative_to(package).parts[0].removesuffix(".py")


def imported_modules(source: str) -> set[str]:
    """Modules, or names in them, of robench in any import statement, wherever it stands."""
    modules: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            modules.update(f"{node.module}.{name.name}" for name in node.names)
            assert node.level == 0, "relative imports hide the layer"
        elif isinstance(node, ast.Import):
            modules.update(name.name for name in node.names)
    return {module for module in modules if module.startswith("robench.")}


def wrong_imports(package: Path) -> list[str]:
    wrong = []
    for path in sorted(package.rglob("*.py")):
        importer = layer_of(path, package)
        if importer == "__init__":
            continue
        modules = imported_modules(path.read_text())
        for imported in sorted({module.split(".")[1] for module in modules}):
            points_up = importer != imported and RANK[importer] >= RANK[imported]
            of_attention = {module for module in modules if module.startswith("robench.attention")}
            skips_models = imported == "attention" and importer not in ATTENTION_IMPORTERS
            if points_up or (skips_models and not of_attention <= ATTENTION_KINDS):
                wrong.append(f"{path.relative_to(package)} imports robench.{imported}")
    return wrong


def circle_of(package: Path) -> list[str]:
    """Return modules each of which is imported by the next, the last being the first; empty if there are none."""
    paths = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    graph = {name: imported_modules(path.read_text()) & paths.keys() - {name} for name, path in paths.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_imports_point_downwards() -> None:
    assert wrong_imports(PACKAGE) == []


def test_every_module_has_a_layer() -> None:
    found = {layer_of(path, PACKAGE) for path in PACKAGE.rglob("*.py")} - {"__init__"}
    assert found <= RANK.keys()


def test_every_layer_exists() -> None:
    assert {
        layer for layer in RANK if not (PACKAGE / layer).exists() and not (PACKAGE / f"{layer}.py").exists()
    } == set()


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("core/seeds.py", "from robench.declarations.base import DeclarationBase"),
        ("metrics/accuracy.py", "import robench.store"),
        ("reports/build.py", "def late():\n    from robench.declare import find_suite"),
        ("perturbations/clean.py", "from robench.attention import rpc"),
        ("attacks/pgd.py", "from robench.corruptions import TYPES"),
        ("runs/outlook.py", "from robench.papers.forecast import Forecast"),
        ("leaderboard/page.py", "from robench.figures import rendered"),
        ("api/reading.py", "from robench import cli"),
        ("api/reading.py", "from robench.testing import check_attack"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, module: str, statement: str) -> None:
    planted = tmp_path / "robench" / module
    planted.parent.mkdir(parents=True)
    planted.write_text(statement)
    assert len(wrong_imports(tmp_path / "robench")) == 1


def test_no_imports_go_in_circles() -> None:
    """Imports for annotations and within functions count as well."""
    assert circle_of(PACKAGE) == []


@pytest.mark.parametrize(
    "statement",
    [
        "from robench.core.shard import Shard",
        "if TYPE_CHECKING:\n    from robench.core.shard import Shard",
        "def late():\n    from robench.core import shard",
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, statement: str) -> None:
    folder = tmp_path / "robench" / "core"
    folder.mkdir(parents=True)
    (folder / "suite.py").write_text(statement)
    (folder / "shard.py").write_text("import robench.core.records")
    (folder / "records.py").write_text("from robench.core.suite import Suite")
    found = circle_of(tmp_path / "robench")
    assert sorted(set(found)) == ["robench.core.records", "robench.core.shard", "robench.core.suite"]
