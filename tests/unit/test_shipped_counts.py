"""reports/published/counts.json has the counts of today's models and entries."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
from conftest import ROOT

SHIPPED = json.loads((ROOT / "reports" / "published" / "counts.json").read_text())


@pytest.fixture(scope="module")
def script() -> Any:
    spec = spec_from_file_location("counts", ROOT / "scripts" / "counts.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_counts_are_of_the_models_whose_counts_papers_print(script: Any) -> None:
    assert list(SHIPPED) == script.models(), "run `make generated`"


# One of each kind of attention; counts of the others are of larger models or of more layers.
SMALLEST = ("symvit", "bilateral-deit-tiny", "boost-deit-tiny")


@pytest.mark.parametrize(
    "name", [name if name in SMALLEST else pytest.param(name, marks=pytest.mark.slow) for name in sorted(SHIPPED)]
)
def test_the_shipped_counts_are_what_the_script_counts(script: Any, name: str) -> None:
    assert SHIPPED[name] == script.counted(name), "run `make generated`"
