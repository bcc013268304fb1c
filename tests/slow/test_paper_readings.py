"""Both readings of the papers' SPSA on digits, and RPC's whole protocol: minutes.

An attack of 40 updates passes 10,240 rows an image.
"""

import json
from pathlib import Path
from typing import Any

import pytest

Robench = Any
STRONGER = {"digits-adv-rpc": "spsa-paper", "digits-adv-rkde": "spsa"}


@pytest.mark.parametrize("suite", STRONGER)
def test_more_steps_or_a_larger_budget_find_more(robench: Robench, suite: str, tmp_path: Path) -> None:
    """RPC's text has four times the steps of its code, robust KDE's a 25th of the budget of its script."""
    ended = robench(
        "run", "--suite", suite, "--model", "digits-vit", "--limit", 20, "--executor", "serial",
        "--results", tmp_path / "r", "--json",
    )  # fmt: skip
    assert ended.code == 0, ended.stderr
    (row,) = json.loads(ended.stdout)["rows"]
    found = {name: row["cells"][f"{name}/top1_accuracy"]["value"] for name in ("spsa", "spsa-paper")}
    stronger = STRONGER[suite]
    (weaker,) = found.keys() - {stronger}
    assert found[stronger] < found[weaker] - 0.2
    if suite == "digits-adv-rpc":
        check_attacks({name: cell["value"] for name, cell in row["cells"].items()})


def check_attacks(found: dict[str, float]) -> None:
    """Larger budgets leave fewer, and every attack of RPC's tables finds something."""
    accuracies = [found[f"pgd-{budget}/top1_accuracy"] for budget in range(1, 7)]
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[-1] < found["clean/top1_accuracy"] - 0.3
    assert found["cw/top1_accuracy"] < 0.3
    assert found["autoattack/top1_accuracy"] < 0.6 < found["autoattack-paper/top1_accuracy"]
