"""Rooms of the source and of the tests, and pages of the documentation, stay within the budgets of ``budgets.toml``."""

import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGETS = Path(__file__).with_name("budgets.toml")
# The pages that are made of the code, the list of changes, and tables of results grow with what they are of.
GROWING = {"docs/attention.md", "docs/gallery.md", "CHANGELOG.md"}


def room_of(path: Path) -> str:
    """Return the folder below robench or tests that a file belongs to; all other folders are one room."""
    return "/".join(path.parts[:2]) if path.parts[0] in ("robench", "tests") and len(path.parts) > 2 else path.parts[0]


def sizes(tracked: list[Path], root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Return the lines and files of Python of each room, and the words of each page."""
    lines, files = Counter[str](), Counter[str]()
    for path in tracked:
        if path.suffix == ".py":
            lines[room_of(path)] += len((root / path).read_text().splitlines())
            files[room_of(path)] += 1
    pages = [
        path
        for path in tracked
        if path.suffix == ".md" and (len(path.parts) == 1 or str(path.parent) == "docs") and str(path) not in GROWING
    ]
    return {
        "lines": lines,
        "files": files,
        "words": {str(path): len((root / path).read_text().split()) for path in pages},
    }


def over(found: dict[str, dict[str, int]], budgets: dict[str, dict[str, int]]) -> list[str]:
    return [
        f"{name} has {size} {kind}, and its budget is {budgets[kind].get(name, 0)}"
        for kind, sized in found.items()
        for name, size in sorted(sized.items())
        if size > budgets[kind].get(name, 0)
    ]


def test_no_room_and_no_page_is_over_its_budget() -> None:
    """Look first for what can be deleted; else raise the budget in the same commit, with the reason in its message."""
    if not (ROOT / ".git").exists():
        pytest.skip("files are counted by git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = [path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).exists()]
    assert over(sizes(tracked), tomllib.loads(BUDGETS.read_text())) == []


def test_a_room_that_grows_and_a_new_one_are_found(tmp_path: Path) -> None:
    for name, text in {
        "robench/core/a.py": "x = 1\ny = 2\n",
        "robench/new/b.py": "",
        "docs/page.md": "three words here",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = sizes([path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*.*"))], tmp_path)
    budgets = {
        "lines": {"robench/core": 1, "robench/new": 0},
        "files": {"robench/core": 1},
        "words": {"docs/page.md": 3},
    }
    assert over(found, budgets) == [
        "robench/core has 2 lines, and its budget is 1",
        "robench/new has 1 files, and its budget is 0",
    ]
