"""The site builds without a warning, and its pages say what the declarations and docstrings say."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_site import pytestmark, script

import robench

__all__ = ["pytestmark", "script"]


def text_of(page: Path) -> str:
    """Return the words of a page's article."""
    article = page.read_text().partition("<article")[2].partition("</article>")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", article)).split())


@pytest.fixture(scope="module")
def site(script: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site")
    assert script.build(folder) == 0, "see Sphinx's warnings above"
    return folder


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
    for wanted in ("check_attack", "WeightsError", "is_complete", "mean (tuple[float, ...])", "on_progress"):
        assert wanted in text, wanted
    assert "lambda progress" in text
    assert "<function" not in text
