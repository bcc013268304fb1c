"""Orders and sets of example ids: Python's, of every size, in a process that numpy's sort would end."""

import subprocess
import sys

import numpy as np
import pytest

from robench.core.ids import distinct, order_of, strangers

EVERY_SIZE = """
import numpy as np
from robench.comparison.permutation import swaps
from robench.core.ids import distinct, order_of, strangers

def ids(numbers):
    return np.array([f"digits/{number:06d}" for number in numbers], np.dtypes.StringDType())

for size in (*range(1, 2001, STEP), 60, 110, 200, 600, 1000, LARGEST):
    whole, shifted = ids(range(size)), ids(range(size // 2, size + size // 2))
    for first, second in ((whole, shifted), (shifted, whole), (whole[::-1], shifted), (shifted, whole[::-1])):
        assert len(strangers(first, second)) == 2 * (size // 2), size
        together = distinct([first, second])
        assert together.tolist() == sorted({*first.tolist(), *second.tolist()}), size
        assert second[order_of(second)].tolist() == sorted(second.tolist()), size
    assert next(swaps([whole, shifted], 2))[1].shape == (2, size)
print("done")
"""


@pytest.mark.parametrize(("step", "largest"), [(41, 20_000), pytest.param(7, 50_000, marks=pytest.mark.slow)])
def test_ids_of_every_size_and_order_are_sorted_and_compared(step: int, largest: int) -> None:
    code = EVERY_SIZE.replace("STEP", str(step)).replace("LARGEST", str(largest))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


@pytest.mark.parametrize("texts", [["b", "a", "c"], ["é", "z", "a\x00", "a"], ["same", "a", "same"], []])
def test_order_is_by_code_points_and_stable(texts: list[str]) -> None:
    ids = np.array(texts, np.dtypes.StringDType())
    assert order_of(ids).tolist() == sorted(range(len(texts)), key=lambda place: texts[place])


def test_ids_of_one_array_alone_are_strangers() -> None:
    first, second = (np.array(each, np.dtypes.StringDType()) for each in (["a", "b", "c"], ["d", "b", "a"]))
    assert strangers(first, second) == strangers(second, first) == ["c", "d"]
    assert distinct([first, second]).tolist() == ["a", "b", "c", "d"]
