"""Pictures of examples: clean and perturbed images, their difference and the predictions, as PNG files and a grid."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from robench.core.errors import UsageError
from robench.core.files import write_whole, writing
from robench.core.inert import clipped
from robench.reports.markup import csv_of

Pixels = NDArray[np.float32]

GRID_NAME, TABLE_NAME = "grid.png", "predictions.csv"
_HEADER = ("example", "file", "condition", "target", "prediction", "confidence", "correct", "linf")
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
        linf: largest change of a value; None if unknown. ``num_changed``: number of changed words or tokens, likewise.
    """

    name: str
    inputs: NDArray[Any] | str
    prediction: str
    confidence: float | None
    is_right: bool | None
    linf: float | None
    num_changed: int | None = None

    @property
    def pixels(self) -> Pixels:
        """Return the image; inputs of other shapes raise a UsageError."""
        if isinstance(self.inputs, str) or self.inputs.ndim != 3:
            raise UsageError("only images (C, H, W) can be drawn")
        return self.inputs

    @property
    def answer(self) -> str:
        """Return the prediction with its confidence, such as ``7 (93 %)``."""
        return self.prediction if self.confidence is None else f"{self.prediction} ({100 * self.confidence:.0f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictured:
    """Example of a domain, such as ``images``: clean, and under each condition."""

    domain: str
    example_id: str
    target: str
    clean: Shot
    shots: tuple[Shot, ...]


def write_pictures(examples: Sequence[Pictured], folder: Path) -> list[Path]:
    """Write pictures of examples into a folder, in place of those of the same names; return the files.

    A folder for each condition has a PNG file for each example, ``NAME-difference`` beside it the amplified changes
    around grey; ``grid.png`` shows everything, with predictions, and ``predictions.csv`` has them with the file names.
    PNG files have 8 bits a value, so that scored pixels are rounded in them.

    Raises:
        UsageError: images have neither one channel nor three.
        StoreUnwritableError: a file cannot be written.
    """
    # Numbered, so that ids that read alike stay different.
    names = [f"{number:04}-{_folder_name(each.example_id)}" for number, each in enumerate(examples)]
    files: dict[str, bytes] = {GRID_NAME: png_of(grid_of(examples))}
    table: list[list[str]] = []
    factors = difference_factors(examples)
    for each, name in zip(examples, names, strict=True):
        for shot in (each.clean, *each.shots):
            file = f"{_folder_name(shot.name)}/{name}.png"
            files[file] = png_of(image_of(shot.pixels))
            correct = "" if shot.is_right is None else str(shot.is_right).lower()
            numbers = ["" if number is None else f"{number:.6g}" for number in (shot.confidence, shot.linf)]
            named = [each.example_id, file, shot.name, each.target, shot.prediction]
            table.append([*named, numbers[0], correct, numbers[1]])
        for shot in each.shots:
            changed = difference(each.clean.pixels, shot.pixels, factors[shot.name])
            files[f"{_folder_name(shot.name)}-difference/{name}.png"] = png_of(image_of(changed))
    files[TABLE_NAME] = csv_of(_HEADER, table).encode()
    with writing(folder):
        for file, content in files.items():
            write_whole(folder / file, content)
    return [folder / file for file in files]


def grid_of(examples: Sequence[Pictured]) -> Image.Image:
    """Return one picture: a row for each example, and beside the clean image each perturbed one and its difference.

    Predictions are below the images, right ones in green.

    Raises:
        UsageError: there are no examples, or images have neither one channel nor three.
    """
    if not examples:
        raise UsageError("there are no examples to draw")
    factors = difference_factors(examples)
    headers = ["clean"] + [
        text for shot in examples[0].shots for text in (shot.name, f"change x {factors[shot.name]:.3g}")
    ]
    first = image_of(examples[0].clean.pixels)
    scale = max(1, -(-_SIDE // max(first.size)))
    width, height = first.width * scale + _GAP, first.height * scale + 2 * _LINE + _GAP
    picture = Image.new("RGB", (width * len(headers) + _GAP, height * len(examples) + _LINE + _GAP), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size=11)

    def write(text: str, left: int, top: int, colour: tuple[int, int, int] = _COLOURS[None]) -> None:
        shown = clipped(text, 40)
        while shown and font.getlength(shown) > width - _GAP:
            shown = shown[:-1]
        pen.text((left, top), shown, fill=colour, font=font)

    for column, header in enumerate(headers):
        write(header, _GAP + column * width, 1)
    for row, each in enumerate(examples):
        top = _GAP + _LINE + row * height
        cells: list[tuple[Pixels, Shot | None]] = [(each.clean.pixels, each.clean)]
        for shot in each.shots:
            cells += [(shot.pixels, shot), (difference(each.clean.pixels, shot.pixels, factors[shot.name]), None)]
        for column, (pixels, shown) in enumerate(cells):
            left = _GAP + column * width
            image = image_of(pixels).convert("RGB")
            enlarged = image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)
            picture.paste(enlarged, (left, top))
            below = top + enlarged.height
            if shown is not None:
                write(shown.answer, left, below, _COLOURS[shown.is_right])
        write(f"{each.example_id}, class {each.target}", _GAP, top + first.height * scale + _LINE - 2)
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
    levels = np.round(255 * np.clip(pixels, 0, 1)).astype(np.uint8)
    if len(levels) == 1:
        return Image.fromarray(levels[0])
    if len(levels) == 3:
        return Image.fromarray(np.ascontiguousarray(levels.transpose(1, 2, 0)))
    raise UsageError(f"images must have 1 or 3 channels to be drawn, got {len(levels)}")


def png_of(image: Image.Image) -> bytes:
    """Return an image as the content of a PNG file."""
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _folder_name(name: str) -> str:
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-._@") else "-" for letter in name)
    return kept.strip(".")[:80] or "-"
