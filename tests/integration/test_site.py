"""The site builds without a warning, a warning fails it, and its pages say what the declarations and docstrings say."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

# Of extensions of Sphinx, about its next release but one.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore::DeprecationWarning")
SCRIPTS = str(ROOT / "scripts")


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    sys.path.insert(0, SCRIPTS)
    import build_site

    yield build_site
    sys.path.remove(SCRIPTS)


def test_a_warning_fails_the_build(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(folder: Path) -> None:
        (folder / "_static").mkdir(parents=True)
        (folder / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text())
        (folder / "index.md").write_text("# A page\n\n[nowhere](no-such-page.md)\n")

    monkeypatch.setattr(script, "gather", gather)
    assert script.build(tmp_path / "site") != 0


@pytest.mark.slow
def test_the_pictures_of_the_gallery_are_what_the_script_draws(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gallery_pictures

    # Attacks round differently on other CPUs; its clean row is that of the digits.
    monkeypatch.setattr(gallery_pictures, "attack", lambda: [gallery_pictures.shifts()[0]])
    gallery_pictures.write_pictures(tmp_path)
    for name in ("shifts", "corruptions", "attack"):
        drawn = np.asarray(Image.open(tmp_path / f"{name}.png")).astype(int)
        kept = np.asarray(Image.open(ROOT / "docs" / "gallery" / f"{name}.png")).astype(int)
        assert drawn.shape[1] == kept.shape[1]
        assert np.abs(drawn - kept[: drawn.shape[0]]).max() <= 1, name


def test_a_grid_has_rows_of_images_with_gaps(script: Any) -> None:
    import gallery_pictures

    red, blue = np.zeros((3, 4, 4), np.float32), np.zeros((3, 4, 4), np.float32)
    red[0], blue[2] = 1, 0.5
    picture = gallery_pictures.grid([[red, blue], [blue, red]])
    assert picture.size == (18, 18)
    assert picture.getpixel((0, 0)) == picture.getpixel((17, 17)) == (255, 0, 0)
    assert picture.getpixel((17, 0)) == (0, 0, 128)
    assert picture.getpixel((8, 8)) == (255, 255, 255)
