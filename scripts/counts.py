"""Write reports/published/counts.json: the counts of models whose parameters or multiply-adds papers print.

Run it after changing a model, an entry, or the cost that a printed table names; a test fails if the file is old.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from robench.costs.counting import counts_of
from robench.declare import find_checkpoints, load_published, published_tables

FILE = Path(__file__).resolve().parents[1] / "reports" / "published" / "counts.json"


def models() -> list[str]:
    """Return the models whose costs are printed as counts."""
    cells = [cell for table in published_tables() for cell in load_published(*table).cells]
    return sorted({str(cell.model) for cell in cells if cell.cost is not None and cell.cost.is_count})


def counted(name: str) -> dict[str, dict[str, int]]:
    """Return the counts of a model, in inference and in training."""
    (entry,) = find_checkpoints([name], [])
    return {
        mode: asdict(counts_of(name, entry.architecture, entry.preprocessing, is_training=mode == "training"))
        for mode in ("inference", "training")
    }


if __name__ == "__main__":
    FILE.write_text(f"{json.dumps({name: counted(name) for name in models()}, indent=1)}\n")
