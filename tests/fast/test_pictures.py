"""Pictures of examples: files, amplified differences, the grid, and what cannot be drawn."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from robench.core.errors import StoreUnwritableError, UsageError
from robench.exports.pictures import (
    Pictured,
    Pixels,
    Shot,
    difference,
    difference_factors,
    grid_of,
    image_of,
    png_of,
    write_pictures,
)


def pixels(value: float, channels: int = 3, side: int = 8) -> Pixels:
    return np.full((channels, side, side), value, np.float32)


def shot(
    name: str, value: float, *, is_right: bool | None = True, channels: int = 3, linf: float | None = 0.25
) -> Shot:
    return Shot(
        name=name, inputs=pixels(value, channels), prediction="7", confidence=0.934, is_right=is_right, linf=linf
    )


def example(example_id: str = "digits/1", moved: float = 0.75, **options: int) -> Pictured:
    return Pictured(
        domain="images",
        example_id=example_id,
        target="7",
        clean=shot("clean", 0.5, **options),
        shots=(shot("pgd@4/255", moved, is_right=False, **options), shot("fog", 0.5, **options)),
    )


def read(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path))


def test_every_condition_has_a_file_an_example_and_one_of_the_difference(tmp_path: Path) -> None:
    files = write_pictures([example("digits/1"), example("digits/2", 0.25)], tmp_path / "out")
    names = {str(path.relative_to(tmp_path / "out")) for path in files}
    of_examples = {"0000-digits-1.png", "0001-digits-2.png"}
    folders = ["clean", "pgd@4-255", "pgd@4-255-difference", "fog", "fog-difference"]
    assert names == {f"{folder}/{name}" for folder in folders for name in of_examples} | {"grid.png", "predictions.csv"}
    assert all(path.is_file() for path in files)
    assert (read(tmp_path / "out/clean/0000-digits-1.png") == 128).all()
    assert (read(tmp_path / "out/pgd@4-255/0000-digits-1.png") == 191).all()
    # The largest change over the examples takes half the range, and no change is grey.
    assert (read(tmp_path / "out/pgd@4-255-difference/0000-digits-1.png") == 255).all()
    assert (read(tmp_path / "out/pgd@4-255-difference/0001-digits-2.png") == 0).all()
    assert (read(tmp_path / "out/fog-difference/0000-digits-1.png") == 128).all()


def test_the_table_has_each_prediction_with_its_file(tmp_path: Path) -> None:
    write_pictures([example()], tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "predictions.csv").read_text())))
    assert [row["condition"] for row in rows] == ["clean", "pgd@4/255", "fog"]
    assert rows[1] == {
        "example": "digits/1", "file": "pgd@4-255/0000-digits-1.png", "condition": "pgd@4/255", "target": "7",
        "prediction": "7", "confidence": "0.934", "correct": "false", "linf": "0.25", "prediction_of_file": "",
        "correct_of_file": "",
    }  # fmt: skip
    assert all((tmp_path / row["file"]).is_file() for row in rows)


def test_what_is_unknown_is_empty_in_the_table(tmp_path: Path) -> None:
    unknown = replace(shot("clean", 0.5, is_right=None, linf=None), confidence=None)
    write_pictures([Pictured(domain="images", example_id="a", target="", clean=unknown, shots=())], tmp_path)
    assert (tmp_path / "predictions.csv").read_text().splitlines()[1] == "a,clean/0000-a.png,clean,,7,,,,,"
    assert unknown.answer == "7"
    assert shot("clean", 0.5).answer == "7 (93 %)"


@pytest.mark.parametrize("name", ["../../etc/x", "a/../b", "\N{SNOWMAN}", "..", "", "x" * 300])
def test_names_of_files_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    foreign = Pictured(
        domain="images", example_id=name, target="", clean=shot("clean", 0.5), shots=(shot(name or "-", 0.5),)
    )
    for path in write_pictures([foreign], tmp_path / "out"):
        assert path.resolve().is_relative_to(tmp_path / "out")
        assert path.is_file()


def test_the_grid_shows_images_enlarged_by_whole_pixels_and_right_answers_in_green() -> None:
    grid = np.asarray(grid_of([example()]))
    assert grid.shape[2] == 3
    # 8 pixels are enlarged 14 times, to 112.
    for level, column in ((128, 0), (191, 1), (255, 2), (128, 3), (128, 4)):
        left = 6 + column * 118
        assert (grid[21 : 21 + 112, left : left + 112] == level).all()
    below = grid[133:146].astype(int)
    is_green, is_red = below[..., 1] - below[..., 0] > 60, below[..., 0] - below[..., 1] > 60
    # Clean and under fog it is right, under the attack wrong.
    columns = [
        (is_green[:, left : left + 112].any(), is_red[:, left : left + 112].any()) for left in range(6, 590, 118)
    ]
    assert columns == [(True, False), (False, True), (False, False), (True, False), (False, False)]


def test_large_images_keep_their_size() -> None:
    large = Shot(name="clean", inputs=pixels(0.5, side=224), prediction="1", confidence=None, is_right=None, linf=None)
    assert grid_of([Pictured(domain="images", example_id="a", target="1", clean=large, shots=())]).width == 224 + 12


def test_a_factor_is_of_all_examples_of_a_condition() -> None:
    factors = difference_factors([example(moved=0.6), example(moved=0.3)])
    assert factors == {"pgd@4/255": pytest.approx(2.5), "fog": 1.0}
    changed = difference(pixels(0.5), pixels(0.3), factors["pgd@4/255"])
    assert changed == pytest.approx(0.0, abs=1e-6)


def test_grey_images_have_one_channel() -> None:
    assert image_of(pixels(0.5, channels=1)).mode == "L"
    assert Image.open(io.BytesIO(png_of(image_of(pixels(0.5, channels=1))))).size == (8, 8)
    assert grid_of([example(channels=1)]).mode == "RGB"


def test_values_beyond_the_range_are_cut() -> None:
    assert np.asarray(image_of(pixels(1.7))).max() == 255
    assert np.asarray(image_of(pixels(-0.7))).min() == 0


def test_other_channels_and_no_examples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1 or 3 channels to be drawn, got 4"):
        write_pictures([example(channels=4)], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="no examples to draw"):
        grid_of([])


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritableError, match=r"cannot be written: .*; choose another file or folder"):
        write_pictures([example()], tmp_path / "file")
