"""The table of committed archives of results in docs/reproducing.md, from the archives themselves (``make generated``).

A suite is named by its measurements. Older measurements name none, and count for the fewest suites that need them.
An archive that is missing has no row.
"""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robench.core.checkpoint import entry_name
from robench.core.errors import UsageError
from robench.declare import find_suite
from robench.evaluation.actions import audits_of
from robench.reports.selection import source_of_condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    # Any: values of JSON.
    Headers = Sequence[dict[str, Any]]
    # Name of a dataset and key of a perturbation.
    Source = tuple[str, str]

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"(?<=<!-- archives -->\n).*?(?=<!-- /archives -->)", re.DOTALL)
BLOCK = 512
DATASET = re.compile(r"\bdataset: ([\w./-]+)")
# Pages and commands that read each archive.
READ_BY = {
    "archive": "[tables](tables.md#the-archive) (`make tables`), [figures](figures.md#the-papers-figures), "
    "[segmentation](segmentation.md#mechanisms-compared), [JapaneseVowels](series.md#japanesevowels)",
    "certificates": "[certificates](certificates.md#measured)",
    "cifar10": "[CIFAR-10](cifar10.md#findings) (`make cifar10`)",
    "cifar10-2": "[its protocol](protocols/cifar10-2.md) (`make cifar10-2`)",
    "control": "[control](control.md#measured)",
    "demo": "[the demo's table](index.md#install)",
    "series": "[time series](series.md#mechanisms-compared)",
    "strength": "[strength of attacks](comparing.md#strength-of-attacks)",
    "texts": "[film reviews](texts-results.md)",
}


def page(text: str) -> str:
    """Return the page with the table of the committed archives."""
    return TABLE.sub(lambda found: "".join(f"{line}\n" for line in table(ROOT / "reports")), text)


def table(folder: Path) -> Iterator[str]:
    """Yield the lines of the table: a row for each archive of a folder, by name.

    Raises:
        ValueError: no text says what reads an archive, or no suite needs one of its measurements.
    """
    yield "| archive | suites | models | trainings | measurements | MB | read by |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for path in sorted(folder.glob("*.tar.xz")):
        name = path.name.removesuffix(".tar.xz")
        if name not in READ_BY:
            raise ValueError(f"READ_BY of scripts/archives_table.py must say what reads {path.name}")
        found = headers(path)
        trainings = {each["shard"]["checkpoint"] for each in found}
        counts = (len({entry_name(each) for each in trainings}), len(trainings), len(found))
        suites = ", ".join(f"`{suite}`" for suite in suites_of(found))
        numbers = [*(f"{count:,}" for count in counts), f"{path.stat().st_size / 1e6:.1f}"]
        yield f"| [{path.name}](../reports/{path.name}) | {suites} | {' | '.join(numbers)} | {READ_BY[name]} |"


def headers(path: Path) -> Headers:
    """Return the manifest of each measurement of an archive; no record is read."""
    # Blocks as ``robench.papers.archive`` writes them, in plain USTAR: tarfile takes three times as long.
    content, position, found = lzma.decompress(path.read_bytes()), 0, []
    while name := content[position : position + 100].rstrip(b"\0"):
        begin, size = position + BLOCK, int(content[position + 124 : position + 135], 8)
        if name.endswith(b"/_manifest.json"):
            found.append(json.loads(content[begin : begin + size]))
        position = begin + -(-size // BLOCK) * BLOCK
    return found


def suites_of(found: Headers) -> list[str]:
    """Return the suites of measurements: those named by them, and the fewest that need the others."""
    suites = {each["provenance"]["suite"] for each in found if "suite" in each["provenance"]}
    unnamed = Counter(
        (each["shard"]["dataset"]["name"], each["shard"]["perturbation_key"])
        for each in found
        if "suite" not in each["provenance"]
    )
    for name in suites:
        if unnamed and (ROOT / "suites" / f"{name}.yaml").exists():
            unnamed = _without(unnamed, needs(name))
    others = sorted(_naming({dataset for dataset, _ in unnamed}))
    while unnamed:
        best = max(others, key=lambda name: sum(unnamed[source] for source in needs(name)))
        if not needs(best) & unnamed.keys():
            raise ValueError(f"no suite needs {unnamed.total()} measurements, such as those of {min(unnamed)}")
        suites.add(best)
        unnamed = _without(unnamed, needs(best))
    return sorted(suites)


@cache
def needs(name: str) -> frozenset[Source]:
    """Return the data and perturbations of a suite's conditions and audits; none of a suite that takes any data."""
    try:
        suite = find_suite(name)
    except UsageError:
        return frozenset()
    return frozenset(source_of_condition(each) for each in (*suite.conditions, *audits_of(suite)))


def _naming(datasets: set[str]) -> Iterator[str]:
    """Yield the suites that name one of some datasets."""
    for path in (ROOT / "suites").glob("*.yaml"):
        if datasets.intersection(DATASET.findall(path.read_text())):
            yield path.stem


def _without(counts: Counter[Source], sources: frozenset[Source]) -> Counter[Source]:
    return Counter({source: count for source, count in counts.items() if source not in sources})
