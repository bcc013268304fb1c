"""Opener of users' images with masks, in two folders or listed in a CSV file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from robench.core.errors import DeclarationError, MissingDataError
from robench.datasets.decoding import size_of
from robench.datasets.image_files_impl import relative_name, size_on_disk
from robench.datasets.masks_impl import MaskRule
from robench.datasets.packed_images import Stored
from robench.datasets.segmentation import Colour, ImageMasks, colour_problems
from robench.datasets.segmentation_impl import MASK_SUFFIXES, MaskedImages, Pairs, check_pairs, files_of
from robench.datasets.user import UserDataset
from robench.datasets.user_impl import NUM_COMPARED, column_of, csv_rows, fingerprint_of
from robench.declarations.preprocessing import ImagePreprocessing
from robench.tasks.segmentation import IGNORED

# Columns of a colour table.
_TABLE: Final = ("name", "red", "green", "blue")


def open_image_masks(
    declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int, **unused: object
) -> MaskedImages:
    """Open a user's images with masks, in two folders or listed in a CSV file."""
    content: ImageMasks = declared.content  # type: ignore[assignment]  # the format of this implementation
    title = f"dataset {declared.name!r}"
    colours = _colours(declared.name, content)
    num_classes = content.num_classes or len(content.names_of_classes or colours)
    rule = MaskRule(
        num_classes=num_classes,
        ignore_index=content.ignore_index,
        reduce_zero_label=content.reduce_zero_label,
        colours=dict(zip(colours.values(), range(num_classes), strict=True))
        | ({} if content.ignore_colour is None else {content.ignore_colour: IGNORED})
        if colours
        else {},
    )
    pairs = _listed(declared.name, content) if content.is_list else _in_two_folders(content, title)
    applied = _resized(declared.name, content, preprocessing)
    if content.same_size:
        _check_sizes([image for image, _ in pairs.images[:NUM_COMPARED]], title)
    fingerprint = fingerprint_of(
        declared,
        files=pairs.digest,
        num_classes=num_classes,
        ignored=[content.ignore_index, content.reduce_zero_label],
        colours=[[*colour, target] for colour, target in rule.colours.items()],
        resize=[content.resize, content.longer_at_most],
    )
    return MaskedImages(declared.name, fingerprint, pairs, rule, applied, decode_workers)


def _colours(name: str, content: ImageMasks) -> Mapping[str, Colour]:
    """Return the colour of each class by its name, from the entry or its file; empty for masks of class numbers."""
    if content.colour_table is None:
        return content.colours
    rows = csv_rows(name, content.colour_table, delimiter=content.delimiter)
    _, header = next(rows)
    title = f"dataset {name!r}: {content.colour_table}"
    columns = [column_of(title, header, each, "the header name,red,green,blue") for each in _TABLE]
    colours: dict[str, Colour] = {}
    for line, row in rows:
        label, *levels = (row[column].strip() for column in columns)
        if not label or label in colours or not all(level.isascii() and level.isdigit() for level in levels):
            raise MissingDataError(
                f"{title}, line {line}: expected a name that no other class has and three whole numbers from 0 to 255,"
                f" got {row}"
            )
        red, green, blue = (int(level[:9]) for level in levels)
        colours[label] = red, green, blue
    if problems := colour_problems(colours, content.ignore_colour):
        raise MissingDataError(f"{title} {problems[0]}; correct the table")
    if content.num_classes not in (None, len(colours)) or len(content.class_names or colours) != len(colours):
        raise DeclarationError(
            f"{title} has {len(colours)} classes, and the entry {content.num_classes or len(content.class_names or ())}"
            " in num_classes or class_names; both must be equal"
        )
    return colours


def _in_two_folders(content: ImageMasks, title: str) -> Pairs:
    masks_at = Path(content.masks or "")
    try:
        images = files_of(content.place, title)
        masks = files_of(masks_at, title, MASK_SUFFIXES)
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of {title}: {error.strerror}") from error
    if not images:
        raise MissingDataError(f"{title} has no image: {content.path} is empty. Check the path in its entry")
    check_pairs(images, masks, title, str(masks_at))
    names = sorted(images)
    return Pairs(
        form="folders",
        place=content.place,
        ids=tuple(names),
        images=[images[name] for name in names],
        masks=[masks[name] for name in names],
    )


def _listed(name: str, content: ImageMasks) -> Pairs:
    root, lines = content.place.parent, dict[str, int]()
    images, masks = list[tuple[Stored, int]](), list[tuple[Stored, int]]()
    rows = csv_rows(name, content.path, delimiter=content.delimiter)
    _, header = next(rows)
    title = f"dataset {name!r}: {content.path}"
    wanted = content.image_column, content.mask_column
    columns = [column_of(title, header, column, "image_column or mask_column") for column in wanted]
    for line, row in rows:
        where = f"{title}, line {line}"
        for files, column, what in zip((images, masks), columns, ("image", "mask"), strict=True):
            path = root / relative_name(row[column], where, what)
            files.append((path, size_on_disk(path, where, what)))
        image = relative_name(row[columns[0]], where)
        if (first := lines.setdefault(image, line)) != line:
            raise MissingDataError(f"{where}: {image} was listed before, in line {first}; list each image once")
    if not lines:
        raise MissingDataError(f"{title} lists no image; give it a row for each")
    return Pairs(form="CSV file", place=content.place, ids=tuple(lines), images=images, masks=masks)


def _resized(name: str, content: ImageMasks, preprocessing: ImagePreprocessing) -> ImagePreprocessing:
    """Return the preprocessing with the resize stated in the entry, if any."""
    if content.resize is None:
        return preprocessing
    stated = content.resize, content.longer_at_most
    if preprocessing.resize is not None and (preprocessing.resize, preprocessing.longer_at_most) != stated:
        raise DeclarationError(
            f"dataset {name!r} has resize {content.resize} and longer_at_most {content.longer_at_most} in its entry,"
            f" and the checkpoint's preprocessing {preprocessing.resize} and {preprocessing.longer_at_most}; leave one"
            " of them out"
        )
    return replace(
        preprocessing,
        resize=content.resize,
        longer_at_most=content.longer_at_most,
        interpolation=preprocessing.interpolation if content.longer_at_most is None else "bilinear",
    )


def _check_sizes(images: Sequence[Stored], title: str) -> None:
    sizes: Iterator[tuple[Stored, tuple[int, int]]] = (
        (image, size) for image in images if (size := size_of(image)) is not None
    )
    first = next(sizes, None)
    for image, size in sizes:
        if first is not None and size != first[1]:
            raise DeclarationError(
                f"{title} has images of different sizes: {first[0]} is {first[1][0]}x{first[1][1]} pixels, {image} is"
                f" {size[0]}x{size[1]}; leave out same_size in its entry"
            )
