"""Decoding of encoded images by Pillow, then torchvision's Resize (shorter side) and CenterCrop.

Resizing is done by Pillow, on 8-bit images and always antialiased, as in the evaluation of timm and torchvision; on
tensors the same functions give different pixels. As there, an EXIF orientation is not followed, transparency is
dropped, and only the first of several frames is used. With ``longer_at_most`` images are resized as by OpenCV instead,
to the same 8-bit values as its ``INTER_LINEAR``. Where this differs: 16-bit greyscale is scaled down to 8 bits,
where Pillow's own conversion turns everything above 255 white, and other wide or floating-point greyscale is refused.

Processes that decode are started with ``spawn``, because a fork of a process that has used CUDA or threads may hang,
and are reused for the next batch. The assignment of images to processes changes no pixel.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial

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


@dataclass(frozen=True, slots=True)
class Altered:
    """Encoded image whose pixels (H, W, C) are changed after decoding, before the resize: ``change`` returns new ones.

    ``change`` is sent to decoding processes, such as a ``partial`` of a function.
    """

    stored: Stored
    change: Callable[[Pixels], Pixels]

    def __str__(self) -> str:
        return str(self.stored)


# Images being decoded, in order.
Begun = Iterator[Pixels | ExampleError]


# Modes of Pillow by their number of channels.
MODES: Mapping[int, str] = {1: "L", 3: "RGB", 4: "RGBA"}


def decode(image: Stored | Altered, preprocessing: ImagePreprocessing) -> NDArray[np.uint8]:
    """Return the image as (H, W, C), resized and cropped as required by ``preprocessing``.

    It has the channels of ``preprocessing``: 1 for grey, 4 with transparency; 3 where none are stated.
    """
    stored = image.stored if isinstance(image, Altered) else image
    mode = MODES.get(preprocessing.num_channels or 3)
    if mode is None:
        known = ", ".join(map(str, MODES))
        raise ExampleError(
            f"image {stored} cannot be given with {preprocessing.num_channels} channels: image files have {known}; give"
            " such images as arrays (npz), or state the mean and std of another number of channels"
        )
    try:
        with open_stored(stored) as opened, Image.open(opened) as file:
            decoded = converted(file, mode)
    except Exception as error:  # Pillow's decoders may raise almost any type on broken files.
        raise ExampleError(unreadable(stored, error)) from None
    if isinstance(image, Altered):
        decoded = Image.fromarray(image.change(np.array(decoded)))
    return pixels_of(decoded, f"image {stored}", preprocessing)


def try_decode(image: Stored | Altered, preprocessing: ImagePreprocessing) -> NDArray[np.uint8] | ExampleError:
    """Return the result or the error of ``decode``: returned errors cross processes without their traceback."""
    try:
        return decode(image, preprocessing)
    except ExampleError as error:
        return error


def pixels_of(image: Image.Image, title: str, preprocessing: ImagePreprocessing) -> NDArray[np.uint8]:
    """Return an image as (H, W, C), resized and cropped as required by ``preprocessing``."""
    if preprocessing.longer_at_most is not None:
        return rescaled(np.array(image), *size_after(*image.size, preprocessing))
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
    resize, crop, longest = preprocessing.resize, preprocessing.crop, preprocessing.longer_at_most
    if resize is not None and longest is not None:
        scale = min(longest / max(width, height), resize / min(width, height))
        return max(1, int(width * scale + 0.5)), max(1, int(height * scale + 0.5))
    if resize is not None and width <= height:
        width, height = resize, int(resize * height / width)
    elif resize is not None:
        width, height = int(resize * width / height), resize
    return (width, height) if crop is None or min(width, height) < crop else (crop, crop)


def rescaled(pixels: Pixels, width: int, height: int) -> Pixels:
    """Return 8-bit pixels (H, W, C) or (H, W) of another size as (height, width, C), as OpenCV interpolates linearly.

    Bilinear with half-pixel centres, edges clamped, without antialiasing; in whole numbers, as OpenCV has them: weights
    of 11 bits, along rows first, whose results lose 4 bits.
    """
    planes = pixels.reshape(*pixels.shape[:2], -1)
    if planes.shape[:2] == (height, width):
        return planes
    left, right, of_left, of_right = _line(planes.shape[1], width)
    top, bottom, of_top, of_bottom = (each[:, None, None] for each in _line(planes.shape[0], height))
    levels = planes.astype(np.int32)
    rows = (levels[:, left] * of_left[:, None] + levels[:, right] * of_right[:, None]) >> 4
    total = (rows[top[:, 0, 0]] * of_top >> 16) + (rows[bottom[:, 0, 0]] * of_bottom >> 16)
    return ((total + 2) >> 2).astype(np.uint8)


def _line(size: int, resized: int) -> tuple[NDArray[np.int32], ...]:
    """Return the two sources of each place on a resized line, and their weights in 2048ths, (resized,) each."""
    places = ((np.arange(resized) + 0.5) * (size / resized) - 0.5).astype(np.float32)
    low = np.floor(places)
    sources = (np.clip(low + step, 0, size - 1) for step in (0, 1))
    weights = (np.rint(each * 2048) for each in (1 - (places - low), places - low))
    return tuple(each.astype(np.int32) for each in (*sources, *weights))


def size_of(stored: Stored) -> tuple[int, int] | None:
    """Return width and height of an image file in pixels from its header; None if it cannot be read."""
    try:
        with open_stored(stored) as opened, Image.open(opened) as file:
            return file.size
    except Exception:  # Pillow's decoders may raise almost any type on broken files.
        return None


def unreadable(
    stored: Stored, error: Exception, what: str = "image", wanted: str = "a whole image file (JPEG, PNG, ...)"
) -> str:
    """Return the message for a file of ``what`` that cannot be read."""
    return (
        f"cannot read {what} {stored}: {_reason(stored, error)}. Wanted {wanted};"
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

    def begin(self, images: Sequence[Stored | Altered], preprocessing: ImagePreprocessing) -> Begun | None:
        """Begin to decode images, and return at once; None without processes or images."""
        if self._num_processes == 0 or not images:
            return None
        try:
            return self._submitted(images, preprocessing)
        except BrokenProcessPool:
            # Reported by ``decode``, if new processes die as well.
            return None

    def decode(
        self, images: Sequence[Stored | Altered], preprocessing: ImagePreprocessing, begun: Begun | None = None
    ) -> list[Pixels]:
        """Return images in the order of ``images``, (H, W, C) each; ``begun`` is what ``begin`` returned for them."""
        if self._num_processes == 0:
            return [decode(image, preprocessing) for image in images]
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

    def _submitted(self, images: Sequence[Stored | Altered], preprocessing: ImagePreprocessing) -> Begun:
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
