"""Verdicts on printed costs: counts are compared to the printed digits, times and memory of other devices not at all.

Counts come with robench, since no weights or data change them; a test counts them again.
"""

import json
from collections.abc import Mapping
from functools import cache

from robench.costs import Counts
from robench.declare import shipped_folder
from robench.declare.printed import PrintedCost, PublishedCell
from robench.papers.verdicts import Verdict, signed

# By the first letter of a unit.
_SCALES: Mapping[str, float] = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ROUNDING_ERROR = 1e-9
# Counts by model, in ``inference`` and ``training``.
CountsOfModels = Mapping[str, Mapping[str, Counts]]


@cache
def shipped_counts() -> CountsOfModels:
    """Return the counts of the models whose costs papers print."""
    document = json.loads((shipped_folder() / "reports" / "published" / "counts.json").read_text())
    return {model: {mode: Counts(**each) for mode, each in modes.items()} for model, modes in document.items()}


def judged_cost(cell: PublishedCell, cost: PrintedCost, counts: CountsOfModels) -> tuple[float | None, Verdict]:
    """Return the count of a printed cost in the printed unit, and the verdict; None for times and memory.

    Raises:
        KeyError: the model is not among the counted ones.
    """
    if not cost.is_count:
        how = f"robench cost {cell.model} measures those of another" if cell.model else "robench has no entry of it"
        device = cell.protocol.get("device", "the paper's device")
        return None, Verdict("other device", f"{cost.kind} of {device}, not compared; {how}")
    assert cell.model is not None  # by schema
    found = counts[cell.model][cost.mode]
    number, by = found.parameters, ""
    if cost.rule is not None:
        number, by = found.multiply_adds(cost.rule), f" in {cost.mode} by the rule {cost.rule}"
    meant = cost.unit or cell.unit
    value = number / _SCALES.get(meant[:1], 1.0)
    difference = value - float(cell.value)
    agrees = abs(difference) <= float(cell.rounding) + _ROUNDING_ERROR
    difference_text = f"{signed(difference)} {meant}".rstrip()
    reason = f"{number:,} {cost.kind}{by}, {difference_text} of the printed number"
    if agrees and cost.unit is not None:
        verdict = Verdict("print inconsistent", f"{reason}, whose unit {cell.unit} must be {cost.unit}")
    elif agrees and cell.inferred:
        inferred = ", ".join(cell.inferred)
        verdict = Verdict("inferred", f"{inferred} not printed but inferred, so that agreement is circular; {reason}")
    else:
        verdict = Verdict("reproduced" if agrees else "differs", f"{reason}, {float(cell.rounding):g} allowed")
    return number / _SCALES.get(cell.unit[:1], 1.0), verdict
