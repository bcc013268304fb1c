"""Builds the site with Sphinx: ``python scripts/build_site.py build/site`` (``make docs``), warnings being errors.

The pages are those of ``docs``, the README, CONTRIBUTING and the changelog, and the reference that
``reference_pages.py`` makes of the declarations. They are brought together in a temporary folder, so that building
leaves no file in ``docs``. Links to files outside the site become text.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = "docs"
# Pages beside those of `docs`, by their path in the repository.
MOVED = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
# A link or picture in Markdown: `[text](target)` with neither a scheme nor an anchor alone.
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def site_path(path: str) -> str | None:
    """Return the path in the site of a file of the repository; None if the site does not have it."""
    path = posixpath.normpath(path)
    if path in MOVED:
        return MOVED[path]
    inside = path.partition("/")[2] if path.startswith(f"{DOCS}/") else ""
    if inside and (ROOT / path).is_dir():
        return f"{inside}/index.md"
    return inside or None


def page_for_site(text: str, path: str) -> str:
    """Return a page with its links as they are in the site; code is left as it is.

    Args:
        text: the page, in Markdown.
        path: its path in the repository, from which its links lead.
    """
    parts = FENCE.split(text)
    return "".join(part if number % 2 else _relinked(part, path) for number, part in enumerate(parts))


def gather(folder: Path) -> None:
    """Write all sources of the site into a folder."""
    # Imported here, since they import all declarations.
    from reference_pages import pages

    shutil.copytree(ROOT / DOCS, folder, dirs_exist_ok=True)
    originals = {path.relative_to(ROOT).as_posix() for path in (ROOT / DOCS).rglob("*.md")}
    for path in originals | set(MOVED):
        page = folder / str(site_path(path))
        page.write_text(page_for_site((ROOT / path).read_text(), path))
    for name, text in pages().items():
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)


def build(output: Path) -> int:
    """Build the site into a folder and return Sphinx's exit code, not 0 after a warning."""
    from sphinx.cmd.build import main

    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources"
        gather(sources)
        strict = ("--fail-on-warning", "--quiet", "--fresh-env")
        return main(["-b", "html", "-d", str(Path(scratch) / "doctrees"), *strict, str(sources), str(output)])


def _relinked(text: str, path: str) -> str:
    def relink(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["path"]))
        inside = site_path(target)
        if inside is None:
            return _named(found["text"], target)
        leads = os.path.relpath(inside, posixpath.dirname(str(site_path(path))) or ".")
        return f"{found['picture']}[{found['text']}]({leads}{found['anchor'] or ''})"

    return LINK.sub(relink, text)


def _named(text: str, target: str) -> str:
    """Return the text of a link to a file that the site does not have, with the file's path in the repository."""
    return f"`{target}`" if target.endswith(text.strip("`")) else f"{text} (`{target}` in the repository)"


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")))
