"""Archives of results, reduced to the outcomes that the tables' numbers need, and the files of all tables.

Each measurement is one record, unless its shards come from several devices or releases. Optional columns that no metric
of the suite reads are left out, such as losses, passes and distances of attacks with a budget.

The file is a tar archive under xz, a tenth of the room of thousands of small files, with names in order and no times,
owners or modes, so that the same results give the same bytes under one release of the library. Likewise, the same
archive gives the same files of tables, with a manifest of their inputs.
"""

import hashlib
import io
import re
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from robench.core.columns import Outcomes, fields_of
from robench.core.errors import StoreError, UsageError
from robench.core.files import write_whole, writing
from robench.core.inert import inert_json, printable
from robench.core.protocols import Store
from robench.core.records import Manifest, Record
from robench.core.shard import shard_key
from robench.core.suite import Suite, views_of
from robench.metrics import METRICS
from robench.papers.table import PaperTable
from robench.papers.twins import TwinTable
from robench.reports import needs
from robench.reports.selection import source_of_condition, source_of_shard, tile
from robench.store import FolderStore

# What reports read beside metrics: the budget of a sweep, and how many inputs were clamped or not read whole.
_READ_BY_REPORTS = frozenset({"epsilon", "num_clamped", "num_lost", "num_cut"})
# Of smoothed models: a right class that they abstain from would be a contradiction, and certificates could not be
# compared with the distances of attacks.
_OF_SMOOTHED = frozenset({"votes", "abstained", "certified_radius", "l2"})

Source = tuple[str, str]


def archived(
    models: Mapping[str, Collection[str]], suites: Mapping[str, Suite], store: Store, manifests: Sequence[Manifest]
) -> Iterator[Record]:
    """Yield the reduced records of some models under some suites, both by the suite's name.

    Models are names of checkpoints, one for each seed; ``manifests`` describe all that the store has.
    """
    fields = {name: fields_read(suites[name]) for name in models}
    for manifest in manifests:
        shard = manifest.shard
        wanting = [
            name
            for name, wanted in models.items()
            if shard.checkpoint in wanted and needs(suites[name], seed=suites[name].seed)(shard)
        ]
        if wanting:
            source = source_of_shard(shard)
            of_suites = [fields[name].get(source, frozenset()) for name in wanting]
            read = None if None in of_suites else frozenset().union(*(each for each in of_suites if each is not None))
            yield from _smaller([*store.records_of([shard.measurement_key])], read)


def fields_read(suite: Suite) -> dict[Source, frozenset[str] | None]:
    """Return the optional fields of each condition that a suite's columns read; None if unknown."""
    conditions = {view.name: condition for condition in suite.conditions for view in views_of(condition)}
    read: dict[Source, frozenset[str] | None] = {}
    for column in suite.columns:
        fields = METRICS[column.metric].reads
        for name in column.conditions:
            source = source_of_condition(conditions[name])
            known = read.get(source, frozenset())
            read[source] = None if fields is None or known is None else known | frozenset(fields)
    return read


def _smaller(records: Sequence[Record], read: frozenset[str] | None) -> Iterator[Record]:
    tiles = [replace(record, outcomes=_without(record.outcomes, read)) for record in _whole(records)]
    made_alike = len({(record.provenance.device, tuple(record.provenance.versions.items())) for record in tiles}) == 1
    is_gapless = all(before.shard.stop == after.shard.start for before, after in pairwise(tiles))
    if not made_alike or not is_gapless or len(tiles) == 1:
        yield from tiles
        return
    first, last = tiles[0], tiles[-1]
    start, stop = first.shard.start, last.shard.stop
    shard = replace(first.shard, key=shard_key(first.shard.measurement_key, start, stop), start=start, stop=stop)
    yield replace(
        first,
        shard=shard,
        outcomes=type(first.outcomes).joined([record.outcomes for record in tiles]),
        provenance=replace(
            first.provenance,
            seconds=sum(record.provenance.seconds for record in tiles),
            finished_at=max(record.provenance.finished_at for record in tiles),
        ),
    )


def _whole(records: Sequence[Record]) -> list[Record]:
    """Return the records that hold each example once, each with the key of what it holds."""
    most = max((record.shard.stop for record in records), default=0)
    return [
        replace(record, shard=replace(shard, key=shard_key(shard.measurement_key, shard.start, shard.stop)))
        for record in tile(records, most)
        if (shard := record.shard)
    ]


def _without(outcomes: Outcomes, read: frozenset[str] | None) -> Outcomes:
    if read is None:
        return outcomes
    fields = fields_of(outcomes.row_type)
    is_smoothed = "votes" in fields and outcomes.values("votes") is not None
    kept = read | _READ_BY_REPORTS | (_OF_SMOOTHED if is_smoothed else frozenset())
    return outcomes.replaced(**{each.name: None for each in fields.values() if each.optional and each.name not in kept})


SUFFIX = ".tar.xz"
# A measurement's folder, and a file in it.
_MEMBER = re.compile(r"records/[0-9a-f]{32}/[0-9A-Za-z_][0-9A-Za-z_.-]{0,80}")
# Of all files together, and read at once.
MOST_BYTES = 4 << 30
_PIECE = 1 << 20


def is_archive(path: Path) -> bool:
    """Return whether a path is that of an archive, by its suffix."""
    return path.name.endswith(SUFFIX)


def packed(results: Path) -> bytes:
    """Return the content of the file of a results folder, whose failures and temporary files are left out."""
    file = io.BytesIO()
    names = sorted(path.relative_to(results).as_posix() for path in results.glob("records/*/*"))
    with tarfile.open(fileobj=file, mode="w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            if _MEMBER.fullmatch(name):
                content = (results / name).read_bytes()
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def add_records(records: Iterable[Record], archive: Path) -> tuple[int, int]:
    """Add records to an archive, which is made if it does not exist; return their number and the file's size in bytes.

    A record that is there already stays as it is.

    Raises:
        UsageError: the path does not end in the suffix of archives.
        StoreError: the archive cannot be read or written.
    """
    if not is_archive(archive):
        raise UsageError(f"--archive must be a file ending in {SUFFIX}, got {archive.name!r}")
    kept = unpacked(archive) if archive.exists() else TemporaryDirectory(prefix="robench-archive-")
    with kept as folder:
        store = FolderStore(Path(folder))
        count = 0
        for record in records:
            store.put(record)
            count += 1
        content = packed(Path(folder))
    with writing(archive):
        write_whole(archive, content)
    return count, len(content)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Unpack a file into a temporary results folder, which is removed in the end; nothing else is written.

    Raises:
        StoreError: it cannot be read, has another format, or a member other than results.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} must be a regular file, an archive of results")
    refused = f"{path} cannot be read as an archive of results"
    with TemporaryDirectory(prefix="robench-archive-") as name, TemporaryFile() as file:
        folder = Path(name)
        try:
            size = _decompress(path, file)
            with tarfile.open(fileobj=file) as archive:
                names: set[str] = set()
                for member in archive:
                    _unpack(archive, member, folder, path)
                    if member.name in names:
                        raise StoreError(f"{path} has {member.name} twice; restore the archive")
                    names.add(member.name)
                # Two blocks of zeros, without which tarfile takes the end of the file for that of the archive.
                if archive.offset + 2 * tarfile.BLOCKSIZE > size:
                    raise tarfile.ReadError("its end is missing")
        except (OSError, EOFError, tarfile.TarError) as error:
            raise StoreError(f"{refused} ({error}); restore it") from error
        try:
            yield folder
        except StoreError as error:
            # The folder is gone when the message is read.
            raise type(error)(str(error).replace(f"{folder}/", f"{path}: ")) from error


def _decompress(path: Path, file: IO[bytes]) -> int:
    """Write what a file of xz has into another, and return its size in bytes.

    Raises:
        OSError: the stream is damaged, cut or longer than results are, or something follows it.
    """
    # Imported here: a Python that was built without it can do without archives.
    import lzma

    decompressor, size = lzma.LZMADecompressor(lzma.FORMAT_XZ), 0
    with path.open("rb") as packed_file:
        # Piece by piece: a small file can have gigabytes of zeros.
        while not decompressor.eof:
            piece = packed_file.read(_PIECE) if decompressor.needs_input else b""
            if decompressor.needs_input and not piece:
                raise EOFError("it is cut")
            try:
                found = decompressor.decompress(piece, _PIECE)
            except lzma.LZMAError as error:
                raise OSError(str(error)) from error
            size += file.write(found)
            if size > MOST_BYTES:
                raise OSError(f"it has more than {MOST_BYTES >> 30} GB of results")
        if decompressor.unused_data or packed_file.read(1):
            raise OSError("something follows its end")
    file.seek(0)
    return size


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, path: Path) -> None:
    # A sparse member is larger than what the archive has of it.
    if not member.isreg() or member.issparse() or not _MEMBER.fullmatch(member.name):
        raise StoreError(f"{path} has {printable(member.name)!r}, which is not a file of results; restore the archive")
    content = archive.extractfile(member)
    assert content is not None  # it is a regular file
    place = folder / PurePosixPath(member.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.read())


WRITTEN_FORMATS = ("md", "json")
MANIFEST_NAME = "manifest.json"
# Folders of a results folder that no number is read off.
_UNREAD = ("damaged", "adversarial")


def files_of(tables: Sequence[PaperTable | TwinTable], manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of all files by name: each table in two formats, and the manifest."""
    files = {
        f"{table.name.replace(':', '-')}.{name}": table.render(name) for table in tables for name in WRITTEN_FORMATS
    }
    return files | {MANIFEST_NAME: inert_json(manifest) + "\n"}


def manifest_of(
    tables: Sequence[PaperTable | TwinTable],
    published: Mapping[str, Path],
    suites: Mapping[str, Suite],
    results: Path,
    manifests: Iterable[Manifest],
) -> dict[str, Any]:
    """Return the manifest of tables: their inputs, without any time, machine or path.

    ``published`` are the files of printed numbers by the table's name; ``manifests`` describe all that the folder of
    kept results has.
    """
    versions: dict[str, set[str]] = {}
    count = 0
    for each in manifests:
        count += 1
        for library, version in each.provenance.versions.items():
            versions.setdefault(library, set()).add(version)
    return {
        **_counts([table for table in tables if table.is_counted]),
        "tables": {
            table.name: {
                **_counts([table]),
                **({"counted": table.is_counted} if isinstance(table, PaperTable) else {}),
                "sha256": hashlib.sha256(published[table.name].read_bytes()).hexdigest(),
            }
            for table in tables
        },
        "suites": {name: suites[name].version for name in sorted({name for table in tables for name in table.suites})},
        "archive": {"measurements": count, "sha256": digest_of_results(results)},
        "versions": {library: sorted(versions[library]) for library in sorted(versions)},
    }


def _counts(tables: Sequence[PaperTable | TwinTable]) -> dict[str, int]:
    measured = [cell.ours.measured is not None for table in tables for cell in table.cells]
    noun = "twins" if any(isinstance(table, TwinTable) for table in tables) else "printed"
    return {"measured": sum(measured), noun: len(measured)}


def digest_of_results(results: Path) -> str:
    """Return the SHA-256 of the names and contents of all kept results, in an order of its own."""
    digest = hashlib.sha256()
    kept = (path for path in results.glob("*/*/*") if path.is_file() and not path.name.startswith("."))
    by_name = {path.relative_to(results).as_posix(): path for path in kept}
    for name in sorted(by_name):
        if name.split("/")[0] not in _UNREAD:
            digest.update(f"{name}\0{hashlib.sha256(by_name[name].read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
