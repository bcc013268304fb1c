"""Masks as pictures: classes come back from files, colours stay apart for colour-blind eyes, and what is refused."""

import csv
import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from presence import present
from test_pictures import pixels

from robench.core.errors import UsageError
from robench.exports.masks import COLOURS, classes_in, hatched, indexed, legend_of
from robench.exports.pictures import Pictured, Shot, grid_of, write_pictures
from robench.exports.view import render_view

# Of Viénot et al. 1999: what the cones of protanopes and deuteranopes leave of linear RGB.
DICHROMATS = (
    np.eye(3),
    np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
)
NAMES = ("sky", "<b>road", "tree")
TRUE = np.array([[0, 0, 1, 1], [0, 0, -1, 2]])


def answered(name: str, mask: np.ndarray, proportion: float, value: float = 0.5) -> Shot:
    return Shot(
        name=name, inputs=pixels(value), prediction="", confidence=None, is_right=None, linf=0.25, mask=mask,
        proportion=proportion,
    )  # fmt: skip


def scene(example_id: str, *proportions: float) -> Pictured:
    clean, *others = proportions
    return Pictured(
        domain="images",
        example_id=example_id,
        target="",
        clean=answered("clean", np.where(TRUE == 2, 0, TRUE), clean),
        shots=tuple(
            answered(f"pgd-{place}", np.where(TRUE < 0, -1, 2), each, 0.75) for place, each in enumerate(others)
        ),
        true_mask=TRUE,
        class_names=NAMES,
    )


def lightness_and_hue(colour: tuple[int, int, int], eyes: np.ndarray) -> np.ndarray:
    """CIELAB (D65) of a colour as other eyes see it."""
    values = np.array(colour) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(to_xyz @ eyes @ linear / [0.9505, 1, 1.089], 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", DICHROMATS)
def test_the_first_sixteen_colours_and_white_differ_for_colour_blind_eyes(eyes: np.ndarray) -> None:
    seen = [lightness_and_hue(each, eyes) for each in (*COLOURS[:16], (255, 255, 255))]
    # A difference of 2.3 is just noticeable side by side.
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 10


def test_every_class_has_its_own_colour() -> None:
    assert len(set(COLOURS)) == len(COLOURS) == 255


def test_classes_come_back_from_the_files_and_uncounted_pixels_are_transparent(tmp_path: Path) -> None:
    write_pictures([scene("a", 0.8, 0.4)], tmp_path)
    for file, mask in (("true-mask", TRUE), ("pgd-0-mask", np.where(TRUE < 0, -1, 2))):
        image = Image.open(tmp_path / file / "0000-a.png")
        levels = np.asarray(image.convert("RGBA"))
        assert (np.asarray(image)[mask >= 0] == mask[mask >= 0]).all()
        assert (levels[..., 3] == np.where(mask < 0, 0, 255)).all()
        assert (levels[mask >= 0][:, :3] == np.array(COLOURS)[mask[mask >= 0]]).all()
    classes = list(csv.reader((tmp_path / "classes.csv").open()))
    assert classes == [
        ["class", "name", "colour"],
        ["0", "sky", "#e69f00"],
        ["1", "<b>road", "#56b4e9"],
        ["2", "tree", "#009e73"],
    ]
    clean, attacked = csv.DictReader((tmp_path / "predictions.csv").open())
    assert (clean["mask"], clean["proportion_right"]) == ("clean-mask/0000-a.png", "0.8")
    assert (attacked["mask"], attacked["proportion_right"]) == ("pgd-0-mask/0000-a.png", "0.4")


def test_uncounted_pixels_are_striped_and_the_others_in_their_colours() -> None:
    drawn = np.asarray(hatched(TRUE, 8))
    assert (drawn[:16, :16] == COLOURS[0]).all()
    assert (drawn[8:, 24:] == COLOURS[2]).all()
    stripes = {tuple(each) for each in drawn[8:, 16:24].reshape(-1, 3).tolist()}
    assert len(stripes) == 2
    assert not stripes & set(COLOURS)


def test_the_legend_has_the_classes_that_occur() -> None:
    assert classes_in([TRUE, np.full((1, 1), 9)]) == [0, 1, 2, 9]
    drawn = {tuple(each) for each in np.asarray(legend_of([TRUE], NAMES, 500)).reshape(-1, 3).tolist()}
    assert set(COLOURS[:3]) <= drawn
    assert not set(COLOURS[3:7]) & drawn
    # Three classes and the stripes, in one column or in two.
    assert legend_of([TRUE], NAMES, 100).height == 4 * 15
    assert legend_of([TRUE], NAMES, 240).height == 2 * 15
    assert legend_of([TRUE.clip(0)], NAMES, 100).height == 3 * 15


def test_the_grid_has_masks_beside_their_images() -> None:
    grid = np.asarray(grid_of([scene("a", 0.8, 0.4)]))
    # Clean, true, predicted; attacked, change, predicted: masks of 2 x 4 fill the squares of their images.
    for column, (row, at), number in ((1, (0, 0), 0), (1, (1, 3), 2), (2, (1, 3), 0), (5, (0, 0), 2)):
        left, top = 6 + column * 118 + 28 * at + 14, 21 + 56 * row + 28
        assert tuple(grid[top, left]) == COLOURS[number]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.full((2, 2), 255), "masks of at most 255 classes can be drawn, got class 255"),
        (np.zeros((3, 2, 2), int), r"only masks \(H, W\) can be drawn, got shape \(3, 2, 2\)"),
    ],
)
def test_masks_that_cannot_be_drawn_are_refused(tmp_path: Path, mask: np.ndarray, message: str) -> None:
    assert indexed(np.full((2, 2), 254)).getpixel((0, 0)) == 254
    with pytest.raises(UsageError, match=message):
        write_pictures([replace(scene("a", 0.8), true_mask=mask)], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match=message):
        render_view("t", {"m": [replace(scene("a", 0.8), true_mask=mask)]})


@pytest.fixture
def page() -> str:
    """Two models under two conditions: `pgd-0` takes most from b, `pgd-1` from c, and of the other model nothing."""
    drops = {"a": (0.9, 0.8, 0.9), "b": (0.9, 0.3, 0.8), "c": (0.7, 0.5, 0.2)}
    weak = [scene(name, *each) for name, each in drops.items()]
    return render_view("t", {"weak": weak, "strong": [scene(name, 0.831, 0.831, 0.831) for name in drops]})


def test_a_page_says_the_right_pixels_and_begins_with_the_largest_drop(page: str) -> None:
    assert re.findall(r"<h2>(.)</h2>", page) == ["b", "c", "a"]
    assert page.count("83.1 % of pixels right") == 3 * 3
    assert re.findall(r"</svg>(.*?)</li>", page) == ["sky", "&lt;b&gt;road", "tree"]
    assert 'class="stripes"></span>not counted' in page
    found = present(re.search(r'id="data">(.*?)</script>', page))
    (first, *_) = json.loads(found[1])["examples"]
    assert first["drops"] == pytest.approx([0.6, 0.1, 0, 0])
    assert first["words"] == "b  sky <b>road tree"
