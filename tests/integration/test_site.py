"""The site builds without a warning, a warning fails it, and its pages say what the declarations and docstrings say."""

from __future__ import annotations

import re
import sys
from html import unescape
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

import robench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Of extensions of Sphinx, about its next release but one.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore::DeprecationWarning")
SCRIPTS = str(ROOT / "scripts")


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    sys.path.insert(0, SCRIPTS)
    import build_site

    yield build_site
    sys.path.remove(SCRIPTS)


@pytest.fixture(scope="module")
def site(script: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site")
    assert script.build(folder) == 0, "see Sphinx's warnings above"
    return folder


def text_of(page: Path) -> str:
    """Return the words of a page's article."""
    article = page.read_text().partition("<article")[2].partition("</article>")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", article)).split())


def test_every_page_is_built(script: Any, site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert [str(page) for page in pages if not (site / page).exists()] == []
    assert all((site / name).with_suffix(".html").exists() for name in script.MOVED.values())
    assert (site / "reference" / "suites.html").exists()


def test_links_and_pictures_of_the_site_lead_somewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#?]+)[^"]*"', page.read_text()):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / unescape(target)).exists(), f"{page.relative_to(site)} leads to {target}"


def test_anchors_within_the_site_are_there(site: Path) -> None:
    ids = {page: set(re.findall(r'id="([^"]+)"', page.read_text())) for page in site.rglob("*.html")}
    for page in ids:
        for target, anchor in re.findall(r'class="reference internal" href="([^"#]*)#([^"]+)"', page.read_text()):
            led = (page.parent / target).resolve() if target else page.resolve()
            assert anchor in ids[led], f"{page.relative_to(site)} leads to {target}#{anchor}"


def test_blocks_of_code_have_copy_buttons(site: Path) -> None:
    for name in ("index.html", "reference/suites.html"):
        (source,) = re.findall(r'<script[^>]*src="([^"?]*copy\.js)', (site / name).read_text())
        assert "navigator.clipboard.writeText" in ((site / name).parent / source).read_text()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert re.findall(r'<(?:script|img|iframe)[^>]*src="(?:https?:)?//[^"]*"', text) == []
        assert re.findall(r'<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="(?:https?:)?//[^"]*"', text) == []


@pytest.mark.parametrize("name", robench.__all__)
def test_the_python_reference_has_every_public_name_with_its_docstring(site: Path, name: str) -> None:
    text = text_of(site / "api.html")
    assert f"robench.{name}" in text
    first = " ".join((getattr(robench, name).__doc__ or "").split("\n\n")[0].split()).replace("``", "")
    # Sphinx writes typographic quotes.
    plain = text.translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'})
    assert first in plain, first


def test_the_python_reference_has_what_functions_raise_and_fields_mean(site: Path) -> None:
    text = text_of(site / "api.html")
    for wanted in ("check_attack", "WeightsError", "is_complete", "mean (tuple[float, float, float])", "on_progress"):
        assert wanted in text, wanted
    assert "lambda progress" in text
    assert "<function" not in text


def test_a_warning_fails_the_build(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(folder: Path) -> None:
        (folder / "_static").mkdir(parents=True)
        (folder / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text())
        (folder / "index.md").write_text("# A page\n\n[nowhere](no-such-page.md)\n")

    monkeypatch.setattr(script, "gather", gather)
    assert script.build(tmp_path / "site") != 0


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
