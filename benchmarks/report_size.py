"""Memory and time of a report: ``python benchmarks/report_size.py FOLDER [MODELS SHARDS EXAMPLES PACKED]``.

Fills FOLDER with records of MODELS (20) of 2 conditions with SHARDS (500) of EXAMPLES (100) each, unless it is there,
and prints how long a report takes and how much memory it needs beyond what importing takes. With PACKED 1 the records
of a measurement are in one file, as after ``robench store compact``.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from subprocess import run

from robench.declare import parse_suite
from robench.reports import report_of_store
from robench.store import FolderStore

SUITE = {
    "name": "size",
    "version": 1,
    "seed": 0,
    "dataset": "imagenet-1k",
    "batch_size": 100,
    "conditions": [{"name": "clean"}, {"name": "fgsm", "perturbation": {"kind": "fgsm", "epsilon": "4/255"}}],
    "metrics": ["top1_accuracy", "robust_accuracy"],
    "audit": False,
}


def fill(folder: Path, num_models: int, num_shards: int, num_examples: int, is_packed: int = 0) -> None:
    """Write the records without the calls to fsync that a run makes."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from dataclasses import replace

    from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, outcome_of, record_of
    from robench.core.shard import DatasetIdentity, Shard
    from robench.store.envelope import encode_manifest
    from robench.store.packed import encode_pack
    from robench.store.parquet import encode_record
    from robench.store.paths import Extent, Paths

    data = DatasetIdentity(name="imagenet-1k", fingerprint="f" * 64, num_examples=num_shards * num_examples)
    for model in range(num_models):
        for condition in parse_suite(SUITE).conditions:
            checkpoint = replace(CHECKPOINT, name=f"model-{model:02d}")
            measurement = replace(
                MEASUREMENT, checkpoint=checkpoint, condition=condition, dataset=data, batch_size=100,
                weights_digest=f"{model:064x}",
            )  # fmt: skip
            records = []
            for number in range(num_shards):
                start = number * num_examples
                header = Shard(measurement=measurement, start=start, stop=start + num_examples).header
                rows = [
                    outcome_of(f"ILSVRC2012_val_{place:08d}", place % (model + 2) > 0, linf=0.01, l2=0.5, num_queries=9)
                    for place in range(start, header.stop)
                ]
                records.append(record_of(header, tuple(rows), PROVENANCE))
            manifest = Paths(folder).manifest(measurement.key)
            manifest.parent.mkdir(parents=True)
            manifest.write_bytes(encode_manifest(records[0]))
            if is_packed:
                extent = Extent(size=num_examples, stop=data.num_examples)
                Paths(folder).pack(measurement.key, extent).write_bytes(encode_pack(records))
                continue
            for record in records:
                Paths(folder).record(record.shard).write_bytes(encode_record(record))


def measure(folder: Path) -> None:
    """Print seconds and memory of one report in this process."""
    suite = parse_suite(SUITE)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    report = report_of_store(suite, FolderStore(folder))
    seconds, peak = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert report.is_complete
    print(f"{len(report.rows)} models: {seconds:.1f} s, {(peak - before) / 1024:.0f} MiB")


if __name__ == "__main__":
    results, sizes = Path(sys.argv[1]), [int(text) for text in sys.argv[2:]] or [20, 500, 100]
    if not results.exists():
        # In another process, whose memory does not count.
        code = f"from report_size import *; fill(Path({str(results)!r}), *{sizes})"
        run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
    measure(results)
