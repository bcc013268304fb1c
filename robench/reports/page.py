"""HTML pages that ask for nothing outside themselves, with a script over their own data or without.

They are light or dark by preference. The Content-Security-Policy of a page permits its script, if it has one, and its
style sheet, by their digests, and images inside the page if it has any. Foreign names are text in it: escaped in HTML
and SVG, and in the data as JSON whose ``<``, ``>``, ``&`` and characters outside ASCII are escapes; scripts add text
alone.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from robench.core.inert import NOTE_WIDTH, clipped

_BASE = "robench.reports"
_JSON_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\x7f": "\\u007f"}
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1>
{about}</header>
{body}</body>
</html>
"""


def html_page(title: str, body: str) -> str:
    """Return a whole page without scripts, with a title above its body."""
    return _whole(title, f"{body}\n", f"\n{_file(_BASE, 'base.css')}{_file(_BASE, 'plain.css')}")


def page_of(
    title: str,
    body: str,
    data: object,
    *,
    about: Sequence[str] = (),
    package: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    has_images: bool = False,
) -> str:
    """Return a whole page.

    Args:
        title: heading, as plain text.
        body: HTML after the header.
        data: what scripts find as ``data``: values of JSON, without NaN or infinities.
        about: paragraphs below the title, as plain texts.
        package: package whose folder ``page`` has the files of the page.
        styles: names of style sheets, after the one that all pages share.
        scripts: names of scripts, likewise; they share one scope.
        has_images: the body has images, as ``data:`` addresses.
    """
    style = f"\n{_file(_BASE, 'base.css')}{''.join(_file(package, name) for name in styles)}"
    code = _file(_BASE, "base.js") + "".join(_file(package, name) for name in scripts)
    script = f'\n(() => {{\n"use strict";\n{code}}})();\n'
    scripted = f'<script type="application/json" id="data">{inert_data(data)}</script>\n<script>{script}</script>\n'
    sources = f"script-src '{_digest(script)}'; {'img-src data:; ' if has_images else ''}"
    shown = "\n".join(f"<p>{escape(clipped(text, NOTE_WIDTH))}</p>" for text in about if text)
    return _whole(clipped(title, NOTE_WIDTH), f"{body}{scripted}", style, shown, sources)


def _whole(title: str, body: str, style: str, about: str = "", sources: str = "") -> str:
    """Return a page of parts in HTML; ``sources`` are permitted by the policy besides the style."""
    policy = f"default-src 'none'; {sources}style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    return _PAGE.format(policy=policy, title=escape(title), style=style, about=about, body=body)


def inert_data(value: object) -> str:
    r"""Return a value as JSON in printable ASCII that ends no script element and that no HTML parser reads.

    >>> inert_data("</script>\u2028")
    '"\\u003c/script\\u003e\\u2028"'

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, written in _JSON_ESCAPES.items():
        text = text.replace(character, written)
    return text


def _file(package: str, name: str) -> str:
    return (files(package) / "page" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
