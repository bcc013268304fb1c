"""Pictures of examples: clean and perturbed images, their difference and the predictions, as PNG files and a grid."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from robench.core.errors import UsageError
from robench.core.files import write_whole, writing
from robench.core.inert import clipped
from robench.exports.masks import COLOURS, Colour, Mask, classes_in, hatched, hex_of, indexed, legend_of, name_of
from robench.reports.table import csv_of

Pixels = NDArray[np.float32]

GRID_NAME, TABLE_NAME, CLASSES_NAME, TRUE_NAME = "grid.png", "predictions.csv", "classes.csv", "true-mask"
_HEADER = (
    *("example", "file", "condition", "target", "prediction", "confidence", "correct", "linf"),
    *("prediction_of_file", "correct_of_file"),
)
# Of examples with masks, further columns.
_HEADER_OF_MASKS = ("mask", "proportion_right")
# In pixels; small images are enlarged by a whole factor to at least this side.
_SIDE, _GAP, _LINE = 112, 6, 15
# Of an answer, by whether it is right.
_COLOURS = {True: (0, 90, 30), False: (170, 0, 0), None: (0, 0, 0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """Input and answer of a model on one example under one condition.

    Attributes:
        name: name of the condition, such as ``pgd@4/255``, or ``clean``.
        inputs: what the model was given, without padding: an image (C, H, W) float32 in [0, 1] before its
            normalisation, a time series (T, C), a sequence of whole numbers, or a text.
        prediction: the model's answer, such as a class, or of a language model the loss; ``confidence``: its
            probability; None if unknown.
        is_right: None if the answer is not right or wrong.
        mask: class (H, W) that the model gives each pixel, below 0 where no answer counts; None if an answer is one
            label. ``proportion``: proportion of right pixels, among the ones that count; None if unknown.
        of_file: the answer to the written file, whose pixels are rounded; None if unknown or no label.
        linf: largest change of a value; None if unknown. ``num_changed``: number of changed words or tokens, likewise.
    """

    name: str
    inputs: NDArray[Any] | str
    prediction: str
    confidence: float | None
    is_right: bool | None
    linf: float | None
    num_changed: int | None = None
    mask: Mask | None = None
    proportion: float | None = None
    of_file: str | None = None

    @property
    def pixels(self) -> Pixels:
        """Return the image; inputs of other shapes raise a UsageError."""
        if isinstance(self.inputs, str) or self.inputs.ndim != 3:
            raise UsageError("only images (C, H, W) can be drawn")
        return self.inputs

    @property
    def answer(self) -> str:
        """Return the prediction with its confidence, such as ``7 (93 %)``, or of a mask ``83.1 % of pixels right``."""
        if self.proportion is not None:
            return f"{100 * self.proportion:.1f} % of pixels right"
        return self.prediction if self.confidence is None else f"{self.prediction} ({100 * self.confidence:.0f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictured:
    """Example of a domain, such as ``images``: clean, and under each condition.

    Attributes:
        true_mask: class (H, W) of each pixel, as ``Shot.mask``; None if the target is one label.
        class_names: names of the classes of masks; empty if they have none.
    """

    domain: str
    example_id: str
    target: str
    clean: Shot
    shots: tuple[Shot, ...]
    true_mask: Mask | None = None
    class_names: tuple[str, ...] = ()

    @property
    def masks(self) -> list[Mask]:
        """Return all masks of the example, the true one first."""
        return [
            each for each in (self.true_mask, self.clean.mask, *(shot.mask for shot in self.shots)) if each is not None
        ]


def write_pictures(examples: Sequence[Pictured], folder: Path) -> list[Path]:
    """Write pictures of examples into a folder, in place of those of the same names; return the files.

    A folder for each condition has a PNG file for each example, ``NAME-difference`` beside it the amplified changes
    around grey; ``grid.png`` shows everything, with predictions, and ``predictions.csv`` has them with the file names.
    PNG files have 8 bits a value, so that scored pixels are rounded in them; ``predictions.csv`` has the answers to the
    files too. Of answers that are masks ``NAME-mask`` has the masks, whose PNG indices are the classes, ``true-mask``
    the true ones, ``classes.csv`` colours and names.

    Raises:
        UsageError: images have neither one channel nor three, or masks too many classes for colours.
        StoreUnwritableError: a file cannot be written.
    """
    # Numbered, so that ids that read alike stay different.
    names = [f"{number:04}-{_folder_name(each.example_id)}" for number, each in enumerate(examples)]
    files: dict[str, bytes] = {GRID_NAME: png_of(grid_of(examples))}
    table: list[list[str]] = []
    masks = [mask for each in examples for mask in each.masks]
    factors = difference_factors(examples)
    for each, name in zip(examples, names, strict=True):
        for shot in (each.clean, *each.shots):
            file = f"{_folder_name(shot.name)}/{name}.png"
            files[file] = png_of(image_of(shot.pixels))
            correct = "" if shot.is_right is None else str(shot.is_right).lower()
            numbers = ["" if number is None else f"{number:.6g}" for number in (shot.confidence, shot.linf)]
            named = [each.example_id, file, shot.name, each.target, shot.prediction]
            of_file = ["", ""] if shot.of_file is None else [shot.of_file, str(shot.of_file == each.target).lower()]
            table.append([*named, numbers[0], correct, numbers[1], *of_file])
            if shot.mask is not None:
                of_mask = f"{_folder_name(shot.name)}-mask/{name}.png"
                files[of_mask] = png_of(indexed(shot.mask))
                table[-1] += [of_mask, "" if shot.proportion is None else f"{shot.proportion:.6g}"]
        if each.true_mask is not None:
            files[f"{TRUE_NAME}/{name}.png"] = png_of(indexed(each.true_mask))
        for shot in each.shots:
            changed = difference(each.clean.pixels, shot.pixels, factors[shot.name])
            files[f"{_folder_name(shot.name)}-difference/{name}.png"] = png_of(image_of(changed))
    files[TABLE_NAME] = csv_of((*_HEADER, *(_HEADER_OF_MASKS if masks else ())), table).encode()
    if masks:
        names_of = examples[0].class_names
        rows = [[str(k), name_of(k, names_of), hex_of(COLOURS[k])] for k in classes_in(masks)]
        files[CLASSES_NAME] = csv_of(("class", "name", "colour"), rows).encode()
    with writing(folder):
        for file, content in files.items():
            write_whole(folder / file, content)
    return [folder / file for file in files]


@dataclass(frozen=True, slots=True)
class _Cell:
    """Picture in the grid, with the header of its column and the text below it."""

    header: str
    image: Image.Image | Mask
    text: str = ""
    is_right: bool | None = None

    def drawn(self, box: tuple[int, int], scale: int) -> Image.Image:
        """Return the picture, enlarged by a whole factor; masks of another size fill the box of the image."""
        if isinstance(self.image, Image.Image):
            size = self.image.width * scale, self.image.height * scale
            return self.image.convert("RGB").resize(size, Image.Resampling.NEAREST)
        drawn = hatched(self.image, scale)
        return drawn if drawn.size == box else drawn.resize(box, Image.Resampling.NEAREST)


def _cells(example: Pictured, factors: dict[str, float]) -> list[_Cell]:
    """Return the pictures of an example from left to right."""
    clean = example.clean
    cells = [_Cell("clean", image_of(clean.pixels), clean.answer, clean.is_right)]
    if example.true_mask is not None:
        cells.append(_Cell("true mask", example.true_mask))
    if clean.mask is not None:
        cells.append(_Cell("predicted", clean.mask))
    for shot in example.shots:
        factor = factors[shot.name]
        cells.append(_Cell(shot.name, image_of(shot.pixels), shot.answer, shot.is_right))
        cells.append(_Cell(f"change x {factor:.3g}", image_of(difference(clean.pixels, shot.pixels, factor))))
        if shot.mask is not None:
            cells.append(_Cell("predicted", shot.mask))
    return cells


def grid_of(examples: Sequence[Pictured]) -> Image.Image:
    """Return one picture: a row for each example, and beside the clean image each perturbed one and its difference.

    Predictions are below the images, right ones in green. Masks are beside their images, and their classes below all.

    Raises:
        UsageError: there are no examples, or images have neither one channel nor three, or masks too many classes.
    """
    if not examples:
        raise UsageError("there are no examples to draw")
    factors = difference_factors(examples)
    grid = [_cells(each, factors) for each in examples]
    boxes = [image_of(each.clean.pixels).size for each in examples]
    scale = max(1, -(-_SIDE // max(map(max, boxes))))
    boxes = [(width * scale, height * scale) for width, height in boxes]
    width = max(width for width, _ in boxes) + _GAP
    tops = list(accumulate((height + 2 * _LINE + _GAP for _, height in boxes), initial=_GAP + _LINE))
    masks = [mask for each in examples for mask in each.masks]
    total = width * len(grid[0]) + _GAP
    legend = legend_of(masks, examples[0].class_names, total - 2 * _GAP) if masks else None
    below = 0 if legend is None else legend.height + _GAP
    picture = Image.new("RGB", (total, tops[-1] + below), "white")
    if legend is not None:
        picture.paste(legend, (_GAP, tops[-1]))
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size=11)

    def write(text: str, left: int, top: int, colour: Colour = _COLOURS[None]) -> None:
        shown = clipped(text, 40)
        while shown and font.getlength(shown) > width - _GAP:
            shown = shown[:-1]
        pen.text((left, top), shown, fill=colour, font=font)

    for column, cell in enumerate(grid[0]):
        write(cell.header, _GAP + column * width, 1)
    for each, cells, box, top in zip(examples, grid, boxes, tops, strict=False):
        for column, cell in enumerate(cells):
            picture.paste(cell.drawn(box, scale), (_GAP + column * width, top))
            write(cell.text, _GAP + column * width, top + box[1], _COLOURS[cell.is_right])
        described = f"{each.example_id}, class {each.target}" if each.target else each.example_id
        write(described, _GAP, top + box[1] + _LINE - 2)
    return picture


def difference_factors(examples: Sequence[Pictured]) -> dict[str, float]:
    """Return the factor for each condition by which its largest change becomes half the range; 1 if nothing changed."""
    largest: dict[str, float] = {}
    for each in examples:
        for shot in each.shots:
            change = float(np.abs(shot.pixels - each.clean.pixels).max())
            largest[shot.name] = max(change, largest.get(shot.name, 0.0))
    return {name: 0.5 / change if change else 1.0 for name, change in largest.items()}


def difference(clean: Pixels, perturbed: Pixels, factor: float) -> Pixels:
    """Return the change of each value times ``factor``, around grey (0.5), within [0, 1]."""
    changed: Pixels = np.clip(0.5 + factor * (perturbed - clean), 0, 1)
    return changed


def image_of(pixels: Pixels) -> Image.Image:
    """Return an image (1 or 3, H, W) in [0, 1] with 8 bits a value; others raise a UsageError."""
    levels = file_levels(pixels)
    if len(levels) == 1:
        return Image.fromarray(levels[0])
    if len(levels) == 3:
        return Image.fromarray(np.ascontiguousarray(levels.transpose(1, 2, 0)))
    raise UsageError(f"images must have 1 or 3 channels to be drawn, got {len(levels)}")


def file_levels(pixels: Pixels) -> NDArray[np.uint8]:
    """Return the values of 8 bits that an image in [0, 1] has in a file."""
    return np.round(255 * np.clip(pixels, 0, 1)).astype(np.uint8)


def png_of(image: Image.Image) -> bytes:
    """Return an image as the content of a PNG file."""
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _folder_name(name: str) -> str:
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-._@") else "-" for letter in name)
    return kept.strip(".")[:80] or "-"
