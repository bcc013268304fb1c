"""Size and power of the check, with fewer pairs than scripts/check_power.py, which writes a table into the docs."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paired_records import SUITE, flipped, store_of
from presence import present
from scipy import stats

from robench.comparison import baseline_of, check_results

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> Any:
    specification = present(spec_from_file_location("check_power", ROOT / "scripts" / "check_power.py"))
    module = module_from_spec(specification)
    present(specification.loader).exec_module(module)
    return module


@pytest.mark.parametrize(("num_cells", "discordance"), [(1, 0.05), (1, 0.3), (5, 0.1), (20, 0.2)])
def test_equal_models_fail_in_at_most_5_per_cent(script: Any, num_cells: int, discordance: float) -> None:
    failed, _ = script.failures(num_cells, discordance, 0.0, num_pairs=400)
    # More would come once in a thousand tests of a true 5 %.
    assert failed <= stats.binom.isf(0.001, 400, 0.05)


def test_a_loss_of_5_points_at_10_per_cent_discordance_is_found(script: Any) -> None:
    _, found = script.failures(1, 0.1, 0.05, num_pairs=400)
    assert found >= 0.95 * 400


def test_the_permutation_has_its_size(script: Any) -> None:
    assert script.permutation_failures(0.1, num_pairs=100, num_draws=199) <= stats.binom.isf(0.001, 100, 0.05)


def test_more_loss_is_found_more_often_and_more_cells_cost_power(script: Any) -> None:
    found = [script.failures(1, 0.1, loss, num_pairs=200)[1] for loss in (0.0, 0.02, 0.05)]
    assert found == sorted(found)
    assert script.failures(20, 0.1, 0.03, num_pairs=200)[1] < script.failures(1, 0.1, 0.03, num_pairs=200)[1]


def test_a_loss_needs_as_much_discordance(script: Any) -> None:
    with pytest.raises(ValueError, match="needs as much discordance"):
        script.failures(1, 0.02, 0.05)


def test_the_simulation_decides_as_the_check_does(script: Any) -> None:
    """The same counts of changed examples, once through records, baseline and check."""
    generator = np.random.default_rng(1)
    decisions = set()
    for _ in range(12):
        wrong, right = (int(each) for each in generator.integers(0, (16, 6)))
        before, after = flipped(60, wrong, right, 30)
        kept = baseline_of([SUITE], store_of(("m", "1" * 60, before)), ["m"])
        check = check_results(kept, [SUITE], store_of(("m", "1" * 60, after), weights="new"))
        p_values = script.holm([1.0, *[script.tail_p_value(wrong, wrong + right)] * 2])
        assert [cell.p_holm for cell in check.cells] == pytest.approx(p_values, abs=1e-15)
        assert check.has_passed == (min(p_values) > script.ALPHA)
        decisions.add(check.has_passed)
    assert decisions == {True, False}


def test_the_page_has_the_table_and_its_promises() -> None:
    (shown,) = re.findall(r"<!-- power -->\n(.*?)<!-- /power -->", (ROOT / "reports/power.md").read_text(), re.DOTALL)
    rows = [line.strip("| ").split(" | ") for line in shown.splitlines() if line.startswith("| ")]
    sizes = [float(cell) for row in rows if row[0].isdigit() for cell in row[1:]]
    assert len(sizes) == 16
    assert max(sizes) <= 5.0
    power = {row[0]: [float(cell) for cell in row[1:]] for row in rows if row[0][-1] == "%" and "points" in row[0]}
    assert power["5 points, 10 %"][0] >= 95.0
    assert len(power) == 3 * 4 + 3
