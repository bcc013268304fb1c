"""Sources of the site: every page has its place, links lead to pages or become text, pictures and texts are small."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from robench.core.flags import CONTRADICTED
from robench.metrics import sanity
from robench.metrics.audits import RULES

DOCS = ROOT / "docs"
SCRIPTS = str(ROOT / "scripts")
CATALOGUE = ROOT / "robench"
# So that a clone stays small.
MOST_BYTES = 500_000


@pytest.fixture(scope="module")
def site() -> Iterator[Any]:
    sys.path.insert(0, SCRIPTS)
    import build_site

    yield build_site
    sys.path.remove(SCRIPTS)


@pytest.fixture(scope="module")
def sources(site: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("sources")
    site.gather(folder)
    return folder


def in_toctrees(page: Path) -> list[str]:
    """Return the pages that the tables of contents of a page name."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    return [re.sub(r".*<(.*)>", r"\1", line) for line in lines]


def test_every_page_is_in_one_table_of_contents(sources: Path) -> None:
    pages = {path.relative_to(sources).with_suffix("").as_posix() for path in sources.rglob("*.md")}
    named = in_toctrees(sources / "index.md")
    assert len(named) == len(set(named))
    (pattern,) = in_toctrees(sources / "decisions" / "index.md")
    decisions = {f"decisions/{path.stem}" for path in (sources / "decisions").glob(f"{pattern}.md")}
    assert len(decisions) >= 5
    assert pages == {"index", *named, *decisions}


def test_the_site_has_the_pages_of_the_repository_and_the_reference(sources: Path) -> None:
    for name in ("overview", "contributing", "changelog", "tutorial", "reference/suites", "reference/datasets"):
        assert (sources / f"{name}.md").read_text().startswith("# "), name
    assert (sources / "gallery" / "attack.png").exists()
    assert (sources / "conf.py").exists()


def test_building_leaves_nothing_in_docs(sources: Path) -> None:
    assert not (DOCS / "reference").exists()
    assert not (DOCS / "overview.md").exists()


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        # Between pages of docs, nothing changes.
        ("[a](b.md#c)", "docs/x.md", "[a](b.md#c)"),
        ("![p](figures/a.svg)", "docs/x.md", "![p](figures/a.svg)"),
        # What stands in the root has other names in the site.
        ("[a](../README.md#using-it)", "docs/x.md", "[a](overview.md#using-it)"),
        ("[a](../../CONTRIBUTING.md)", "docs/decisions/x.md", "[a](../contributing.md)"),
        ("[a](docs/tables.md#verdicts)", "README.md", "[a](tables.md#verdicts)"),
        ("[d](docs/decisions/)", "README.md", "[d](decisions/index.md)"),
        # What the site does not have is named.
        ("[checkpoints.yaml](checkpoints.yaml)", "README.md", "`checkpoints.yaml`"),
        ("[reports/tables](../reports/tables)", "docs/tables.md", "`reports/tables`"),
        ("[`x.py`](../robench/x.py)", "docs/x.md", "`robench/x.py`"),
        ("[a workflow](../examples/w.yml)", "docs/x.md", "a workflow (`examples/w.yml` in the repository)"),
        # Neither addresses, anchors nor code are touched.
        ("[a](https://example.org/docs/x.md)", "README.md", "[a](https://example.org/docs/x.md)"),
        ("[a](#b)", "README.md", "[a](#b)"),
        ("```python\nx[a](docs/b.md)\n```\n", "README.md", "```python\nx[a](docs/b.md)\n```\n"),
        ("[a](docs/tables.md)\n```sh\n[b](LICENSE)\n```\n", "README.md", "[a](tables.md)\n```sh\n[b](LICENSE)\n```\n"),
    ],
)
def test_links_are_those_of_the_site(site: Any, text: str, path: str, wanted: str) -> None:
    assert site.page_for_site(text, path) == wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("README.md", "overview.md"),
        ("docs/x.md", "x.md"),
        ("docs/../docs/x.md", "x.md"),
        ("docs/decisions", "decisions/index.md"),
        ("docs", None),
        ("robench/api", None),
        ("LICENSE", None),
    ],
)
def test_a_file_has_one_path_in_the_site_or_none(site: Any, path: str, wanted: str | None) -> None:
    assert site.site_path(path) == wanted


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_entries_of_the_changelog_have_two_lines_at_most() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    entries = re.findall(r"^- .*\n(?:  .*\n)*", changelog, re.MULTILINE)
    assert len(entries) > 50
    assert [entry for entry in entries if len(entry.splitlines()) > 2] == []
    assert [line for line in changelog.splitlines() if len(line) > 132] == []


def test_pictures_are_small_and_shown() -> None:
    pictures = [path for path in DOCS.rglob("*") if path.suffix in (".png", ".svg")]
    pages = "".join(path.read_text() for path in DOCS.rglob("*.md"))
    assert [path.name for path in pictures if path.relative_to(DOCS).as_posix() not in pages] == []
    in_gallery = [path.stat().st_size for path in pictures if path.parent.name == "gallery"]
    assert len(in_gallery) >= 4
    assert sum(in_gallery) < MOST_BYTES


def test_every_picture_has_words_in_its_place() -> None:
    for page in DOCS.rglob("*.md"):
        for words in re.findall(r"(?:!\[|<img [^>]*alt=\")([^\]\"]*)", page.read_text()):
            assert len(words.split()) >= 3, f"{page.name}: {words!r} describes no picture"


def test_reading_tables_explains_every_flag() -> None:
    expectations = [each.name for each in vars(sanity).values() if isinstance(each, sanity.Expectation)]
    found = {*RULES, *expectations, "clean accuracy", CONTRADICTED}
    assert len(found) == 21
    flags = (DOCS / "reading-tables.md").read_text().partition("## Flags")[2]
    assert set(re.findall(r"^\| `([a-z -]+)` \|", flags, re.MULTILINE)) == found


def test_every_entry_of_the_faq_is_a_question_or_a_claim_with_an_answer() -> None:
    entries = re.split(r"^### ", (DOCS / "faq.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(entries) >= 25
    for entry in entries:
        title, _, answer = entry.partition("\n")
        assert title.endswith(("?", ".")), title
        assert len(answer.split()) >= 12, title


def test_the_metrics_of_the_protocols_are_one_table() -> None:
    page = (DOCS / "protocols.md").read_text()
    (rows,) = re.findall(r"^\| name \| definition \|\n\|---\|---\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert len(rows.splitlines()) == 13
    assert rows.splitlines()[-1].startswith("| AUPR, AUROC, FPR95 |")
