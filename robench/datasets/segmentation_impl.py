"""Images with masks on disk, and the opener of ADE20K, with robench's corruptions too.

Images are resized as the preprocessing says, masks never. mmsegmentation and Segmenter resize ADE20K by mmcv's
``imrescale``: by the largest factor that keeps the shorter side at 512 pixels and the longer one at 2,048, to sides
rounded to the nearest pixel, bilinearly without antialiasing (OpenCV).
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from robench.core.errors import ExampleError, MissingDataError
from robench.core.seeds import example_seed
from robench.corruptions import MOVED_LABELS
from robench.corruptions.corruption import Corruption
from robench.corruptions.corruption_impl import corrupted
from robench.datasets.decoding import Altered, size_of
from robench.datasets.image_files_impl import files_below
from robench.datasets.imagenet_folder import SUFFIXES
from robench.datasets.masks_impl import MaskRule, read_mask
from robench.datasets.packed_images import Packed, Stored
from robench.datasets.packed_index import members_of
from robench.datasets.segmentation import ADE20K, Ade20k
from robench.datasets.user_impl import DecodedImages, refuse_crop
from robench.declarations.base import imported
from robench.declarations.preprocessing import ImagePreprocessing
from robench.draws import ExampleDraws
from robench.tasks.segmentation import SEGMENTATION

USUAL_PREPROCESSING: Final = ImagePreprocessing(
    mean=(), std=(), resize=512, longer_at_most=2048, interpolation="bilinear"
)
# Folder of each split in the release, and where the release may be below the data root.
PARTS: Final = {"train": "training", "test": "validation"}
_PLACES: Final = ("ADEChallengeData2016", "ade20k/ADEChallengeData2016")
MASK_SUFFIXES: Final = frozenset((".png",))
_SHOWN: Final = 5
# Place and size in bytes of each file, by its name without suffix.
Files = Mapping[str, tuple[Stored, int]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Images with their masks.

    Attributes:
        form: name of the form, such as ``folders``; ``place``: folder or file that has them.
        ids: one id an image; ``images``, ``masks``: place and size in bytes of each.
    """

    form: str
    place: Path
    ids: tuple[str, ...]
    images: Sequence[tuple[Stored, int]]
    masks: Sequence[tuple[Stored, int]]

    @property
    def digest(self) -> str:
        """Return a SHA-256 over id and both sizes in bytes of each pair, sorted by id."""
        rows = zip(self.ids, self.images, self.masks, strict=True)
        lines = sorted(f"{each}\t{image[1]}\t{mask[1]}\n" for each, image, mask in rows)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


class MaskedImages(DecodedImages):
    """Images with masks in the order of the ids' SHA-256, decoded on access.

    Images of several sizes are read one at a time. ``form`` and ``place`` are those of the pairs.
    """

    task = SEGMENTATION.name

    def __init__(
        self,
        name: str,
        fingerprint: str,
        pairs: Pairs,
        rule: MaskRule,
        preprocessing: ImagePreprocessing,
        decode_workers: int = 0,
    ) -> None:
        refuse_crop(name, preprocessing)
        targets = np.empty((len(pairs.ids), 0), dtype=np.int64)
        super().__init__(name, fingerprint, pairs.ids, targets, preprocessing, decode_workers)
        self.num_classes, self.form, self.place = rule.num_classes, pairs.form, pairs.place
        self._pairs, self._rule = pairs, rule

    def stored(self, position: int) -> Stored:
        """Return the place of an example's encoded image."""
        return self._pairs.images[self._order[position]][0]

    def mask(self, position: int) -> NDArray[np.int64]:
        """Return the targets (H, W) of an example, of the size of its image before any resize."""
        stored, image = self._pairs.masks[self._order[position]][0], self.stored(position)
        targets, size = read_mask(stored, self._rule), size_of(image)
        # An image that cannot be read is reported when it is decoded.
        if size is not None and targets.shape[::-1] != size:
            raise ExampleError(
                f"mask {stored} is {targets.shape[1]}x{targets.shape[0]} pixels, and its image {image} is"
                f" {size[0]}x{size[1]}; give both one size, since robench alone resizes images"
            )
        return targets

    def _targets(self, start: int, stop: int) -> torch.Tensor:
        masks = [self.mask(position) for position in range(start, stop)]
        for position, mask in enumerate(masks, start):
            if mask.shape != masks[0].shape:
                (height, width), (rows, columns) = masks[0].shape, mask.shape
                raise ExampleError(
                    f"images of one batch must have one size: {self.stored(start)} is {width}x{height} pixels,"
                    f" {self.stored(position)} is {columns}x{rows}. Read them one at a time, and leave out"
                    f" same_size if the entry of dataset {self.identity.name!r} has it"
                )
        return torch.from_numpy(np.stack(masks))


class CorruptedImages(MaskedImages):
    """Images with a corruption, which is made on access, before the resize; masks may be moved with the pixels.

    What an example draws is a function of its id alone: the same at each severity, in each copy and for each model.
    """

    def __init__(self, corruption: Corruption, moves_masks: bool, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of MaskedImages
        self._corruption, self._moves_masks = corruption, moves_masks

    def image(self, position: int) -> Altered:
        """Return the encoded image with the corruption that is made of it."""
        change = partial(corrupted_pixels, self._corruption, self._seed(position))
        return Altered(self.stored(position), change)

    def mask(self, position: int) -> NDArray[np.int64]:
        """Return the targets (H, W) of an example; see ``MaskedImages``."""
        targets = super().mask(position)
        if not self._moves_masks:
            return targets
        move = imported(MOVED_LABELS[self._corruption.type])
        labels = torch.from_numpy(targets)[None]
        moved: torch.Tensor = move(labels, self._corruption, ExampleDraws([self._seed(position)]))
        return moved[0].numpy()

    def _seed(self, position: int) -> int:
        return example_seed(0, ADE20K.name, Corruption.kind, self.ids[position])


def corrupted_pixels(corruption: Corruption, seed: int, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 8-bit pixels (H, W, 3) of an image with a corruption, whose draws begin at ``seed``."""
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None].to(torch.float32).div_(255)
    levels = corrupted(corruption, image, ExampleDraws([seed])).mul_(255).round_()
    return levels[0].permute(1, 2, 0).to(torch.uint8).contiguous().numpy()


def open_ade20k(
    declared: Ade20k,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> MaskedImages:
    """Open a split of ADE20K, with Segmenter's resize if no preprocessing is given."""
    declared.check_split(split)
    pairs = find_ade20k(declared.name, data_root, split)
    wanted = declared.num_examples_of(split)
    if len(pairs.ids) != wanted:
        logging.getLogger("robench.datasets").warning(
            "dataset %r in %s is not the whole set: %s images, not %s. What is measured on it compares with nothing"
            " published",
            *(declared.name, pairs.place, f"{len(pairs.ids):,}", f"{wanted:,}"),
        )
    # Some images have no object of the 150 classes.
    rule = MaskRule(num_classes=declared.num_classes, reduce_zero_label=True, may_be_empty=True)
    usual = preprocessing or USUAL_PREPROCESSING
    if declared.corruption is None or declared.severity is None:
        return MaskedImages(declared.name, pairs.digest, pairs, rule, usual, decode_workers)
    corruption = Corruption(type=declared.corruption, severity=declared.severity)
    parts = pairs.digest, corruption.type, corruption.severity, Corruption.version, declared.masks
    fingerprint = hashlib.sha256("\t".join(map(str, parts)).encode()).hexdigest()
    of_images = declared.name, fingerprint, pairs, rule, usual, decode_workers
    return CorruptedImages(corruption, declared.masks == "moved", *of_images)


def find_ade20k(name: str, data_root: Path | None, split: str) -> Pairs:
    """Return images and masks of a split for the dataset ``name``, from the unpacked release or else its zip."""
    title, part = f"dataset {name!r}", PARTS[split]
    example = f"DIR/{_PLACES[0]}/images/{part}"
    advice = (
        f"Wanted: {example}/*.jpg and annotations/{part}/*.png, or DIR/{_PLACES[0]}.zip as published. Give DIR by"
        " --data-root DIR or the variable ROBENCH_DATA"
    )
    if data_root is None:
        raise MissingDataError(f"{title} needs a folder. {advice}")
    folders = [data_root.expanduser() / place for place in _PLACES]
    zips = [folder.with_name(f"{folder.name}.zip") for folder in folders]
    try:
        if (folder := next((each for each in folders if (each / "images" / part).is_dir()), None)) is not None:
            form, place, (images, masks) = "folders", folder, _in_folder(folder, part, title)
        elif (archive := next((each for each in zips if each.is_file()), None)) is not None:
            form, place, (images, masks) = "zip as published", archive, _in_zip(archive, part)
        else:
            tried = (f"  {each}: absent" for each in (*folders, *zips))
            raise MissingDataError(f"{title} not found. Tried:", *tried, advice)
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of {title}: {error.strerror or error}") from error
    if not images:
        raise MissingDataError(f"{title} has no image in images/{part} of {place}. {advice}")
    check_pairs(images, masks, title, f"{place}/annotations/{part}")
    names = sorted(images)
    return Pairs(
        form=form,
        place=place,
        ids=tuple(f"{part}/{name}" for name in names),
        images=[images[name] for name in names],
        masks=[masks[name] for name in names],
    )


def _in_folder(folder: Path, part: str, title: str) -> tuple[Files, Files]:
    images = files_of(folder / "images" / part, title, frozenset((".jpg",)))
    return images, files_of(folder / "annotations" / part, title, MASK_SUFFIXES)


def _in_zip(archive: Path, part: str) -> tuple[Files, Files]:
    found: dict[str, dict[str, tuple[Stored, int]]] = {"images": {}, "annotations": {}}
    for name, start, num_bytes in members_of(archive):
        path = Path(name)
        kind, inside = path.parent.parent.name, path.parent.name
        if inside == part and (kind, path.suffix) in (("images", ".jpg"), ("annotations", ".png")):
            found[kind][path.stem] = Packed(archive, start, num_bytes, name), num_bytes
    return found["images"], found["annotations"]


def files_of(folder: Path, title: str, suffixes: frozenset[str] = SUFFIXES) -> Files:
    """Return the files below a folder with one of the suffixes, by their relative paths without suffix."""
    if not folder.is_dir():
        found = "is not a folder" if folder.exists() else "does not exist"
        raise MissingDataError(f"{title}: {folder} {found}. Correct its path, or put the files there")
    files: dict[str, tuple[Stored, int]] = {}
    for name, num_bytes in files_below(folder, ".", title, suffixes):
        path = Path(name)
        stem = path.with_suffix("").as_posix()
        if stem in files:
            raise MissingDataError(
                f"{title}: {folder / path} and {files[stem][0]} are the same example; remove one of them"
            )
        files[stem] = folder / path, num_bytes
    return files


def check_pairs(images: Files, masks: Files, title: str, masks_at: str) -> None:
    """Refuse images without a mask, and masks without an image."""
    if alone := sorted(images.keys() - masks.keys()):
        raise MissingDataError(
            f"{title} has {len(alone):,} of {len(images):,} images without a mask: {_some(images, alone)}. Put a PNG of"
            f" the same name in {masks_at}, or remove the image"
        )
    if alone := sorted(masks.keys() - images.keys()):
        raise MissingDataError(
            f"{title} has {len(alone):,} of {len(masks):,} masks without an image: {_some(masks, alone)}. Remove the"
            " mask, or restore its image"
        )


def _some(files: Files, names: Sequence[str]) -> str:
    return ", ".join(str(files[name][0]) for name in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
