"""Forms in which people have ImageNet-1k and the datasets with its classes, read without unpacking or converting.

In order: class folders; the validation images as published, loose with the labels of the development kit; archives,
whose members are class folders, loose images or a WebDataset; Parquet shards of the Hugging Face hub. The first form
that is there is read. Where the names of files survive, ids and fingerprint are the same in all of them.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Final

from robench.core.errors import MissingDataError, RobenchError
from robench.datasets.archives import read_members
from robench.datasets.devkit import DEVKIT, find_devkit, published_name, read_labels
from robench.datasets.imagenet_folder import (
    CLASS_FOLDERS,
    VALIDATION,
    ImageSource,
    Layout,
    Listed,
    candidates,
    class_folders,
    images_in,
    is_like_class,
    name_of_image,
    read_class_folders,
    source_of,
)
from robench.datasets.imagenet_shards import PARQUET, WEBDATASET, read_parquet, read_webdataset
from robench.datasets.packed_index import NOTES, members_of

LOOSE: Final = "loose images"
ARCHIVE: Final = "archive of class folders"
LOOSE_ARCHIVE: Final = "archive of loose images"
# Members that tell what an archive is; some begin with a text.
_NUM_SNIFFED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Images of a dataset in one form, before they are listed."""

    form: str
    place: Path
    read: Callable[[], ImageSource]


def find_images(data_root: Path | None, layout: Layout = VALIDATION) -> ImageSource:
    """Return all images of the first form that is there; warn if the set is incomplete."""
    try:
        found = find_form(data_root, layout)
        source = found.read()
    except OSError as error:
        raise unreadable(error, layout) from error
    if not len(source):
        raise MissingDataError(
            f"no image of {layout.title} in {found.place}, found as {found.form}. {_how_to_give(layout)}"
        )
    _warn_of_gaps(source, layout)
    return source


def unreadable(error: OSError, layout: Layout) -> MissingDataError:
    """Return the error to raise for a file or folder that cannot be read."""
    return MissingDataError(f"cannot read {error.filename} of {layout.title}: {error.strerror or error}")


def find_form(data_root: Path | None, layout: Layout) -> Found:
    """Return the first form in which a dataset is there, and say once which others are not read."""
    if data_root is None:
        raise MissingDataError(f"{layout.title} needs a folder. {_how_to_give(layout)}")
    root = data_root.expanduser()
    forms = _forms(root, layout)
    first = next(forms, None)
    if first is None:
        raise MissingDataError(f"{layout.title} not found. Tried:", *_tried(root, layout), _how_to_give(layout))
    others: tuple[str, ...] = ()
    # Damage to another form does not matter.
    with suppress(OSError, RobenchError):
        others = tuple(f"{each.form} in {each.place}" for each in forms)
    if others:
        _say_once(layout.dataset.split("/")[0], first.form, others)
    return first


@cache
def _say_once(dataset: str, read: str, others: tuple[str, ...]) -> None:
    logging.getLogger("robench.datasets").warning(
        "dataset %r is there in several forms: %s are read, the first in the order of docs/datasets.md, and not %s",
        dataset,
        read,
        ", ".join(others),
    )


def _forms(root: Path, layout: Layout) -> Iterator[Found]:
    """Yield the forms in which a dataset is there, in their order, as far as names and first members tell."""
    places = [place for place in candidates(root, layout) if place.is_dir()]
    for place in places:
        if class_folders(place, layout):
            yield Found(form=CLASS_FOLDERS, place=place, read=partial(read_class_folders, place, layout))
            break
    devkit = find_devkit(root, layout.devkits)
    for place in places if layout.devkits else ():
        name = next((name for path in place.iterdir() if (name := published_name(path.name))), None)
        if name is not None and (devkit or name.wordnet_id):
            yield Found(form=LOOSE, place=place, read=partial(_read_loose, place, devkit, layout))
            break
    yield from _archives(root, layout, devkit)
    if shards := next(filter(None, (_matching(root, pattern) for pattern in layout.shards)), None):
        yield Found(form=PARQUET, place=shards[0].parent, read=partial(read_parquet, shards, layout))


def _archives(root: Path, layout: Layout, devkit: Path | None) -> Iterator[Found]:
    """Yield the forms in which archives are."""
    archives = [archive for pattern in layout.archives for archive in _matching(root, pattern)]
    contents = {archive: _content_of(archive, layout, devkit) if layout.devkits else ARCHIVE for archive in archives}
    for archive in archives:
        if contents[archive] == ARCHIVE:
            yield Found(form=ARCHIVE, place=archive, read=partial(_read_archive, archive, layout))
    for archive in archives:
        if contents[archive] == LOOSE_ARCHIVE:
            yield Found(form=LOOSE_ARCHIVE, place=archive, read=partial(_read_loose, archive, devkit, layout))
    shards = [archive for archive in archives if contents[archive] == WEBDATASET]
    if shards := [shard for shard in shards if shard.parent == shards[0].parent]:
        yield Found(form=WEBDATASET, place=shards[0].parent, read=partial(read_webdataset, tuple(shards), layout))


def _matching(root: Path, pattern: str) -> tuple[Path, ...]:
    found = (path for path in root.glob(pattern) if path.is_file() and not path.name.startswith("."))
    return tuple(sorted(found))


def _content_of(archive: Path, layout: Layout, devkit: Path | None) -> str | None:
    """Return the form that the first members of an archive show; None for images whose labels are unknown."""
    files = (member.parts for member in read_members(archive) if not member.is_folder)
    first = [parts for parts in islice(files, _NUM_SNIFFED) if not parts[-1].startswith(".")]
    if any(parts[-1].endswith(NOTES) for parts in first):
        return WEBDATASET
    loose = [published_name(parts[-1]) for parts in first if not is_like_class("".join(parts[-2:-1]), layout)]
    if not any(loose):
        return ARCHIVE
    return LOOSE_ARCHIVE if devkit or all(name and name.wordnet_id for name in loose) else None


def _tried(root: Path, layout: Layout) -> Iterator[str]:
    """Yield a line for each place in which a dataset was looked for."""
    for place in candidates(root, layout):
        if place.is_dir():
            loose = sum(1 for _ in images_in(place))
            without = f", and no development kit ({DEVKIT}.tar.gz) with their labels" if layout.devkits else ""
            yield f"  {place}: {f'{loose:,} images outside class folders{without}' if loose else 'no class folders'}"
        else:
            yield f"  {place}: {'not a folder' if place.exists() else 'absent'}"
    for pattern in (*layout.archives, *layout.shards):
        if archives := _matching(root, pattern):
            yield f"  {archives[0]}: images without labels; put {DEVKIT}.tar.gz beside it"
        elif compressed := _matching(root, f"{pattern}.gz"):
            yield f"  {compressed[0]}: compressed as a whole; decompress it by gunzip"
        else:
            yield f"  {root / pattern}: absent"


def _read_loose(place: Path, devkit: Path | None, layout: Layout) -> ImageSource:
    """Return the images of a folder, or of an archive, whose labels are in their names or in the development kit."""
    is_folder = place.is_dir()
    listed = images_in(place) if is_folder else _members(place)
    images = [(name, each) for each in listed if (name := published_name(f"{each.stem}{each.suffix}"))]
    is_labelled = all(name.wordnet_id for name, _ in images)
    folders = [name.wordnet_id or "" for name, _ in images]
    if not is_labelled:
        if devkit is None or any(folders):
            raise MissingDataError(
                f"only some images in {place} have a WordNet id in their name; expected all, or none, and"
                f" {DEVKIT}.tar.gz beside them"
            )
        labels = read_labels(devkit)
        if sorted(name.number for name, _ in images) != list(range(1, len(labels) + 1)):
            raise MissingDataError(
                f"{place} holds {len(images):,} images, and the ground truth in {devkit} has {len(labels):,} lines;"
                " expected a line for each image, by the number in its name. Restore both from image-net.org"
            )
        folders = [labels[name.number - 1] for name, _ in images]
    return source_of(
        (
            Listed(folder, name.stem, name.suffix, each.num_bytes, start=each.start)
            for folder, (name, each) in zip(folders, images, strict=True)
        ),
        layout,
        form=LOOSE if is_folder else LOOSE_ARCHIVE,
        place=place,
        pattern="{stem}_{folder}{suffix}" if is_labelled else "{stem}{suffix}",
        shards=() if is_folder else (place,),
    )


def _members(archive: Path, inside: str = "") -> Iterator[Listed]:
    """Yield the images of an archive below a folder in it; of those outside class folders the folder is ""."""
    prefix = f"{inside}/" if inside else ""
    for name, start, num_bytes in members_of(archive):
        folder, _, last = name.removeprefix(prefix).rpartition("/")
        if name.startswith(prefix) and (parts := name_of_image(last)):
            yield Listed(folder, *parts, num_bytes, start=start)


def _read_archive(archive: Path, layout: Layout) -> ImageSource:
    """Return the images of the class folders in an archive."""
    images: list[Listed] = []
    for inside in layout.inside:
        images = images or [each for each in _members(archive, inside) if is_like_class(each.folder, layout)]
    return source_of(images, layout, form=ARCHIVE, place=archive, shards=(archive,))


def _warn_of_gaps(source: ImageSource, layout: Layout) -> None:
    per_class = Counter(source.targets.tolist())
    is_whole = len(per_class) == len(layout.classes) and len(source) == layout.num_images
    if layout.images_per_class is not None:
        is_whole = is_whole and set(per_class.values()) == {layout.images_per_class}
    if not is_whole:
        logging.getLogger("robench.datasets").warning(
            "dataset %r in %s is not the whole %s: %s images of %s classes, not %s. What is %s on it compares with"
            " nothing published",
            layout.dataset,
            source.place,
            layout.part,
            f"{len(source):,}",
            len(per_class),
            layout.wanted,
            "trained" if layout.is_trained_on else "measured",
        )


def _how_to_give(layout: Layout) -> str:
    others = f", or another form in DIR/{layout.places[0].split('/')[0]} (docs/datasets.md)" if layout.archives else ""
    return (
        f"Wanted: DIR/{layout.example} and so on, {layout.num_images:,} images in {len(layout.classes)} class folders"
        f" named by {'number' if layout.has_numbered_classes else 'WordNet id'}{others}. Give DIR by --data-root DIR or"
        " the variable ROBENCH_DATA"
    )
