"""The commands and the Python of the pages that need CIFAR-10 run as the pages say, on the real images."""

from pathlib import Path

import pytest
from cifar_package import package
from conftest import ROOT, Robench
from snippets import run_snippet, snippets

__all__ = ["package"]


@pytest.mark.parametrize("page", ["cifar10.md", "tutorial.md"])
def test_the_snippets_run(
    robench: Robench, page: str, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    everything = snippets((ROOT / "docs" / page).read_text())
    # Commands need the files of the page.
    found = [each for each in everything if each.file or "test_cifar10_docs" in each.why]
    assert any(not each.file for each in found)
    # The readers of the pages may have the archive already; here it is the package, and nothing is downloaded.
    downloading = "robench data prepare cifar-10 --data-root DATA"
    assert robench(*downloading.split()[1:], "--archive", package).code == 0
    for snippet in found:
        run_snippet(snippet, robench, monkeypatch)
