"""Outcomes as columns: the same as their rows, whatever is taken, joined or replaced."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import outcome_columns, outcome_of
from robench.core.columns import Outcomes, Values
from robench.core.errors import ContractError
from robench.core.outcomes import Outcome
from robench.tasks.classification import ClassificationOutcome

ROWS = st.lists(
    st.builds(
        outcome_of, st.text(max_size=20).filter(str.isprintable), st.booleans(), linf=st.none() | st.floats(0, 1),
        found=st.none() | st.booleans(), num_queries=st.none() | st.integers(0, 2**62),
        epsilon=st.sampled_from([None, "1/255", "2/255"]), loss_nats=st.none() | st.floats(allow_nan=False),
    ),
    max_size=8,
)  # fmt: skip


@given(ROWS)
def test_rows_come_back_as_they_were(rows: list[ClassificationOutcome]) -> None:
    outcomes = outcome_columns(rows)
    assert list(outcomes) == rows
    assert len(outcomes) == len(rows)
    assert [outcomes[place] for place in range(-len(rows), 0)] == rows


@given(ROWS, st.integers(0, 8))
def test_parts_joined_are_the_whole(rows: list[ClassificationOutcome], cut: int) -> None:
    outcomes = outcome_columns(rows)
    assert Outcomes.joined([outcomes[:cut], outcomes[cut:]]) == outcomes
    assert [*outcomes[:cut], *outcomes[cut:]] == rows


@given(ROWS)
def test_a_budget_takes_its_rows_alone(rows: list[ClassificationOutcome]) -> None:
    outcomes = outcome_columns(rows)
    for epsilon in (None, "1/255", "2/255", "3/255"):
        assert list(outcomes.at_budget(epsilon)) == [row for row in rows if row.epsilon == epsilon]


def test_rows_are_taken_by_places_and_by_truth_values() -> None:
    outcomes = outcome_columns(outcome_of(name) for name in "abc")
    assert outcomes.take(np.array([2, 0])).ids.tolist() == ["c", "a"]
    assert outcomes.take(np.array([False, True, True])).ids.tolist() == ["b", "c"]


class TestColumn:
    def test_it_has_the_values_of_a_field(self) -> None:
        outcomes = outcome_columns([outcome_of("a", confidence=0.25), outcome_of("b", False, confidence=0.5)])
        assert outcomes.column("confidence").tolist() == [0.25, 0.5]
        assert outcomes.column("correct_top1").dtype == np.bool_

    def test_a_missing_value_is_named_with_its_example(self) -> None:
        outcomes = outcome_columns([outcome_of("a", l2=1.0), outcome_of("b")])
        with pytest.raises(ContractError, match="example 'b' has no l2"):
            outcomes.column("l2")
        with pytest.raises(ContractError, match="example 'a' has no l1"):
            outcomes.column("l1")

    def test_where_values_are_known(self) -> None:
        outcomes = outcome_columns([outcome_of("a", l2=1.0), outcome_of("b")])
        assert outcomes.known("l2").tolist() == [True, False]
        assert outcomes.known("l1").tolist() == [False, False]
        assert outcomes.known("target").tolist() == [True, True]

    def test_a_field_of_another_task_is_refused(self) -> None:
        with pytest.raises(ContractError, match=r"target is not a field of Outcome \(example 'a'\); choose a metric"):
            Outcomes.of([Outcome(example_id="a")]).column("target")

    def test_of_no_rows_it_is_empty(self) -> None:
        assert outcome_columns([]).column("l2").tolist() == []

    def test_what_is_missing_everywhere_takes_no_memory(self) -> None:
        outcomes = outcome_columns([outcome_of("a"), outcome_of("b")])
        assert outcomes.values("linf") is None


class TestReplaced:
    def test_a_column_takes_the_place_of_another_and_none_of_all_its_values(self) -> None:
        row = outcome_of("a", l2=1.0, epsilon="1/255")
        changed = outcome_columns([row]).replaced(l2=Values(np.array([2.0])), epsilon=None)
        assert list(changed) == [replace(row, l2=2.0, epsilon=None)]


class TestRefused:
    def columns(self, **changed: Values) -> dict[str, Values]:
        outcomes = outcome_columns([outcome_of("a")])
        found = {name: outcomes.values(name) for name in ("example_id", "target", "prediction", "correct_top1")}
        return {name: values for name, values in found.items() if values is not None} | changed

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"margin": np.zeros(1)}, "margin are not fields of ClassificationOutcome"),
            ({"l2": np.zeros(2)}, "l2 must have 1 values of float64, got 2 of float64"),
            *(
                ({"target": np.zeros(1, each)}, "target must have 1 values of int64, got 1 of")
                for each in (np.float64, np.complex128, object)
            ),
            ({"target": None}, "target must be int, got None"),
        ],
    )
    def test_columns(self, changed: dict[str, np.ndarray | None], message: str) -> None:
        given = {name: Values(array) for name, array in changed.items() if array is not None}
        columns = {name: values for name, values in self.columns(**given).items() if changed.get(name, 0) is not None}
        with pytest.raises(ContractError, match=message):
            Outcomes(ClassificationOutcome, columns, 1)

    def test_smaller_numbers_are_taken(self) -> None:
        narrow = self.columns(l2=Values(np.ones(1, np.float32)), target=Values(np.ones(1, np.int32)))
        assert Outcomes(ClassificationOutcome, narrow, 1).column("l2").dtype == np.float64

    def test_outcomes_of_two_tasks_are_not_joined(self) -> None:
        with pytest.raises(ContractError, match=r"outcomes of one task are needed"):
            Outcomes.joined([outcome_columns([outcome_of("a")]), Outcomes.of([Outcome(example_id="a")])])


def test_undefined_equals_undefined_and_not_missing() -> None:
    nan, missing = (outcome_columns([outcome_of("a", loss_nats=value)]) for value in (float("nan"), None))
    assert nan == outcome_columns([outcome_of("a", loss_nats=float("nan"))])
    assert nan != missing
