"""Size and power of ``robench check`` by simulation: the table of reports/power.md, between its markers.

Each cell is a model's 600 binary outcomes before and now; a proportion of them (the discordance) changed. Without a
loss, each change goes either way with the same probability; a loss of some points makes so many more of them newly
wrong. A check has one or more cells, one with the loss, and fails where Holm's correction over all cells leaves a
p-value of at most 5 %. Decisions are those of ``robench.comparison``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from robench.comparison.check import ALPHA
from robench.comparison.evidence import Evidence, holm
from robench.comparison.permutation import pair, permuted
from robench.metrics.contributions import Contributions, Sample
from robench.metrics.paired import tail_p_value

PAGE = Path(__file__).parents[1] / "reports" / "power.md"
NUM_EXAMPLES, NUM_PAIRS = 600, 2000
CELLS = (1, 5, 10, 20)
DISCORDANCES = (0.05, 0.1, 0.2, 0.3)
LOSSES = (0.02, 0.03, 0.05, 0.08)


def failures(
    num_cells: int, discordance: float, loss: float, *, num_pairs: int = NUM_PAIRS, seed: int = 0
) -> tuple[int, int]:
    """Return how many of the simulated checks fail anywhere, and how many fail in the cell that has the loss."""
    if loss > discordance:
        raise ValueError(f"a loss of {loss} needs as much discordance, got {discordance}")
    generator = np.random.default_rng([seed, num_cells, round(1000 * discordance), round(1000 * loss)])
    losses = np.array([loss, *[0.0] * (num_cells - 1)])
    anywhere = there = 0
    for _ in range(num_pairs):
        changed = generator.binomial(NUM_EXAMPLES, discordance, num_cells)
        wrong = generator.binomial(changed, 0.5 + losses / (2 * discordance))
        corrected = holm([tail_p_value(*each) for each in zip(wrong.tolist(), changed.tolist(), strict=True)])
        anywhere += min(corrected) <= ALPHA
        there += corrected[0] <= ALPHA
    return anywhere, there


def permutation_failures(discordance: float, *, num_pairs: int, num_draws: int = 999, seed: int = 0) -> int:
    """Return how many checks of one cell fail that is a mean of ten predictions of an unchanged model."""
    generator = np.random.default_rng(seed)
    ids = np.array([f"{number:03d}" for number in range(NUM_EXAMPLES)], np.dtypes.StringDType())
    failed = 0
    for _ in range(num_pairs):
        rate = generator.uniform(size=NUM_EXAMPLES)
        is_changed = generator.uniform(size=(2, NUM_EXAMPLES)) < discordance
        rates = np.where(is_changed, generator.uniform(size=(2, NUM_EXAMPLES)), rate)
        values = generator.binomial(10, rates) / 10
        paired = pair(*(Contributions((Sample(ids, each),)) for each in values), "the cell")
        failed += Evidence(False, paired, permuted(paired, num_draws)).worse_p_value <= ALPHA
    return failed


def table() -> str:
    """Return the tables of size and power in Markdown."""
    size = [
        "| cells | " + " | ".join(f"discordance {100 * each:g} %" for each in DISCORDANCES) + " |",
        "|---" * (1 + len(DISCORDANCES)) + "|",
    ]
    for num_cells in CELLS:
        rates = [failures(num_cells, each, 0.0)[0] / NUM_PAIRS for each in DISCORDANCES]
        size.append(f"| {num_cells} | " + " | ".join(f"{100 * rate:.1f}" for rate in rates) + " |")
    power = [
        "| loss, discordance | " + " | ".join(f"{each} cell{'s' * (each != 1)}" for each in CELLS) + " |",
        "|---" * (1 + len(CELLS)) + "|",
    ]
    for loss in LOSSES:
        for discordance in (each for each in DISCORDANCES if each >= loss):
            rates = [failures(each, discordance, loss)[1] / NUM_PAIRS for each in CELLS]
            name = f"{100 * loss:g} points, {100 * discordance:g} %"
            power.append(f"| {name} | " + " | ".join(f"{100 * rate:.1f}" for rate in rates) + " |")
    draws = permutation_failures(0.1, num_pairs=NUM_PAIRS)
    return "\n".join(
        [
            f"Equal pairs that fail, of {NUM_PAIRS:,}, in per cent (at most 5 is promised):",
            *("", *size, ""),
            f"Of the permutation, one cell of ten predictions an example: {100 * draws / NUM_PAIRS:.1f}.",
            *("", "Pairs whose loss is found, in per cent:", "", *power),
        ]
    )


def main() -> int:
    """Write the tables into the page."""
    text = PAGE.read_text()
    marked = re.compile(r"(<!-- power -->\n).*?(<!-- /power -->)", re.DOTALL)
    PAGE.write_text(marked.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
