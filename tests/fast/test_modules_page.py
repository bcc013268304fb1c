"""docs/modules.md has every module with the first sentence of its docstring, from the lowest layer to the highest."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "robench"
PAGE = (ROOT / "docs" / "modules.md").read_text()


@pytest.fixture(scope="module")
def script() -> Any:
    specification = spec_from_file_location("modules_page", ROOT / "scripts" / "modules_page.py")
    assert specification is not None
    assert specification.loader is not None
    loaded = module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


def test_the_page_is_what_the_docstrings_say(script: Any) -> None:
    assert script.page() == PAGE, "run `make generated`"


def test_every_module_is_there_once() -> None:
    found = re.findall(r"^## robench\.?(\S*)$|^\| `(\S+)` \|", PAGE, re.MULTILINE)
    package, listed = "", []
    for title, module in found:
        package = title if not module else package
        listed += [f"{package}.{module}".strip(".")] if module else []
    paths = [path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py")]
    # Of a package, the title stands for its own module.
    wanted = [".".join(part for part in path.parts if part != "__init__") for path in paths if len(path.parts) > 1]
    wanted = [name for name in wanted if "." in name]
    assert sorted(each for each in listed if "." in each) == sorted(wanted)
    assert {"pytest_plugin", "__main__", "__init__"} <= {each for each in listed if "." not in each}


def test_packages_come_by_layer(script: Any) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "architecture"))
    try:
        from test_layers import RANK
    finally:
        sys.path.pop(0)
    depths = [RANK[name] for name in script.PACKAGES if name]
    assert depths == sorted(depths, reverse=True)
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {name for name in script.PACKAGES if name} == packages


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("One thing.", "One thing."),
        ("Things as ``x.py``, and more. And a second.", "Things as `x.py`, and more."),
        ("A sentence over\ntwo lines. More.", "A sentence over two lines."),
        ("No end\n\nAnother paragraph.", "No end"),
        ("Either a|b.", "Either a\\|b."),
    ],
)
def test_a_sentence_ends_where_it_ends(script: Any, tmp_path: Path, docstring: str, sentence: str) -> None:
    module = tmp_path / "x.py"
    module.write_text(f'"""{docstring}"""\n')
    assert script.first_sentence(module) == sentence


def test_a_module_without_docstring_is_refused(script: Any, tmp_path: Path) -> None:
    module = tmp_path / "x.py"
    module.write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"x\.py has no docstring"):
        script.first_sentence(module)
