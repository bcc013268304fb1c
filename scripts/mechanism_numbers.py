"""Measures what scripts/mechanism_gallery.py draws of attention mechanisms: reports/mechanisms.json and growth.json.

``python scripts/mechanism_numbers.py [KIND...]`` analyses a model of the digits of each kind, or of the named ones: two
minutes for all on one core. ``python scripts/mechanism_numbers.py --growth FOLDER`` gathers what ``robench cost
--growth`` has kept in FOLDER/costs. Run it after training a model of the digits anew; a test fails if the weights are
others than the measured ones.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import robench
from robench.analyses import ANALYSES
from robench.attention import ATTENTIONS
from robench.core.errors import DeclarationError, IncompleteError
from robench.declare import find_suites, read_registry, shipped_registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.checkpoint import Checkpoint

REPORTS = Path(__file__).parents[1] / "reports"
NUMBERS, GROWTH = REPORTS / "mechanisms.json", REPORTS / "growth.json"
BASELINE, SUITE, CONDITION, COUNT = "digits-vit", "digits-adv", "pgd", 100
# What measurements of growth must have in common.
SAME = ("tokens", "protocol", "device", "threads", "versions")
DIGITS = 4


def models() -> dict[str, Checkpoint]:
    """Return a model of the digits for each kind of attention, the first of the registry that has weights.

    It differs from ``digits-vit`` in its attention alone. Kinds without such a model are left out.
    """
    entries = read_registry(shipped_registry())
    baseline = entries[BASELINE]
    backbone: Any = baseline.architecture
    found: dict[str, Checkpoint] = {}
    for each in entries.values():
        architecture: Any = each.architecture
        if each.training != baseline.training or not each.weights.sha256 or type(architecture) is not type(backbone):
            continue
        if replace(architecture, attention=backbone.attention) == backbone:
            found.setdefault(architecture.attention.kind, each)
    return {kind: found[kind] for kind in ATTENTIONS.builtin if kind in found}


def layer_of(checkpoint: Checkpoint) -> int:
    """Return the last layer that has a model's mechanism."""
    architecture: Any = checkpoint.architecture
    depth, layers = architecture.depth, architecture.attention.layers
    return max(range(depth) if layers == "all" else layers)


def numbers_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return accuracy, heat maps, their change and the tokens' similarity of a model on the first examples.

    Heat maps and change are None where the mechanism has no weights.
    """
    layer = layer_of(checkpoint)
    found: dict[str, Any] = {"model": checkpoint.name, "weights": checkpoint.weights.sha256, "layer": layer}
    found["accuracy"] = _accuracies(checkpoint.name)
    found["similarity"] = similarity(checkpoint)
    try:
        maps = _analysed("attention-map", checkpoint, is_attacked=True)
        found["maps"] = {condition: means["attention"].values[layer] for condition, means in maps.items()}
        change = _analysed("attention-change", checkpoint, is_attacked=True)[CONDITION]["attention_change"]
        found["change"] = {name: getattr(change, name)[layer] for name in ("values", "low", "high")}
    except DeclarationError:
        found |= {"maps": None, "change": None}
    return found


def similarity(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the similarity of clean tokens by layer, with its interval."""
    means = _analysed("token-similarity", checkpoint, is_attacked=False)["clean"]["similarity"]
    return {name: getattr(means, name) for name in ("values", "low", "high")}


def _analysed(kind: str, checkpoint: Checkpoint, *, is_attacked: bool) -> dict[str, Any]:
    """Return the means of an analysis by condition and statistic."""
    from robench.analyses.results import means_of
    from robench.runs.analyses import AnalysisRequest, analyse
    from robench.runs.pictured import views_named

    (suite,) = find_suites([SUITE])
    views = views_named(suite, [CONDITION])
    request = AnalysisRequest(
        analysis=ANALYSES[kind](),
        dataset=views[0].condition.dataset,
        suite=suite,
        views=tuple(views) if is_attacked else (),
        count=COUNT,
        device="cpu",
    )
    return {
        found.facts["condition"]: {each.name: means_of(each) for each in found.numbers}
        for found, _ in analyse(request, checkpoint)
    }


def _accuracies(model: str) -> dict[str, Any]:
    """Return the accuracy of a model by condition, with its interval."""
    (suite,) = find_suites([SUITE])
    wanted = tuple(each for each in suite.conditions if each.name in ("clean", CONDITION))
    columns = tuple(each for each in suite.columns if set(each.conditions) <= {"clean", CONDITION})
    asked = replace(suite, conditions=wanted, columns=columns)
    with tempfile.TemporaryDirectory() as results:
        report = robench.run(asked, model, results=results, limit=COUNT, audit=False, device="cpu")
    (row,) = report.rows
    accuracies = {}
    for name in ("clean", CONDITION):
        estimate = row.cells[f"{name}/top1_accuracy"].estimate
        if estimate is None:
            raise IncompleteError(f"{model} has no accuracy under {name} of {SUITE}: see 'robench run' for the reason")
        accuracies[name] = {"values": estimate.value, "low": estimate.low, "high": estimate.high}
    return accuracies


def measure(kinds: list[str]) -> None:
    """Measure the models of these kinds, and the baseline's further seeds; each is kept as soon as it is measured."""
    import torch

    from robench.evaluation.arithmetic import device_kind, library_versions

    kept: dict[str, Any] = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    chosen, entries = models(), read_registry(shipped_registry())
    found, seeds = kept.get("mechanisms", {}), kept.get("seeds", {})
    document = {"suite": SUITE, "condition": CONDITION, "count": COUNT}
    document |= {"device": device_kind(torch.device("cpu")), "versions": library_versions()}
    for kind in kinds or chosen:
        found[kind] = numbers_of(chosen[kind])
        mechanisms = {each: found[each] for each in chosen if each in found}
        _write(NUMBERS, document | {"mechanisms": mechanisms, "seeds": seeds})
    for name, each in entries.items():
        if each.seed_of == BASELINE and not kinds:
            seeds[name] = {"weights": each.weights.sha256, "similarity": similarity(each)}
    _write(NUMBERS, document | {"mechanisms": mechanisms, "seeds": seeds})


def gather(results: Path) -> None:
    """Write the measurements of growth of a folder of results: costs of a layer by its number of tokens.

    Raises:
        SystemExit: they were made under different conditions, or a mechanism is missing.
    """
    found = [json.loads(path.read_text()) for path in sorted((results / "costs").glob("*.json"))]
    documents = {each["attention"]: each for each in found if "sizes" in each}
    if missing := [kind for kind in ATTENTIONS.builtin if kind not in documents]:
        sys.exit(f"{results} has no growth of {', '.join(missing)}: run 'robench cost --growth {' '.join(missing)}'")
    conditions = [{name: each[name] for name in SAME} for each in documents.values()]
    if any(each != conditions[0] for each in conditions):
        sys.exit(f"{results} has growth under different conditions ({', '.join(SAME)}): measure all in one run")
    _write(GROWTH, conditions[0] | {"mechanisms": {kind: _growth(documents[kind]) for kind in ATTENTIONS.builtin}})


def _growth(document: Mapping[str, Any]) -> dict[str, Any]:
    sizes, exponents = document["sizes"], document["exponents"]
    seconds = [each["inference"]["seconds"] for each in sizes]
    return {
        "declaration": document["declaration"],
        "at": document["at"],
        "seconds": {name: [each[name] for each in seconds] for name in ("median", "low", "high")},
        "peak_bytes": [each["inference"]["peak_bytes"] for each in sizes],
        "multiply_adds": [each["multiply_adds"]["products"] for each in sizes],
        "exponents": {
            "fitted_to": exponents["tokens"],
            "seconds": exponents["seconds"],
            "peak_bytes": exponents["peak_bytes"],
            "multiply_adds": exponents["multiply_adds"]["products"],
        },
    }


def _write(path: Path, document: Any) -> None:
    """Write JSON with a line for each mechanism."""
    lines = [f" {json.dumps(name)}: {_listed(value)}" for name, value in _plain(document).items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _listed(value: Any) -> str:
    if isinstance(value, dict) and any(isinstance(each, dict) for each in value.values()):
        lines = [f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in value.items()]
        return "{\n" + ",\n".join(lines) + "\n }"
    return json.dumps(value)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, floats to four significant digits."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


if __name__ == "__main__":
    if sys.argv[1:2] == ["--growth"]:
        gather(Path(sys.argv[2]))
    else:
        measure(sys.argv[1:])
