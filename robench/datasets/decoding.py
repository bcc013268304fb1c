"""Decoding of encoded images by Pillow, then torchvision's Resize (shorter side) and CenterCrop.

Resizing is done by Pillow, on 8-bit images and always antialiased, as in the evaluation of timm and torchvision; on
tensors the same functions give different pixels. As there, an EXIF orientation is not followed, transparency is
dropped, and only the first of several frames is used. Where this differs: 16-bit greyscale is scaled down to 8 bits,
where Pillow's own conversion turns everything above 255 white, and other wide or floating-point greyscale is refused.

Processes that decode are started with ``spawn``, because a fork of a process that has used CUDA or threads may hang,
and are reused for the next batch. The assignment of images to processes changes no pixel.
"""

import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torchvision.transforms import (  # type: ignore[import-untyped]  # torchvision ships no types
    CenterCrop,
    InterpolationMode,
    Resize,
)

from robench.core.child_processes import prepare_helper, without_script
from robench.core.errors import ExampleError
from robench.datasets.packed_images import Stored, open_stored
from robench.declarations.preprocessing import ImagePreprocessing

Pixels = NDArray[np.uint8]
# Images being decoded, in order.
Begun = Iterator[Pixels | ExampleError]


# Modes of Pillow by their number of channels.
MODES: Mapping[int, str] = {1: "L", 3: "RGB", 4: "RGBA"}


def decode(stored: Stored, preprocessing: ImagePreprocessing) -> NDArray[np.uint8]:
    """Return the image as (H, W, C), resized and cropped as required by ``preprocessing``.

    It has the channels of ``preprocessing``: 1 for grey, 4 with transparency; 3 where none are stated.

    Raises:
        ExampleError: it cannot be read, or is smaller than the crop, or files have no such number of channels; the
            message names file and reason.
    """
    mode = MODES.get(preprocessing.num_channels or 3)
    if mode is None:
        known = ", ".join(map(str, MODES))
        raise ExampleError(
            f"image {stored} cannot be given with {preprocessing.num_channels} channels: image files have {known}; give"
            " such images as arrays (npz), or state the mean and std of another number of channels"
        )
    try:
        with open_stored(stored) as opened, Image.open(opened) as file:
            image = converted(file, mode)
    except Exception as error:  # Pillow's decoders may raise almost any type on broken files.
        raise ExampleError(_unreadable(stored, error)) from None
    return pixels_of(image, f"image {stored}", preprocessing)


def try_decode(stored: Stored, preprocessing: ImagePreprocessing) -> NDArray[np.uint8] | ExampleError:
    """Return the result or the error of ``decode``: returned errors cross processes without their traceback."""
    try:
        return decode(stored, preprocessing)
    except ExampleError as error:
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """Unusual property of an image file.

    Attributes:
        kind: ``no-image`` and ``corrupt-image`` cannot be read; the others are converted.
        message: sentence with the file, and the problem or the effect of the conversion.
    """

    kind: Literal["no-image", "corrupt-image", "cmyk-image", "16-bit-image"]
    message: str


def examine(stored: Stored) -> Oddity | None:
    """Read a whole image file like ``decode``, and return its unusual properties."""
    try:
        with open_stored(stored) as opened, Image.open(opened) as file:
            oddity = _conversion(stored, file)
            converted(file, MODES[3])
    except UnidentifiedImageError as error:
        return Oddity(kind="no-image", message=_unreadable(stored, error))
    except Exception as error:  # Pillow's decoders may raise almost any type on broken files.
        return Oddity(kind="corrupt-image", message=_unreadable(stored, error))
    return oddity


def _conversion(stored: Stored, image: Image.Image) -> Oddity | None:
    if image.mode == "CMYK":
        done = "converted to RGB by Pillow's formula, its colour profile ignored, as timm and torchvision do"
        return Oddity(kind="cmyk-image", message=f"image {stored} is CMYK: {done}")
    # Pillow shows 16-bit colour as RGB; only the decoder that it chose knows.
    if image.mode.startswith("I;16") or any(";16" in str(tile) for tile in getattr(image, "tile", ())):
        return Oddity(kind="16-bit-image", message=f"image {stored} has 16 bits a channel: its upper 8 bits are kept")
    return None


def pixels_of(image: Image.Image, title: str, preprocessing: ImagePreprocessing) -> NDArray[np.uint8]:
    """Return an image as (H, W, C), resized and cropped as required by ``preprocessing``."""
    if preprocessing.resize is not None:
        image = Resize(preprocessing.resize, InterpolationMode(preprocessing.interpolation))(image)
    if preprocessing.crop is not None:
        # CenterCrop would pad the image with black.
        if min(image.size) < preprocessing.crop:
            size, resize = "x".join(map(str, image.size)), preprocessing.resize
            raise ExampleError(
                f"{title} is {size} pixels after resize {resize}, smaller than crop {preprocessing.crop};"
                " the checkpoint's preprocessing must set resize to at least crop"
            )
        image = CenterCrop(preprocessing.crop)(image)
    pixels = np.array(image, dtype=np.uint8)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def resized_pixels(pixels: NDArray[np.uint8], title: str, preprocessing: ImagePreprocessing) -> NDArray[np.uint8]:
    """Return 8-bit pixels (H, W, C) resized and cropped; each channel alone, except for colour."""
    if pixels.shape[2] == 3:
        return pixels_of(Image.fromarray(pixels), title, preprocessing)
    planes = [pixels_of(Image.fromarray(plane), title, preprocessing) for plane in np.moveaxis(pixels, 2, 0)]
    return np.concatenate(planes, axis=2)


def size_after(width: int, height: int, preprocessing: ImagePreprocessing) -> tuple[int, int]:
    """Return width and height of an image after resize and crop; a crop does not change smaller images.

    >>> from robench.declarations.preprocessing import ImagePreprocessing
    >>> usual = ImagePreprocessing(mean=(0, 0, 0), std=(1, 1, 1), resize=256, crop=224)
    >>> size_after(500, 375, usual), size_after(500, 375, ImagePreprocessing(mean=(0, 0, 0), std=(1, 1, 1), resize=256))
    ((224, 224), (341, 256))
    """
    resize, crop = preprocessing.resize, preprocessing.crop
    if resize is not None and width <= height:
        width, height = resize, int(resize * height / width)
    elif resize is not None:
        width, height = int(resize * width / height), resize
    return (width, height) if crop is None or min(width, height) < crop else (crop, crop)


def size_of(stored: Stored) -> tuple[int, int] | None:
    """Return width and height of an image file in pixels from its header; None if it cannot be read."""
    try:
        with open_stored(stored) as opened, Image.open(opened) as file:
            return file.size
    except Exception:  # Pillow's decoders may raise almost any type on broken files.
        return None


def _unreadable(stored: Stored, error: Exception) -> str:
    return (
        f"cannot read image {stored}: {_reason(stored, error)}. Wanted a whole image file (JPEG, PNG, ...);"
        " restore it from the source of the dataset"
    )


def converted(image: Image.Image, mode: str) -> Image.Image:
    """Convert an image to a mode of Pillow, such as RGB; see the module for its losses."""
    if image.mode.startswith("I;16"):
        # The upper byte, which is also what Pillow keeps of 16-bit colour.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"its greyscale values (Pillow's mode {image.mode}) have no known white")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert(mode)


def _reason(stored: Stored, error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        with open_stored(stored) as file:
            beginning = file.read(16)
        found = f"it is not recognised as an image, it begins with {beginning!r}"
        return found if beginning else "the file has zero bytes"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


class DecodingPool:
    """Pool of ``num_processes`` decoding processes, started on first use; 0 decodes in the current process."""

    def __init__(self, num_processes: int) -> None:
        self._num_processes = num_processes
        self._executor: ProcessPoolExecutor | None = None

    def begin(self, images: Sequence[Stored], preprocessing: ImagePreprocessing) -> Begun | None:
        """Begin to decode images, and return at once; None without processes or images."""
        if self._num_processes == 0 or not images:
            return None
        try:
            return self._submitted(images, preprocessing)
        except BrokenProcessPool:
            # Reported by ``decode``, if new processes die as well.
            return None

    def decode(
        self, images: Sequence[Stored], preprocessing: ImagePreprocessing, begun: Begun | None = None
    ) -> list[Pixels]:
        """Return images in the order of ``images``, (H, W, C) each; ``begun`` is what ``begin`` returned for them."""
        if self._num_processes == 0:
            return [decode(stored, preprocessing) for stored in images]
        for tried in (begun, None):
            try:
                return _images_of(self._submitted(images, preprocessing) if tried is None else tried)
            except BrokenProcessPool:
                self.close()
            except KeyboardInterrupt:
                # Else the interpreter, before it ends, would wait for all that was handed out.
                self.close()
                raise
        raise ExampleError(
            f"decoding processes died twice over the images {images[0]} to {images[-1]} ({len(images)}). Memory may"
            " have run out, or an image may crash its decoder; run without decoding processes to see"
        )

    def close(self) -> None:
        """End the processes; decoding again starts new ones."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        self._executor = None

    def _submitted(self, images: Sequence[Stored], preprocessing: ImagePreprocessing) -> Begun:
        # Few enough portions to send, enough to even out large and small images and to end soon when interrupted.
        portion = min(16, -(-len(images) // (4 * self._num_processes)))
        work = partial(try_decode, preprocessing=preprocessing)
        if self._executor is None:
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(self._num_processes, context, initializer=prepare_helper)
        with _sigint_held_back(), without_script():
            return self._executor.map(work, images, chunksize=portion)


def _images_of(begun: Begun) -> list[Pixels]:
    images = []
    for image in begun:
        if isinstance(image, ExampleError):
            raise image
        images.append(image)
    return images


@cache
def shared_pool(num_processes: int) -> DecodingPool:
    """Return this process's only pool of that size: 95 datasets of ImageNet-C are open at once."""
    return DecodingPool(num_processes)


@contextmanager
def _sigint_held_back() -> Iterator[None]:
    """Block Ctrl-C while work is submitted, so that processes started meanwhile ignore it from the start."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
