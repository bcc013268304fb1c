"""Texts of strangers that act where nobody keeps them from it, and what a browser or LaTeX makes of a rendered page."""

import re
from html.parser import HTMLParser

HOSTILE = {
    "html": "<script>alert(1)</script>",
    "html end": '"></td></table></script><img src=x onerror=alert(1)>',
    "entity": "a&lt;b&amp;c",
    "pipe": "a|b",
    "latex": "50%_$x$",
    "formula": '=HYPERLINK("x")',
    "plus": "+1+cmd|' /C calc'!A0",
    "at": "@SUM(A1)",
    "minus": "-2+3",
    "spaced formula": " =1+1",
    "full-width formula": "\uff1d1+1",
    "input": r"\input{x}",
    "end": r"\\ \end{tabular} ^^5cinput{y} ~{}#&",
    "bracket": "[10cm] *",
    "spaced bracket": "  [10cm]",
    "star": "* item",
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "newline": "a\nb\r\n| c |\u2028- d",
    "bidi": "abc\u202edef\u2066ghi",
    "nul": "a\x00b\x7fc\x9bd",
    "surrogate": "a\ud800b",
    "long": "x" * 10_000,
    "link": "[click](javascript:alert(1)) ![i](https://example.org/i.png) <https://example.org>",
    "markdown": "**bold** _slanted_ `code` ~~gone~~ # title \\",
    "separator": "\x01",
}


class Page(HTMLParser):
    """Collects what a browser would act on, and what it would show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.inside_cell = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.inside_cell = tag in ("td", "th")
        if self.inside_cell:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside_cell = False

    def handle_data(self, data: str) -> None:
        if self.inside_cell:
            self.cells[-1] += data


def bare_latex(text: str) -> str:
    """Return LaTeX without the escapes that robench writes, and headings of several lines in one."""
    text = re.sub(r"\\shortstack\[[lrc]\]", "", text).replace(r" \\ ", " ")
    words = r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|textquotedbl|ldots)\{\}"
    return re.sub(r"\\[&%$#_{}]", "", re.sub(words, "", text))
