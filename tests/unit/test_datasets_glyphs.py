"""Characters from fonts: every font has them all, and a style does what it says."""

from string import ascii_letters, digits

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage  # type: ignore[import-untyped]  # ships no types

from robench.datasets.digit_shifts_impl import FONTS, Font, Style, draw, fit

PLAIN = Style(weight=0, slant=0.0, angle=0.0)
OUTLINE = FONTS[0]


def pixels(mask: Image.Image) -> np.ndarray:
    return np.asarray(mask, dtype=np.float64) / 255


def lean(mask: Image.Image) -> float:
    """How far the centre of the upper half lies right of that of the lower half, in pixels."""
    image = pixels(mask)
    half = len(image) // 2
    columns = np.arange(image.shape[1])
    upper, lower = image[:half].sum(0), image[half:].sum(0)
    return float((upper @ columns) / upper.sum() - (lower @ columns) / lower.sum())


@pytest.mark.parametrize("font", FONTS, ids=lambda font: font.name)
def test_every_font_of_the_allow_list_has_all_letters_and_digits(font: Font) -> None:
    drawn = {character: draw(character, font, PLAIN) for character in ascii_letters + digits}
    assert len({(mask.size, mask.tobytes()) for mask in drawn.values()}) == 62


def test_an_outline_font_draws_no_empty_box_for_a_letter() -> None:
    box = draw("\uffff", OUTLINE, PLAIN).tobytes()
    assert all(draw(character, OUTLINE, PLAIN).tobytes() != box for character in ascii_letters + digits)


@pytest.mark.parametrize("font", FONTS, ids=lambda font: font.name)
@pytest.mark.parametrize("character", ["0", "6", "8", "A", "g"])
def test_at_the_heaviest_weight_holes_stay_open(font: Font, character: str) -> None:
    image = pixels(draw(character, font, Style(weight=font.max_weight, slant=0.0, angle=0.0)))
    # What is dark and not connected with the outside is a hole.
    parts, num_parts = ndimage.label(np.pad(image < 0.5, 1, constant_values=True))
    holes = [int((parts == part).sum()) for part in range(1, num_parts + 1) if part != parts[0, 0]]
    assert max(holes, default=0) >= 4


def test_weight_grows_strokes_on_each_side() -> None:
    widths = [draw("1", OUTLINE, Style(weight=weight, slant=0.0, angle=0.0)).width for weight in (0, 1, 3)]
    assert widths == [widths[0], widths[0] + 2, widths[0] + 6]


def test_slant_leans_the_top_to_the_right_and_cuts_nothing_off() -> None:
    upright, right, left = (draw("H", OUTLINE, Style(weight=0, slant=slant, angle=0.0)) for slant in (0.0, 0.25, -0.25))
    assert abs(lean(upright)) < 0.5
    # The centres of the halves are half a height apart.
    assert lean(right) == pytest.approx(0.25 * upright.height / 2, abs=1)
    assert lean(left) == pytest.approx(-0.25 * upright.height / 2, abs=1)
    assert pixels(right).sum() == pytest.approx(pixels(upright).sum(), rel=0.01)


def test_the_angle_is_counterclockwise_and_cuts_nothing_off() -> None:
    upright, turned = (draw("l", OUTLINE, Style(weight=0, slant=0.0, angle=angle)) for angle in (0.0, 10.0))
    # Counterclockwise, the top goes to the left.
    assert lean(turned) < -3
    assert pixels(turned).sum() == pytest.approx(pixels(upright).sum(), rel=0.01)


@pytest.mark.parametrize(("character", "height", "width"), [("l", 20, None), ("W", None, 12)])
def test_fit_keeps_the_aspect_within_both_bounds(character: str, height: int | None, width: int | None) -> None:
    mask = draw(character, OUTLINE, PLAIN)
    square = fit(mask, 20, 12, 32)
    assert square.size == (32, 32)
    left, top, right, bottom = square.getbbox() or (0, 0, 0, 0)
    assert (right - left) / (bottom - top) == pytest.approx(mask.width / mask.height, abs=0.1)
    assert height in (None, bottom - top)
    assert width in (None, right - left)
    assert abs((left + right) / 2 - 16) <= 1
    assert abs((top + bottom) / 2 - 16) <= 1


def test_a_character_that_is_blank_is_refused() -> None:
    with pytest.raises(ValueError, match="no such character"):
        draw(" ", OUTLINE, PLAIN)
