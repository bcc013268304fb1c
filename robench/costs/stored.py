"""Seconds and memory of models in a results folder, each with the conditions of its measurement."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robench.core.files import read_regular

# Beside the records, in a results folder.
FOLDER = "costs"
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCost:
    """Seconds and memory of a model by kind of pass, ``inference`` or ``training``.

    Attributes:
        conditions: protocol, size of inputs, device, threads and versions, as text that equals that of other models
            under the same conditions; ``described``: the same in words.
        seconds: median and quartiles of a sample.
        ratio_to: model that it was measured in turns with; ``ratios``: median and quartiles of the ratio to it.
        at: time of the measurement, UTC, ISO 8601.
    """

    model: str
    conditions: str
    described: str
    seconds: Mapping[str, tuple[float, float, float]]
    peak_bytes: Mapping[str, float]
    at: str
    ratio_to: str | None = None
    ratios: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)


def stored_costs(results: Path) -> tuple[StoredCost, ...]:
    """Return the measurements of models in a results folder, the latest first; files in another form are left out."""
    found = [cost for path in sorted((results / FOLDER).glob("*.json")) for cost in _read(path)]
    return tuple(sorted(found, key=lambda cost: (cost.at, cost.model), reverse=True))


def _read(path: Path) -> Iterator[StoredCost]:
    try:
        document: Any = json.loads(read_regular(path, _LARGEST))
        if "model" not in document or "protocol" not in document:
            return
        protocol, versions = document["protocol"], document["versions"]
        kinds = [kind for kind in ("inference", "training") if kind in document]
        compared = {name: document[name] for name in ("protocol", "input_shape", "device", "threads", "versions")}
        yield StoredCost(
            model=str(document["model"]),
            conditions=json.dumps(compared, sort_keys=True),
            described=(
                f"{document['device']}, {document['threads']} threads, torch {versions['torch']}, protocol"
                f" {protocol['name']}, batches of {protocol['batch_size']}"
            ),
            seconds={kind: _quartiles(document[kind]["seconds"]) for kind in kinds},
            peak_bytes={kind: float(document[kind]["peak_bytes"]) for kind in kinds},
            at=str(document["at"]),
            ratio_to=document.get("ratio_to"),
            ratios={kind: _quartiles(found) for kind in kinds if (found := document[kind].get("ratio"))},
        )
    # A folder of results may have any files; another form of document is not a measurement.
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return


def _quartiles(values: Mapping[str, Any]) -> tuple[float, float, float]:
    median, low, high = (float(values[name]) for name in ("median", "low", "high"))
    return median, low, high
