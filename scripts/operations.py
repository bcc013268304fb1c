"""Write reports/published/operations.json: operations and relative times of the models that papers' tables name.

``python scripts/operations.py`` counts what is missing or has changed; ``--times`` also measures the seconds of a pass
over those of the same model with softmax attention, in turns on this machine (half an hour), of models without them.
They are CPU seconds of this process, since other programs may share the machine. Tests compare the counts with those of
another counter.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

from robench.costs import Protocol
from robench.costs.counting import subject_of
from robench.costs.measuring import measured
from robench.declare import load_published, published_tables, read_registry, shipped_registry
from robench.evaluation.arithmetic import device_kind
from robench.papers.forecast import operations_key
from robench.reproduction.operations import counted_operations, with_softmax

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.checkpoint import Checkpoint

FILE = Path(__file__).resolve().parents[1] / "reports" / "published" / "operations.json"
PROTOCOL = Protocol(batch_size=2, warm_ups=1, repeats=3)
# Causal SPKDE solves a quadratic program for each query's past: O(N^4) operations, some 10^13 for one example.
UNCOUNTED = frozenset({"wikitext-spkde-small", "wikitext-spkde-medium"})


def models(entries: Mapping[str, Checkpoint]) -> list[str]:
    """Return the models that cells of the tables name, and the models whose weights their trainings start from."""
    cells = [cell for table in published_tables() for cell in load_published(*table).cells]
    named = {str(cell.model) for cell in cells if cell.model is not None}
    initial = {getattr(getattr(entries[name].training, "initial_weights", None), "uri", None) for name in named}
    return sorted(named | {name for name, each in entries.items() if each.weights.uri in initial})


def counted(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the multiply-adds of a pass in inference and training, and of one with softmax attention."""
    if checkpoint.name in UNCOUNTED:
        return {"key": operations_key(checkpoint)}
    found = counted_operations(checkpoint)
    passes = {"inference": found.inference, "training": found.training, "softmax": found.softmax}
    passes |= {"teacher": found.teacher} if found.teacher else {}
    return {"key": operations_key(checkpoint), **passes}


def timed(checkpoint: Checkpoint) -> dict[str, float]:
    """Return the seconds of a pass over those of the model with softmax attention, medians of turns."""
    other = with_softmax(checkpoint)
    if other.architecture == checkpoint.architecture:
        return {"inference": 1.0, "training": 1.0}
    subjects = [
        subject_of(each.name, each.architecture, each.preprocessing, torch.device("cpu"))
        for each in (checkpoint, other)
    ]
    with patch.object(time, "perf_counter", time.process_time):
        found = measured(subjects, PROTOCOL)[0]
    return {kind: round(each.ratio.median, 3) for kind, each in found.items() if each.ratio is not None}


def write(kept: dict[str, Any]) -> None:
    """Write the file, a model a line."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept))
    document = {"times_on": device_kind(torch.device("cpu")), "threads": 1, "batch_size": PROTOCOL.batch_size}
    head = json.dumps(document)[:-1]
    FILE.write_text(f'{head}, "models": {{\n{lines}\n}}}}\n')


def main() -> None:
    """Bring the file up to date."""
    torch.set_num_threads(1)
    entries = read_registry(shipped_registry())
    before = json.loads(FILE.read_text())["models"] if FILE.exists() else {}
    kept: dict[str, Any] = {}
    by_key = {each["key"]: each for each in before.values()}
    for name in models(entries):
        found = by_key.get(operations_key(entries[name]))
        if found is None:
            sys.stdout.write(f"{name}\n")
            found = counted(entries[name])
        kept[name] = by_key[found["key"]] = found
    write(kept)
    if "--times" in sys.argv:
        for name in sorted(kept.keys() - UNCOUNTED, key=lambda each: int(kept[each]["training"])):
            if "times" not in kept[name]:
                kept[name]["times"] = timed(entries[name])
                sys.stdout.write(f"{name} {kept[name]['times']}\n")
                write(kept)


if __name__ == "__main__":
    main()
