"""Rounding toward the clean input never leaves what lies between it and the attack's, whatever the numbers."""

from fractions import Fraction

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from robench.evaluation.keeping import moved, rounded_change

ROWS = 6
PIXELS = st.floats(0, 1, width=32)
EDGES = st.sampled_from([0.0, 1.0, 0.5, 2.0**-149, 2.0**-24, 1 - 2.0**-24, 2.0**-14, 1 / 3, 8 / 255])
IMAGES = hnp.arrays(np.float32, (ROWS,), elements=PIXELS | EDGES.map(lambda value: float(np.float32(value))))
ANYTHING = hnp.arrays(np.float32, (ROWS,), elements=st.floats(-(2.0**100), 2.0**100, width=32))


def rounded(clean: np.ndarray, adversarial: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    change = rounded_change(torch.from_numpy(clean), torch.from_numpy(adversarial))
    assert change.dtype == torch.float16
    return change.numpy(), moved(torch.from_numpy(clean), change).numpy()


@settings(max_examples=400)
@given(IMAGES, IMAGES)
@example(np.full(ROWS, 1.0, np.float32), np.full(ROWS, 2.0**-149, np.float32))
@example(np.full(ROWS, 2.0**-149, np.float32), np.full(ROWS, 1.0, np.float32))
@example(np.full(ROWS, 0.1, np.float32), np.full(ROWS, np.nextafter(np.float32(0.1), np.float32(1)), np.float32))
def test_each_value_lies_between_the_clean_one_and_the_attack_s(clean: np.ndarray, adversarial: np.ndarray) -> None:
    _, reached = rounded(clean, adversarial)
    assert (np.minimum(clean, adversarial) <= reached).all()
    assert (reached <= np.maximum(clean, adversarial)).all()


@settings(max_examples=100)
@given(IMAGES, IMAGES)
def test_no_budget_in_any_norm_is_left_in_exact_arithmetic(clean: np.ndarray, adversarial: np.ndarray) -> None:
    _, reached = rounded(clean, adversarial)
    kept, made = (
        [abs(Fraction(float(b)) - Fraction(float(a))) for a, b in zip(clean, points, strict=True)]
        for points in (reached, adversarial)
    )
    assert max(kept) <= max(made)
    assert sum(kept) <= sum(made)
    assert sum(each**2 for each in kept) <= sum(each**2 for each in made)


@settings(max_examples=200)
@given(IMAGES, IMAGES)
def test_what_is_lost_is_at_most_two_steps_of_float16(clean: np.ndarray, adversarial: np.ndarray) -> None:
    change, _ = rounded(clean, adversarial)
    wanted = adversarial.astype(np.float64) - clean.astype(np.float64)
    lost = np.abs(wanted - change.astype(np.float64))
    assert (lost <= np.maximum(np.abs(wanted) * 2.0**-9, 2.0**-23)).all()


@settings(max_examples=200)
@given(IMAGES, ANYTHING)
def test_inputs_without_a_box_are_followed_as_far_as_float16_goes(clean: np.ndarray, adversarial: np.ndarray) -> None:
    change, reached = rounded(clean, adversarial)
    assert np.isfinite(change).all()
    assert (np.minimum(clean, adversarial) <= reached).all()
    assert (reached <= np.maximum(clean, adversarial)).all()


@settings(max_examples=50)
@given(IMAGES)
def test_what_was_not_moved_stays_where_it_is(clean: np.ndarray) -> None:
    _, reached = rounded(clean, clean)
    assert reached.tobytes() == clean.tobytes()


@settings(max_examples=50)
@given(IMAGES, IMAGES)
def test_no_value_depends_on_its_neighbours(clean: np.ndarray, adversarial: np.ndarray) -> None:
    whole, _ = rounded(clean, adversarial)
    alone = [rounded(clean[row : row + 1], adversarial[row : row + 1])[0] for row in range(ROWS)]
    assert np.concatenate(alone).tobytes() == whole.tobytes()
