"""ImageNet's validation images in shards with numbered labels: WebDatasets, and Parquet in the layout of the hub.

Labels are numbers in the order of sorted WordNet ids. Where every image has its published file name (in a WebDataset
by ``filename`` in KEY.json, or as KEY), ids and fingerprint are those of class folders; otherwise an id names the shard
with the key or row, and the set has a fingerprint of its own.
"""

import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from robench.core.errors import MissingDataError
from robench.datasets.devkit import PublishedName, published_name
from robench.datasets.imagenet_folder import SUFFIXES, VALIDATION, ImageSource, Layout, Listed, source_of
from robench.datasets.packed_index import NOTES, index_of

WEBDATASET: Final = "WebDataset shards"
PARQUET: Final = "Parquet shards"


class Row(NamedTuple):
    """Image of a shard: its published name, or None; what it is called in the shard; and its label, or None."""

    name: PublishedName | None
    key: str
    suffix: str
    label: int | None
    num_bytes: int
    shard: int
    start: int


def read_webdataset(shards: tuple[Path, ...], layout: Layout) -> ImageSource:
    """Return the images of a WebDataset: KEY.jpg, or of another format, with KEY.cls, KEY.json or both."""
    rows = [row for number, shard in enumerate(shards) for row in _rows_of_webdataset(shard, number)]
    return _labelled(rows, layout, WEBDATASET, shards)


def _rows_of_webdataset(shard: Path, number: int) -> Iterator[Row]:
    table = index_of(shard).to_pydict()
    # Of each key the numbers of its members, by what follows the first dot in their name.
    keys: dict[str, dict[str, int]] = {}
    for member, name in enumerate(table["name"]):
        folder, slash, last = name.rpartition("/")
        stem, _, extension = last.partition(".")
        keys.setdefault(f"{folder}{slash}{stem}", {})[f".{extension}"] = member
    for key, members in keys.items():
        images = [extension for extension in members if extension.lower() in SUFFIXES]
        if len(images) > 1:
            raise MissingDataError(f"{shard} has two images {key!r} ({' and '.join(images)}); expected one of each key")
        label, filename = _described(
            shard, key, {each: table["note"][members[each]] for each in NOTES if each in members}
        )
        for suffix in images:
            # Extensions of members are those of the format; published files end in .JPEG.
            published = ".JPEG" if suffix.lower() in (".jpg", ".jpeg") else suffix
            yield Row(
                name=published_name(filename) or published_name(f"{key.rpartition('/')[2]}{published}"),
                key=key,
                suffix=suffix,
                label=label,
                num_bytes=table["num_bytes"][members[suffix]],
                shard=number,
                start=table["start"][members[suffix]],
            )


def _described(shard: Path, key: str, notes: Mapping[str, bytes | None]) -> tuple[int | None, str]:
    """Return label and file name of an image by its notes; None and "" where they are not there."""
    try:
        described = json.loads(notes.get(".json") or b"{}")
        label = int(notes[".cls"] or b"") if ".cls" in notes else described.get("label")
        return None if label is None else operator.index(label), str(described.get("filename", "")).rpartition("/")[2]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MissingDataError(
            f"{key}.cls or {key}.json in {shard} cannot be read ({error}); expected a whole number, and an object with"
            " filename and label"
        ) from error


def read_parquet(shards: tuple[Path, ...], layout: Layout) -> ImageSource:
    """Return the images of Parquet shards, see ``parquet_files``."""
    rows = []
    for number, shard in enumerate(shards):
        table = index_of(shard)
        columns = (table[name].to_pylist() for name in ("name", "label", "num_bytes", "start"))
        for name, label, num_bytes, row in zip(*columns, strict=True):
            published = published_name(name.rpartition("/")[2])
            rows.append(Row(published, f"{row:06d}", "", label, num_bytes, number, row))
    return _labelled(rows, layout, PARQUET, shards)


def _labelled(rows: Sequence[Row], layout: Layout, form: str, shards: tuple[Path, ...]) -> ImageSource:
    """Return the images of shards, whose labels are in the order of sorted WordNet ids."""
    wordnet_ids, is_named, images = tuple(VALIDATION.classes), all(row.name for row in rows), []
    for row in rows:
        title = f"image {row.key} in {shards[row.shard]}"
        if row.label is None or not 0 <= row.label < len(wordnet_ids):
            raise MissingDataError(
                f"{title} has {'no label' if row.label is None else f'the label {row.label}'}; labels are whole numbers"
                f" from 0 to {len(wordnet_ids) - 1}, in the order of sorted WordNet ids"
            )
        folder = wordnet_ids[row.label]
        if row.name is not None and row.name.wordnet_id not in (None, folder):
            raise MissingDataError(
                f"{title} has the label {row.label}, which is {folder} in the order of sorted WordNet ids, and"
                f" {row.name.wordnet_id} in its name. Write the shards with labels in this order"
            )
        stem, suffix = (
            (row.name.stem, row.name.suffix) if row.name and is_named else (_own_stem(row, shards), row.suffix)
        )
        images.append(Listed(folder, stem, suffix, row.num_bytes, row.shard, row.start))
    return source_of(images, layout, form=form, place=shards[0].parent, is_named=is_named, shards=shards)


def _own_stem(row: Row, shards: Sequence[Path]) -> str:
    return f"{shards[row.shard].stem}-{row.key.replace('/', '-')}"
