"""Time and memory of large results folders: ``python benchmarks/store_size.py FOLDER [MODELS CONDITIONS SHARDS]``.

Fills FOLDER, unless it is there, with files of SHARDS (1,000) of 100 examples for CONDITIONS (10) and MODELS (100), one
million by default, and prints what listing, planning and ``robench status`` take. Only the files that a listing opens
have content; the others are empty, as names alone are read.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING

from robench.core.shard import DatasetIdentity, Measurement, into_shards
from robench.declare import parse_suite
from robench.reports import Listing, holdings_of
from robench.scheduling import ShardQueue
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from robench.core.suite import Suite

SIZE = 100


def suite_of(num_conditions: int) -> Suite:
    conditions = [{"name": "clean"}] + [
        {"name": f"fgsm-{number}", "perturbation": {"kind": "fgsm", "epsilon": f"{number}/255"}}
        for number in range(1, num_conditions)
    ]
    named = {"name": "size", "version": 1, "seed": 0, "dataset": "imagenet-1k", "batch_size": SIZE, "audit": False}
    return parse_suite({**named, "conditions": conditions, "metrics": ["top1_accuracy"]})


def measurements(num_models: int, num_conditions: int, num_shards: int) -> list[Measurement]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from examples import CHECKPOINT, MEASUREMENT

    data = DatasetIdentity(name="imagenet-1k", fingerprint="f" * 64, num_examples=num_shards * SIZE)
    return [
        replace(
            MEASUREMENT,
            checkpoint=replace(CHECKPOINT, name=f"model-{model:03d}"),
            condition=condition,
            dataset=data,
            batch_size=SIZE,
            weights_digest=f"{model:064x}",
        )
        for model in range(num_models)
        for condition in suite_of(num_conditions).conditions
    ]


def fill(folder: Path, num_models: int, num_conditions: int, num_shards: int) -> None:
    from examples import record_of
    from robench.store.envelope import encode_manifest
    from robench.store.parquet import encode_record
    from robench.store.paths import Paths
    from robench.store.record_files import MOST_OPENED

    for measurement in measurements(num_models, num_conditions, num_shards):
        headers = [shard.header for shard in into_shards([measurement], 1)]
        paths = sorted((Paths(folder).record(header), header) for header in headers)
        step = max(1, len(paths) // MOST_OPENED)
        paths[0][0].parent.mkdir(parents=True)
        for place, (path, header) in enumerate(paths):
            path.write_bytes(encode_record(record_of(header)) if place % step == 0 else b"")
        Paths(folder).manifest(measurement.key).write_bytes(encode_manifest(record_of(headers[0])))


def timed(what: str, act: Callable[[], object]) -> None:
    started = time.perf_counter()
    found = act()
    seconds, peak = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{what}: {seconds:.1f} s, at most {peak / 2**20:.2f} GiB so far ({found})")


def measure(folder: Path, sizes: list[int]) -> None:
    """Print seconds and peak memory of each step in this process."""
    store, kept = FolderStore(folder), {}

    def planned() -> str:
        kept["shards"] = list(into_shards(measurements(*sizes), 1))
        return f"{len({each.key for each in kept['shards']})} shards missing in an empty store"

    timed("plan", planned)
    timed("queue", lambda: f"{len(ShardQueue(kept['shards']))} shards in the queue")
    timed("resume", lambda: f"{len({each.key for each in kept['shards']} - store.keys())} shards missing in the folder")
    kept.clear()
    timed("status", lambda: f"{sum(each.num_in for each in holdings_of(suite_of(sizes[1]), Listing(store)))} examples")


if __name__ == "__main__":
    results, sizes = Path(sys.argv[1]), [int(text) for text in sys.argv[2:]] or [100, 10, 1000]
    if not results.exists():
        # In another process, whose memory does not count.
        code = f"from store_size import *; measurements(1, 1, 1); fill(Path({str(results)!r}), *{sizes})"
        run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
    measure(results, sizes)
