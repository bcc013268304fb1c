"""Files that scripts write from the code are up to date: one failure for all of them, which says what to do."""

import re

import pytest
from generated import ROOT, contents, stale
from page_counts import page


def test_generated_files_are_up_to_date() -> None:
    assert list(stale()) == [], "run `make generated`, which writes these files"


def test_no_schema_is_left_of_a_kind_of_files_that_has_gone() -> None:
    assert {f"schemas/{path.name}" for path in (ROOT / "schemas").iterdir()} <= contents().keys()


def test_a_text_that_is_not_on_its_page_is_named() -> None:
    with pytest.raises(ValueError, match="0 times; write it in scripts/page_counts"):
        page("docs/figures.md", "no count")


@pytest.mark.parametrize(
    ("path", "counted", "wrong"),
    [
        ("README.md", r"[\d,]+(?= printed numbers of)", "13"),
        ("README.md", r"\w+(?= attention mechanisms)", "twelve"),
        ("README.md", r"\d+(?= examples, nothing stored)", "1,200"),
        ("docs/index.md", r"\d+(?= columns of the suite and)", "15"),
    ],
)
def test_a_wrong_count_is_corrected(path: str, counted: str, wrong: str) -> None:
    text = (ROOT / path).read_text()
    changed, number = re.subn(counted, wrong, text)
    assert number == 1
    assert changed != text
    assert page(path, changed) == text
