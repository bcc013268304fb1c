"""An image file becomes pixels as in the field's own evaluations, or an error that names it."""

import io
import os
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from timm.data.transforms_factory import create_transform
from torchvision import transforms  # type: ignore[import-untyped]  # ships no types
from torchvision.datasets.folder import pil_loader  # type: ignore[import-untyped]  # ships no types

from robench.core.errors import ExampleError
from robench.datasets.decoding import decode, try_decode
from robench.datasets.image_verification import examined
from robench.declarations.preprocessing import ImagePreprocessing


def preprocessing(**fields: Any) -> ImagePreprocessing:
    return ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), **fields)


AS_IT_IS = preprocessing()


def photograph(width: int, height: int) -> Image.Image:
    """Smooth noise: detail at every scale, so that filters can be told apart."""
    noise = np.random.default_rng(width).integers(0, 256, (height // 4, width // 4, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def saved(image: Image.Image, path: Path, **options: Any) -> Path:
    image.save(path, **options)
    return path


def sixteen_bit_png(values: np.ndarray, path: Path) -> Path:
    """Write a PNG of 16 bits a channel, which Pillow can read but not write in colour. values: (H, W, 3) uint16."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width, _ = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [(500, 375), (333, 500), (70, 61)])
def test_pixels_are_those_of_torchvision(tmp_path: Path, size: tuple[int, int], interpolation: str) -> None:
    path = saved(photograph(*size), tmp_path / "x.JPEG")
    expected = transforms.Compose(
        [
            transforms.Resize(64, interpolation=transforms.InterpolationMode(interpolation)),
            transforms.CenterCrop(56),
            transforms.PILToTensor(),
        ]
    )(pil_loader(str(path)))
    pixels = decode(path, preprocessing(resize=64, crop=56, interpolation=interpolation))
    assert pixels.shape == (56, 56, 3)
    assert np.array_equal(pixels, expected.permute(1, 2, 0).numpy())


def test_pixels_are_those_of_timm_s_evaluation(tmp_path: Path) -> None:
    path = saved(photograph(300, 260), tmp_path / "x.JPEG")
    transform = create_transform(
        224, interpolation="bicubic", crop_pct=0.875, mean=(0, 0, 0), std=(1, 1, 1), is_training=False
    )
    pixels = decode(path, preprocessing(resize=256, crop=224, interpolation="bicubic"))
    assert torch.equal(torch.from_numpy(pixels).permute(2, 0, 1) / 255, transform(pil_loader(str(path))))


def test_without_resize_and_crop_the_image_is_as_it_is(tmp_path: Path) -> None:
    image = photograph(40, 24)
    assert np.array_equal(decode(saved(image, tmp_path / "x.png"), AS_IT_IS), np.asarray(image))


def test_resize_is_of_the_shorter_side_and_crop_the_central_square(tmp_path: Path) -> None:
    assert decode(saved(photograph(80, 40), tmp_path / "x.png"), preprocessing(resize=20)).shape == (20, 40, 3)
    image = photograph(40, 24)
    pixels = decode(saved(image, tmp_path / "x.png"), preprocessing(crop=16))
    assert np.array_equal(pixels, np.asarray(image)[4:20, 12:28])


@pytest.mark.parametrize("resize", [None, 20])
def test_a_crop_that_the_image_does_not_have_is_not_filled_up_with_black(tmp_path: Path, resize: int | None) -> None:
    path = saved(photograph(40, 20), tmp_path / "x.png")
    with pytest.raises(ExampleError, match=f"x.png is 40x20 pixels after resize {resize}, smaller than crop 24"):
        decode(path, preprocessing(resize=resize, crop=24))


def test_grey_and_cmyk_images_keep_their_colour_and_transparency_is_dropped(tmp_path: Path) -> None:
    clear = decode(saved(Image.new("RGBA", (4, 4), (200, 100, 50, 10)), tmp_path / "clear.png"), AS_IT_IS)
    assert np.all(clear == [200, 100, 50])
    grey = decode(saved(Image.new("L", (8, 8), 77), tmp_path / "grey.png"), AS_IT_IS)
    assert np.all(grey == 77)
    cmyk = decode(saved(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), tmp_path / "cmyk.JPEG", quality=100), AS_IT_IS)
    assert np.all(np.abs(cmyk.astype(int) - [0, 255, 255]) <= 2)


def test_one_bit_images_are_black_and_white(tmp_path: Path) -> None:
    bits = np.eye(8, dtype=bool)
    pixels = decode(saved(Image.fromarray(bits), tmp_path / "x.png"), AS_IT_IS)
    assert np.array_equal(pixels, 255 * bits[:, :, None].repeat(3, 2).astype(np.uint8))


@pytest.mark.parametrize("options", [{}, {"transparency": 1}, {"transparency": bytes([255, 0, 128])}])
def test_palette_images_show_their_colours_without_a_warning(tmp_path: Path, options: dict[str, Any]) -> None:
    image = Image.fromarray(np.arange(9, dtype=np.uint8).reshape(3, 3) % 3, mode="P")
    palette = [10, 20, 30, 200, 100, 0, 255, 255, 255]
    image.putpalette(palette)
    path = saved(image, tmp_path / "x.png", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = decode(path, AS_IT_IS)
    assert np.array_equal(pixels, np.array(palette, dtype=np.uint8).reshape(1, 3, 3).repeat(3, 0))


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bit_grey_is_scaled_and_not_clipped(tmp_path: Path, suffix: str) -> None:
    values = np.linspace(0, 65535, 64 * 64).astype(np.uint16).reshape(64, 64)
    pixels = decode(saved(Image.fromarray(values), tmp_path / f"x.{suffix}"), AS_IT_IS)
    assert np.all(np.abs(pixels - values[:, :, None] / 257) <= 1)
    assert (pixels.min(), pixels.max()) == (0, 255)


def test_sixteen_bit_grey_and_colour_are_scaled_alike(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 65536, (16, 16), dtype=np.uint16)
    grey = decode(saved(Image.fromarray(values), tmp_path / "grey.png"), AS_IT_IS)
    colour = decode(sixteen_bit_png(values[:, :, None].repeat(3, 2), tmp_path / "colour.png"), AS_IT_IS)
    assert np.array_equal(grey, colour)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_greyscale_without_a_known_white_is_refused(tmp_path: Path, mode: str) -> None:
    path = saved(Image.new(mode, (4, 4), 1000), tmp_path / "x.tiff")
    with pytest.raises(ExampleError, match=f"mode {mode}.* no known white"):
        decode(path, AS_IT_IS)


def test_an_exif_orientation_is_not_followed(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(photograph(40, 24), tmp_path / "x.JPEG", exif=exif)
    assert decode(path, AS_IT_IS).shape == (24, 40, 3)


def jpeg_bytes() -> bytes:
    buffer = io.BytesIO()
    photograph(64, 64).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (jpeg_bytes()[:-400], "truncated"),
        (jpeg_bytes()[:100], "Truncated"),
        (b"", "the file has zero bytes"),
        (b"<!DOCTYPE html><html>sign in</html>", "not recognised as an image, it begins with b'<!DOCTYPE html><'"),
        (bytes(1000), "it is not recognised as an image"),
    ],
)
def test_an_unreadable_image_is_named_with_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.JPEG"
    path.write_bytes(content)
    with pytest.raises(ExampleError, match=reason) as caught:
        decode(path, AS_IT_IS)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


def test_an_image_too_large_to_be_true_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(photograph(64, 64), tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ExampleError, match=r"x.png: Image size \(4096 pixels\) exceeds limit"):
        decode(path, AS_IT_IS)


@pytest.mark.parametrize("suffix", ["JPEG", "png", "bmp", "tiff", "webp", "ppm"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_gives_an_image_or_an_example_error(tmp_path: Path, suffix: str, data: st.DataObject) -> None:
    path = saved(photograph(24, 16), tmp_path / f"x.{suffix}")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = try_decode(path, preprocessing(resize=8, crop=8))
    if isinstance(result, ExampleError):
        assert str(path) in str(result)
    else:
        assert result.shape == (8, 8, 3)


class TestExamination:
    """A whole file is read as decoding reads it, and what is unusual about it is said."""

    @pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "1"])
    def test_usual_images_are_nothing_to_speak_of(self, tmp_path: Path, mode: str) -> None:
        assert examined(saved(photograph(40, 40).convert(mode), tmp_path / "x.png")) is None

    @pytest.mark.parametrize(
        ("mode", "name", "kind", "message"),
        [
            ("CMYK", "x.jpg", "cmyk-image", "is CMYK: converted to RGB by Pillow's formula"),
            ("F", "x.tif", "corrupt-image", "have no known white"),
        ],
    )
    def test_what_is_converted_or_refused_is_said(
        self, tmp_path: Path, mode: str, name: str, kind: str, message: str
    ) -> None:
        oddity = examined(saved(Image.new(mode, (4, 4)), tmp_path / name))
        assert oddity is not None
        assert oddity.kind == kind
        assert f"image {tmp_path / name}" in oddity.message
        assert message in oddity.message

    def test_sixteen_bits_are_said_in_grey_and_in_colour(self, tmp_path: Path) -> None:
        values = np.arange(48, dtype=np.uint16).reshape(4, 4, 3) * 1000
        grey = saved(Image.fromarray(values[:, :, 0]), tmp_path / "grey.png")
        for path in (grey, sixteen_bit_png(values, tmp_path / "colour.png")):
            oddity = examined(path)
            assert oddity is not None
            assert oddity.kind == "16-bit-image"
            assert oddity.message == f"image {path} has 16 bits a channel: its upper 8 bits are kept"

    def test_a_file_that_is_no_image_is_told_from_one_that_is_cut_short(self, tmp_path: Path) -> None:
        text, cut = tmp_path / "text.jpg", saved(photograph(80, 80), tmp_path / "cut.jpg")
        text.write_text("<html>not found</html>")
        cut.write_bytes(cut.read_bytes()[:700])
        found = [examined(path) for path in (text, cut)]
        assert [oddity.kind for oddity in found if oddity] == ["no-image", "corrupt-image"]
        for path, oddity in zip((text, cut), found, strict=True):
            with pytest.raises(ExampleError) as caught:
                decode(path, AS_IT_IS)
            assert oddity is not None
            assert oddity.message == str(caught.value)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "gone"])
def test_what_is_no_regular_file_is_an_error_that_names_it_and_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.JPEG"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    reasons = {"pipe": "it is a named pipe", "device": "it is a device", "folder": "Is a directory"}
    reason = reasons.get(kind, "No such file or directory")
    with pytest.raises(ExampleError, match=f"cannot read image .*x.JPEG: {reason}"):
        decode(path, AS_IT_IS)
    assert (oddity := examined(path)) is not None
    assert reason in oddity.message
