"""Files of all tables, with a manifest of their inputs; the same archive gives the same bytes."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robench.core.inert import inert_json
from robench.core.records import Manifest
from robench.core.suite import Suite
from robench.papers.render import FORMATS
from robench.papers.table import PaperTable, num_measured

WRITTEN_FORMATS = ("md", "json")
MANIFEST_NAME = "manifest.json"
# Folders of a results folder that no number is read off.
_UNREAD = ("damaged", "adversarial")


def files_of(tables: Sequence[PaperTable], manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of all files by name: each table in two formats, and the manifest."""
    files = {
        f"{table.name.replace(':', '-')}.{name}": FORMATS[name](table) for table in tables for name in WRITTEN_FORMATS
    }
    return files | {MANIFEST_NAME: inert_json(manifest) + "\n"}


def manifest_of(
    tables: Sequence[PaperTable],
    published: Mapping[str, Path],
    suites: Mapping[str, Suite],
    results: Path,
    manifests: Iterable[Manifest],
) -> dict[str, Any]:
    """Return the manifest of tables: their inputs, without any time, machine or path.

    Args:
        tables: in the order of the files.
        published: file of each table's printed numbers, by the table's name.
        suites: that tables name.
        results: folder of kept results.
        manifests: descriptions of all that it has.
    """
    measured, printed = num_measured(tables)
    versions: dict[str, set[str]] = {}
    count = 0
    for each in manifests:
        count += 1
        for library, version in each.provenance.versions.items():
            versions.setdefault(library, set()).add(version)
    return {
        "measured": measured,
        "printed": printed,
        "tables": {
            table.name: {
                "measured": sum(cell.ours.measured is not None for cell in table.cells),
                "printed": len(table.cells),
                "counted": table.is_counted,
                "sha256": hashlib.sha256(published[table.name].read_bytes()).hexdigest(),
            }
            for table in tables
        },
        "suites": {name: suites[name].version for name in sorted(suites)},
        "archive": {"measurements": count, "sha256": digest_of_results(results)},
        "versions": {library: sorted(versions[library]) for library in sorted(versions)},
    }


def digest_of_results(results: Path) -> str:
    """Return the SHA-256 of the names and contents of all kept results, in an order of its own."""
    digest = hashlib.sha256()
    kept = (path for path in results.glob("*/*/*") if path.is_file() and not path.name.startswith("."))
    by_name = {path.relative_to(results).as_posix(): path for path in kept}
    for name in sorted(by_name):
        if name.split("/")[0] not in _UNREAD:
            digest.update(f"{name}\0{hashlib.sha256(by_name[name].read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
