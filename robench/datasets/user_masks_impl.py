"""Opener of users' images with masks, in two folders or listed in a CSV file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from robench.core.errors import DeclarationError, MissingDataError
from robench.datasets.decoding import size_of
from robench.datasets.image_files_impl import relative_name, size_on_disk
from robench.datasets.masks_impl import MaskRule
from robench.datasets.packed_images import Stored
from robench.datasets.segmentation import ImageMasks
from robench.datasets.segmentation_impl import MASK_SUFFIXES, MaskedImages, Pairs, check_pairs, files_of
from robench.datasets.user import UserDataset
from robench.datasets.user_impl import NUM_COMPARED, column_of, csv_rows, fingerprint_of
from robench.declarations.preprocessing import ImagePreprocessing
from robench.tasks.segmentation import IGNORED


def open_image_masks(
    declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int, **unused: object
) -> MaskedImages:
    """Open a user's images with masks, in two folders or listed in a CSV file."""
    content: ImageMasks = declared.content  # type: ignore[assignment]  # the format of this implementation
    title = f"dataset {declared.name!r}"
    colours = {colour: label for label, colour in enumerate(content.colours.values())}
    if colours and content.ignore_colour is not None:
        colours[content.ignore_colour] = IGNORED
    num_classes = content.num_classes or len(content.names_of_classes or ())
    rule = MaskRule(
        num_classes=num_classes,
        ignore_index=content.ignore_index,
        reduce_zero_label=content.reduce_zero_label,
        colours=colours,
    )
    pairs = _listed(declared.name, content) if content.is_list else _in_two_folders(content, title)
    if content.same_size:
        _check_sizes([image for image, _ in pairs.images[:NUM_COMPARED]], title)
    fingerprint = fingerprint_of(
        declared,
        files=pairs.digest,
        num_classes=num_classes,
        ignored=[content.ignore_index, content.reduce_zero_label],
        colours=[[*colour, target] for colour, target in rule.colours.items()],
        # Without these fingerprints would change.
        resize=[None, None],
    )
    return MaskedImages(declared.name, fingerprint, pairs, rule, preprocessing, decode_workers)


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
