"""Settings of Sphinx for the site, which ``make docs`` builds (``scripts/build_site.py``); nothing is fetched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from robench import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "robench"
author = "the robench authors"
project_copyright = "the robench authors; Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The anchors that links between pages name, as repositories' viewers make them.
myst_heading_anchors = 4
# `<img width=...>` is a picture like others, and repositories' viewers show it too.
myst_enable_extensions = ["html_image"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# A default that is a function is shown as it is written.
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_title = f"robench {release}"
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

# A line below `Attributes:` that documents several fields, which napoleon takes for one with a type.
SEVERAL = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+): (?P<text>.*)")


def split_attributes(app: Sphinx, what: str, name: str, documented: object, options: object, lines: list[str]) -> None:
    """Write a line ``first, second: meaning`` as one line for each name; its continuation belongs to the last."""
    split: list[str] = []
    for line in lines:
        found = SEVERAL.match(line)
        names = found["names"].split(", ") if found else []
        split += [f"{found['indent']}{each}: {found['text']}" for each in names] if found else [line]
    lines[:] = split


def setup(app: Sphinx) -> None:
    """Connect ``split_attributes`` before napoleon's own reading of docstrings."""
    app.connect("autodoc-process-docstring", split_attributes, priority=400)
