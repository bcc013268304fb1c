"""No ids are sorted by numpy, whose sort of variable-width strings can end the process (decision 0012)."""

import ast
import re
from pathlib import Path

import pytest
from sources import parsed

PACKAGE = Path(__file__).parents[2] / "robench"
SORTING = {"argsort", "lexsort", "sort", "unique", "setxor1d", "setdiff1d", "union1d", "intersect1d", "in1d", "isin"}
IDS = re.compile(r"\b(?:\w*_)?(?:ids|everyone|examples|others)\b")


def sorted_by_numpy(source: str) -> list[str]:
    """Return the calls of numpy's sorting functions on what is called ids."""
    return [
        ast.unparse(node)
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in SORTING
        and any(IDS.search(ast.unparse(each)) for each in node.args[:2])
        and ast.unparse(node.func.value) in ("np", "numpy")
    ]


@pytest.mark.parametrize("source", ["np.argsort(ids)", "np.unique(outcomes.ids)", "np.setxor1d(first_ids, b)"])
def test_a_sort_of_ids_is_found(source: str) -> None:
    assert sorted_by_numpy(source) == [source]


def test_only_python_sorts_ids() -> None:
    sources = {str(path): path.read_text() for path in PACKAGE.rglob("*.py")}
    sorting = {path: text for path, text in sources.items() if any(f".{name}(" in text for name in SORTING)}
    assert sorting
    assert {path: calls for path, text in sorting.items() if (calls := sorted_by_numpy(text))} == {}
