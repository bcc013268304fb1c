"""Renderers of printed tables and of their twins by format, those for readers over one page of printable texts."""

from collections.abc import Callable, Mapping
from html import escape
from math import inf
from typing import TypeVar

from robench.papers.documents import render_csv, render_json
from robench.papers.latex import render_latex
from robench.papers.layout import (
    Grid,
    Lines,
    fitted,
    markdown_grid,
    markdown_paragraph,
    text_grid,
    text_paragraph,
)
from robench.papers.page import Page, Section, page_of
from robench.papers.table import PaperTable
from robench.papers.twin_page import page_of_twins, twin_csv, twin_json, twin_latex
from robench.papers.twins import TwinTable
from robench.reports.page import html_page
from robench.reports.table import escaped, html_list


def text_of(page: Page) -> str:
    """Return a page as plain text."""
    parts = [f"{text_paragraph(page.title)}\n{text_paragraph(page.source)}"]
    for section in page.sections:
        parts += [section.heading] if section.heading else []
        parts += map(text_grid, _tables(section, str))
        parts += map(text_paragraph, section.paragraphs)
        parts += ["\n".join(text_paragraph(note, is_item=True) for note in section.notes)] if section.notes else []
    return "\n\n".join([*parts, "\n".join(map(text_paragraph, page.closing))]) + "\n"


def markdown_of(page: Page) -> str:
    """Return a page in GitHub's Markdown, with all texts escaped."""
    parts = [f"# {escaped(page.title)}", markdown_paragraph(escaped(page.source))]
    for section in page.sections:
        parts += [f"## {escaped(section.heading)}"] if section.heading else []
        parts += map(markdown_grid, _tables(section, escaped))
        parts += [markdown_paragraph(escaped(text)) for text in section.paragraphs]
        items = [markdown_paragraph(escaped(note), is_item=True) for note in section.notes]
        parts += ["\n".join(items)] if items else []
    return "\n\n".join([*parts, *(markdown_paragraph(escaped(text)) for text in page.closing)]) + "\n"


def html_of(page: Page) -> str:
    """Return a page as HTML without scripts, fonts or images; its tables are as wide as they are."""
    sections = "".join(map(_html_section, page.sections))
    footer = f"<footer>{escape(' '.join(page.closing))}</footer>"
    return html_page(page.title, f"<p>{escape(page.source)}</p>\n{sections}{footer}")


def _tables(section: Section, shown: Callable[[str], str]) -> tuple[Lines, ...]:
    return () if section.grid is None else fitted(section.grid.mapped(shown))


def _html_section(section: Section) -> str:
    heading = f"<h2>{escape(section.heading)}</h2>\n" if section.heading else ""
    tables = "" if section.grid is None else _html_table(section.grid)
    paragraphs = "".join(f"<p>{escape(text)}</p>\n" for text in section.paragraphs)
    return f"{heading}{tables}{paragraphs}{html_list(section.notes)}"


def _html_table(grid: Grid) -> str:
    ((header, *rows),) = fitted(grid.mapped(escape), inf)
    head = "".join(f"<th>{text}</th>" for text in header)
    body = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>\n" for row in rows)
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"
    return f'<div class="scroll">\n{table}</div>\n'


T = TypeVar("T")


def _formats(
    page: Callable[[T], Page], csv: Callable[[T], str], json: Callable[[T], str], rows: Callable[[T], str]
) -> Mapping[str, Callable[[T], str]]:
    return {
        "text": lambda table: text_of(page(table)),
        "md": lambda table: markdown_of(page(table)),
        "csv": csv,
        "json": json,
        "html": lambda table: html_of(page(table)),
        "latex": rows,
    }


FORMATS: Mapping[str, Callable[[PaperTable], str]] = _formats(page_of, render_csv, render_json, render_latex)
TWIN_FORMATS: Mapping[str, Callable[[TwinTable], str]] = _formats(page_of_twins, twin_csv, twin_json, twin_latex)
