"""Declarations of images with masks: ADE20K, ADE20K with corruptions, digits in scenes, and the users' format.

``ade20k-c/fog/5`` is ADE20K with one of robench's corruptions at one severity, made when an example is read, on the
published image before it is resized. Masks stay as published, as in papers; with ``/moved`` at the end of the name,
for the types that displace whole objects, they are displaced as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.core.identity import key_of
from robench.corruptions import COMMON_CORRUPTIONS, MOVED_LABELS, SEVERITIES
from robench.datasets.base import TEST_SPLIT, DatasetBase, EmbeddedImages, class_name_problems
from robench.datasets.user import FilesFormat, delimiter_problems
from robench.declarations.base import LARGEST, FieldProblem
from robench.tasks.segmentation import SEGMENTATION

TRAIN_SPLIT = "train"
Colour = tuple[int, int, int]
_NAMES = Path(__file__).parent / "class_lists" / "ade20k.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ade20k(DatasetBase):
    """Declaration of ADE20K of the Scene Parsing Challenge 2016, or of its validation images with a corruption.

    Attributes:
        masks: ``untouched``, or ``moved`` with the pixels of the corruption.
    """

    implementation: ClassVar[str] = "robench.datasets.segmentation_impl:open_ade20k"

    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    num_examples: Annotated[int, Ge(1), Le(LARGEST)]
    masks: Literal["untouched", "moved"] = "untouched"

    @property
    def has_one_size(self) -> bool:
        """Return whether all examples have one shape; otherwise a pass has one of them."""
        return False


ADE20K = Ade20k(
    name="ade20k",
    title="ADE20K: photographs of scenes with a class of 150 for each pixel, validation images",
    task=SEGMENTATION.name,
    num_classes=150,
    class_names=tuple(line for line in _NAMES.read_text().splitlines() if not line.startswith("#")),
    num_examples=2_000,
    num_training_examples=20_210,
    splits=(TRAIN_SPLIT, TEST_SPLIT),
    source="Zhou et al. 2017, doi:10.1109/CVPR.2017.544; Scene Parsing Challenge 2016",
    licence="BSD 3-Clause (annotations); images for non-commercial research and education, rights are their owners'",
    folder="ADEChallengeData2016",
)


def _corrupted(corruption: str, severity: int) -> Ade20k:
    return replace(
        ADE20K,
        name=f"{ADE20K.name}-c/{corruption}/{severity}",
        title=f"ADE20K validation images with {corruption.replace('_', ' ')} of severity {severity}, made by robench",
        num_training_examples=None,
        splits=(TEST_SPLIT,),
        corruption=corruption,
        severity=severity,
        clean=ADE20K.name,
    )


def _moved(declared: Ade20k) -> Ade20k:
    return replace(declared, name=f"{declared.name}/moved", title=f"{declared.title}; masks moved", masks="moved")


DIGIT_SCENES = EmbeddedImages(
    name="digit-scenes",
    title="Four to seven digits on parts of two photographs, 48x48 RGB, with a class of 11 for each pixel",
    task=SEGMENTATION.name,
    num_classes=11,
    class_names=(*map(str, range(10)), "background"),
    num_examples=400,
    num_training_examples=4_000,
    source="made by robench from scikit-learn's load_digits and load_sample_images",
    licence="CC BY 4.0 (digits), CC BY 2.0 (photographs by danielbuechele and vultilion, from Flickr)",
    image_size=48,
    splits=(TRAIN_SPLIT, TEST_SPLIT),
    maker="robench.datasets.digit_scenes_impl:made",
)
_CORRUPTED = tuple(_corrupted(each, severity) for each in COMMON_CORRUPTIONS for severity in SEVERITIES)
SEGMENTATION_SETS = (
    *(ADE20K, DIGIT_SCENES, *_CORRUPTED),
    *(_moved(each) for each in _CORRUPTED if each.corruption in MOVED_LABELS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMasks(FilesFormat):
    """Images with a mask each, a PNG of the image's size, of class numbers or of colours.

    ``path`` is the folder of the images, whose masks have the same names in another folder; or a CSV file with a row
    for each image, whose paths are relative to it.

    Attributes:
        masks: path of the folder of the masks, relative as ``path`` is; None for a CSV file.
        image_column, mask_column: names of the columns of a CSV file.
        delimiter: character between columns of a CSV file; None for a comma.
        ignore_index: value in masks of pixels that count nowhere; None for none.
        reduce_zero_label: whether 0 in masks is ignored, and all others are one class less.
        colours: colour [red, green, blue] of each class, in their order; empty for masks of class numbers.
        ignore_colour: colour of pixels that count nowhere; None for none.
        same_size: whether all images have one size, so that several are measured in one pass.
    """

    kind: ClassVar[str] = "image-masks"
    path_fields: ClassVar[tuple[str, ...]] = ("path", "masks")
    implementation: ClassVar[str] = "robench.datasets.user_masks_impl:open_image_masks"

    task: str = SEGMENTATION.name
    masks: str | None = None
    image_column: str = "image"
    mask_column: str = "mask"
    delimiter: str | None = None
    ignore_index: Annotated[int | None, Ge(0), Le(65_535)] = None
    reduce_zero_label: bool = False
    colours: Mapping[str, Colour] = field(default_factory=dict)
    ignore_colour: Colour | None = None
    same_size: bool = False

    def __hash__(self) -> int:
        """Return a hash of path and all else (``colours`` is a mapping)."""
        return hash((self.path, key_of(self)))

    @property
    def is_list(self) -> bool:
        """Return whether ``path`` is a CSV file."""
        return self.path.lower().endswith((".csv", ".tsv"))

    @property
    def names_of_classes(self) -> tuple[str, ...] | None:
        """Return the names of the classes; None where the entry has none."""
        return tuple(self.colours) or self.class_names

    @property
    def has_one_size(self) -> bool:
        """Return whether all examples have one shape; otherwise a pass has one of them."""
        return self.same_size

    def contradictions(self) -> list[FieldProblem]:
        """Refuse paths, classes and colours that contradict each other."""
        problems = FilesFormat.contradictions(self) + delimiter_problems(self.delimiter)
        if self.task != SEGMENTATION.name:
            problems.append(("task", f"must be {SEGMENTATION.name}, got {self.task}"))
        if self.is_list and self.masks is not None:
            problems.append(("masks", "must be left out for a CSV file, which lists the masks"))
        elif not self.is_list and self.masks is None:
            problems.append(("masks", f"must name the folder of the masks of {self.path}, got None"))
        if self.image_column == self.mask_column:
            problems.append(("mask_column", f"must differ from image_column, got {self.mask_column!r} for both"))
        return problems + (self._colour_problems() if self.colours else self._index_problems())

    def _index_problems(self) -> list[FieldProblem]:
        if self.ignore_colour is not None:
            return [("ignore_colour", "must be left out without colours")]
        if self.num_classes is None and self.class_names is None:
            return [("num_classes", "must be given without class_names or colours: masks may lack some classes")]
        return []

    def _colour_problems(self) -> list[FieldProblem]:
        given: dict[str, object] = {
            "ignore_index": self.ignore_index,
            "reduce_zero_label": self.reduce_zero_label or None,
            "class_names": self.class_names,
        }
        problems = [(name, "must be left out with colours") for name, value in given.items() if value is not None]
        problems += [("colours", each) for each in colour_problems(self.colours, self.ignore_colour)]
        return problems + class_name_problems(tuple(self.colours), self.num_classes)


def colour_problems(colours: Mapping[str, Colour], ignore_colour: Colour | None) -> list[str]:
    """Return the problems of a colour table: too few classes, values outside 0 to 255, a colour of two meanings."""
    problems = [] if len(colours) > 1 else [f"must have at least two classes, got {len(colours)}"]
    meaning: dict[Colour, str] = {} if ignore_colour is None else {ignore_colour: "ignore_colour"}
    for name, colour in colours.items():
        if not all(0 <= value <= 255 for value in colour):
            problems.append(f"must have values from 0 to 255, got {list(colour)} for {name!r}")
        if (other := meaning.setdefault(colour, name)) != name:
            problems.append(f"must be different, got {list(colour)} for {name!r} and {other!r}")
    return problems
