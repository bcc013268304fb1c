"""docs/results.md documents the columns that files have, and its example reads them."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
import pytest
from conftest import ROOT

from examples import HEADER, NEXT_HEADER, record_of
from robench.core.columns import fields_of
from robench.core.outcomes import Outcome
from robench.store import FolderStore
from robench.store.parquet import LABELS
from robench.tasks.classification import ClassificationOutcome
from robench.tasks.language_modeling import LanguageOutcome
from robench.tasks.segmentation import SegmentationOutcome

PAGE = (ROOT / "docs" / "results.md").read_text()


def test_the_table_has_every_column_in_its_order_with_its_type() -> None:
    of_classes, *of_tasks = (rows_of(part) for part in re.split(r"Outcomes of \[", PAGE))
    assert list(of_classes) == [*LABELS, *types_of(ClassificationOutcome)]
    assert of_classes.items() >= types_of(ClassificationOutcome).items()
    for documented, outcome in zip(of_tasks, (LanguageOutcome, SegmentationOutcome), strict=True):
        own = types_of(outcome).items() - types_of(Outcome).items()
        assert documented.items() == own
        assert list(documented) == [name for name in types_of(outcome) if name in documented]


def rows_of(part: str) -> dict[str, str]:
    found = re.findall(r"^\| (\w+) \| ([a-z ]+) \| .+ \|$", part, re.MULTILINE)
    return {name: kind for name, kind in found if name != "column"}


def types_of(outcome: type[Outcome]) -> dict[str, str]:
    """Base fields stand first in files; those with a default may follow them in the class."""
    names = {str: "text", bool: "bool", int: "int", float: "float", tuple: "list of int"}
    return {name: names[field.type] + " or null" * field.optional for name, field in fields_of(outcome).items()}


def test_the_example_reads_a_folder_of_several_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = FolderStore(tmp_path / "results" / "demo")
    for header in (HEADER, NEXT_HEADER, replace(HEADER, key="1" * 32, measurement_key="2" * 32, condition="clean")):
        store.put(record_of(header))
    monkeypatch.chdir(tmp_path)
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(source, {})
    printed = capsys.readouterr().out
    assert re.search(r"digits-vit\s+clean\s+0\.5\n\s+pgd\s+0\.5", printed)
    assert len(pd.read_parquet("results/demo/records")) == 60
