"""Code that registries and suites name is imported by ``validate``, and a problem where that fails."""

from pathlib import Path

import pytest

from robench.core.errors import DeclarationError
from robench.declare import importing, validate_file
from robench.models.vit import Vit

ENTRY = """checkpoints:
  mine:
    architecture: {kind: python, target: 'TARGET'}
    weights: {uri: mine.pth, sha256: null}
    preprocessing: {kind: image, mean: [0.5], std: [0.5]}
"""
METRIC = """
from robench.metrics.metric import Metric
MINE = Metric(name="mine", title="mine", unit="share", task="classification", scope="condition",
              implementation="own_metric:IMPLEMENTATION")
def mine(readings): return None
"""
SUITE = (
    "name: s\nversion: 1\nseed: 0\ndataset: digits\nbatch_size: 10\nconditions: [{name: clean}]\nmetrics: [METRIC]\n"
)


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("json:loads", ""),
        ("json:nothing", "line 2: checkpoints.mine: target 'json:nothing': there is no nothing in "),
        ("no_such_module:build", "line 2: checkpoints.mine: target 'no_such_module:build': no module 'no_such_module'"),
    ],
)
def test_a_target_must_be_importable(tmp_path: Path, target: str, found: str) -> None:
    (tmp_path / "r.yaml").write_text(ENTRY.replace("TARGET", target))
    if not found:
        assert validate_file(tmp_path / "r.yaml") == "registry"
        return
    with pytest.raises(DeclarationError) as caught:
        validate_file(tmp_path / "r.yaml")
    assert found in str(caught.value)
    assert caught.value.num_problems == 1


@pytest.mark.parametrize(("name", "is_found"), [("mine", True), ("other", False)])
def test_the_implementation_of_a_metric_must_be_importable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_found: bool
) -> None:
    module = f"own_metric_{name}"
    (tmp_path / f"{module}.py").write_text(METRIC.replace("own_metric:IMPLEMENTATION", f"{module}:{name}"))
    (tmp_path / "s.yaml").write_text(SUITE.replace("METRIC", f"{{kind: python, target: '{module}:MINE'}}"))
    monkeypatch.syspath_prepend(tmp_path)
    if is_found:
        assert validate_file(tmp_path / "s.yaml") == "suite"
        return
    with pytest.raises(DeclarationError, match=f"implementation {module}:other cannot be imported: there is no such"):
        validate_file(tmp_path / "s.yaml")


@pytest.mark.parametrize(
    ("implementation", "missing"),
    [
        (Vit.implementation, ""),
        ("robench.models.no_such_impl:build", "there is no such module"),
        ("robench.models.vit_impl:no_such_name", "there is no such no_such_name"),
        ("robench.no_such_package.vit_impl:build", "No module named"),
    ],
)
def test_robenchs_own_implementations_are_looked_for(implementation: str, missing: str) -> None:
    found = importing._missing(implementation)
    assert missing in found
    assert bool(missing) == bool(found)
