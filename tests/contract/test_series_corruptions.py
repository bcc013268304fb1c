"""Corruptions of time series: each is what a slow reference makes of a series alone, and padding stays."""

from collections.abc import Sequence
from dataclasses import replace
from math import cos, exp, floor, pi, sin, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from series_examples import LENGTHS, is_padding, series_batch

from robench.core.errors import ContractError
from robench.core.protocols import Batch
from robench.core.seeds import Stream
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, SERIES_TYPES
from robench.corruptions import series_impl as algorithms
from robench.corruptions.series import SPIKE, STRENGTHS, SeriesCorruption
from robench.datasets import DATASETS
from robench.perturbations.draws import ExampleDraws
from robench.testing import check_corruption
from robench.testing.models import NoModel, perturbed

Array = np.ndarray[Any, Any]
every_type = pytest.mark.parametrize("kind", STRENGTHS)


def corrupted(declaration: SeriesCorruption, batch: Batch, seeds: Sequence[int] | None = None) -> torch.Tensor:
    no_model: Any = NoModel()
    return perturbed(declaration, batch, no_model, seeds).inputs


# References: one value at a time, in Python's floats, from the definitions on the page of series.
class Reference:
    def __init__(self, seed: int, strength: float) -> None:
        self.draws, self.strength = ExampleDraws([seed]), strength

    def drawn(self, how: str, purpose: str, *shape: int) -> list[Any]:
        numbers: list[Any] = getattr(self.draws, how)(Stream(purpose=purpose), shape)[0].double().tolist()
        return numbers

    def between(self, series: Array, place: float) -> Array:
        place = min(max(place, 0.0), len(series) - 1.0)
        before = floor(place)
        after = min(before + 1, len(series) - 1)
        mixed: Array = (before + 1 - place) * series[before] + (place - before) * series[after]
        return mixed

    def noise(self, series: Array) -> list[Any]:
        drawn = self.drawn("normal", "noise", *series.shape)
        return [[x + self.strength * z for x, z in zip(*rows, strict=True)] for rows in zip(series, drawn, strict=True)]

    def drift(self, series: Array) -> list[Any]:
        weights = self.drawn("normal", "drift", 4, series.shape[1])
        return [
            [
                x
                + self.strength
                / sqrt(2.5)
                * sum(weights[k][c] * cos(pi * k * (t + 0.5) / len(series)) for k in range(4))
                for c, x in enumerate(step)
            ]
            for t, step in enumerate(series)
        ]

    def sample_dropout(self, series: Array) -> list[Any]:
        held, drawn = [series[0]], self.drawn("uniform", "sample_dropout", len(series))
        for step, number in zip(series[1:], drawn[1:], strict=True):
            held.append(held[-1] if number < self.strength else step)
        return held

    def channel_dropout(self, series: Array) -> list[Any]:
        first, *ranks = self.drawn("uniform", "channel_dropout", 1 + series.shape[1])
        lost = sorted(range(len(ranks)), key=ranks.__getitem__)[: floor(self.strength * len(ranks) + first)]
        return [[0.0 if c in lost else x for c, x in enumerate(step)] for step in series]

    def spikes(self, series: Array) -> list[Any]:
        drawn = self.drawn("uniform", "spikes", *series.shape)
        signs = self.drawn("signs", "spikes_sign", *series.shape)
        return [
            [x + SPIKE * signs[t][c] * (drawn[t][c] < self.strength) for c, x in enumerate(step)]
            for t, step in enumerate(series)
        ]

    def time_warp(self, series: Array) -> list[Any]:
        weights = [2 * number - 1 for number in self.drawn("uniform", "time_warp", 3)]
        total, last = sum(map(abs, weights)), len(series) - 1
        times = [t / max(last, 1) for t in range(len(series))]
        moved = [
            u + self.strength * sum(w / total * sin(pi * k * u) / (pi * k) for k, w in enumerate(weights, start=1))
            for u in times
        ]
        assert moved == sorted(moved)
        return [self.between(series, last * u) for u in moved]

    def time_shift(self, series: Array) -> list[Any]:
        (sign,) = self.drawn("signs", "time_shift", 1)
        return [self.between(series, t + sign * self.strength * len(series)) for t in range(len(series))]

    def gain(self, series: Array) -> list[Any]:
        factors = [exp(self.strength * z) for z in self.drawn("normal", "gain", series.shape[1])]
        return [[x * factor for x, factor in zip(step, factors, strict=True)] for step in series]

    def quantisation(self, series: Array) -> list[Any]:
        return [[round(x / self.strength) * self.strength for x in step] for step in series]


def test_every_type_has_constants_a_function_and_a_reference_and_no_name_of_an_image_corruption() -> None:
    assert set(STRENGTHS) == set(SERIES_TYPES)
    assert all(hasattr(Reference, kind) for kind in STRENGTHS)
    # Means over a family leave out what is not one of ImageNet-C's types where there is any of these.
    assert not set(STRENGTHS) & {*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS}
    assert all(list(strengths) == sorted(set(strengths)) for strengths in STRENGTHS.values())


@every_type
@pytest.mark.parametrize("severity", [1, 5])
def test_it_is_what_the_reference_makes_of_each_series_alone(kind: str, severity: int) -> None:
    declaration, batch = SeriesCorruption(type=kind, severity=severity), series_batch(scale=2.0)
    result = corrupted(declaration, batch)
    for row, length in enumerate(LENGTHS):
        series = batch.inputs[row, :length].double().numpy()
        wanted = getattr(Reference(row, STRENGTHS[kind][severity - 1]), kind)(series)
        np.testing.assert_allclose(result[row, :length].numpy(), np.array(wanted), rtol=1e-6, atol=1e-6)


@every_type
def test_severities_move_series_further(kind: str) -> None:
    batch = series_batch([40] * 60, 40, scale=2.0)
    distances = [
        float(
            (corrupted(SeriesCorruption(type=kind, severity=each), batch) - batch.inputs).flatten(1).norm(dim=1).mean()
        )
        for each in range(1, 6)
    ]
    assert distances[0] > 0
    assert distances == sorted(set(distances))


def padding_moved(declaration: SeriesCorruption) -> bool:
    batch = series_batch()
    return bool((corrupted(declaration, batch) != batch.inputs)[is_padding(batch)].any())


def depends_on_others(declaration: SeriesCorruption) -> bool:
    """Whether a series has other bytes alone, in another order, or beside a longer one."""
    batch, order = series_batch(), [4, 0, 3, 5, 1, 2]
    whole = corrupted(declaration, batch)
    shuffled = replace(batch, inputs=batch.inputs[order])
    if not torch.equal(corrupted(declaration, shuffled, order), whole[order]):
        return True
    longer = corrupted(declaration, series_batch(num_steps=20))
    if not torch.equal(longer[:, : whole.shape[1]], whole):
        return True
    return any(
        not torch.equal(
            corrupted(declaration, replace(batch, ids=("one",), inputs=batch.inputs[[row], :length]), [row])[0],
            whole[row, :length],
        )
        for row, length in enumerate(LENGTHS)
    )


@every_type
@pytest.mark.parametrize("severity", [1, 5])
def test_padding_stays_and_a_series_depends_on_itself_alone(kind: str, severity: int) -> None:
    declaration = SeriesCorruption(type=kind, severity=severity)
    assert not padding_moved(declaration)
    assert not depends_on_others(declaration)


def test_draws_of_the_batch_in_place_of_the_example_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    place = iter(range(1000))
    monkeypatch.setattr(algorithms, "noise", lambda series, strength, draws: series + next(place))
    assert depends_on_others(SeriesCorruption(type="noise", severity=1))


@every_type
def test_it_keeps_what_every_corruption_promises(kind: str) -> None:
    check_corruption(SeriesCorruption(type=kind, severity=3))


@every_type
def test_threads_change_no_byte(kind: str) -> None:
    declaration, batch = SeriesCorruption(type=kind, severity=3), series_batch()
    result, threads = corrupted(declaration, batch), torch.get_num_threads()
    try:
        torch.set_num_threads(3 - min(threads, 2))
        assert torch.equal(corrupted(declaration, batch), result)
    finally:
        torch.set_num_threads(threads)


def test_what_is_no_series_is_refused() -> None:
    declaration = SeriesCorruption(type="noise", severity=1)
    with pytest.raises(ContractError, match=r"'noise' needs series \(time, channels\), got \(3, 4, 4\)"):
        corrupted(declaration, Batch(ids=("a",), inputs=torch.zeros(1, 3, 4, 4), targets=torch.zeros(1).long()))
    ((_, message),) = declaration.problems_on(DATASETS["digits"])
    assert message == "must be no corruption of series on digits, whose inputs are of the domain images"
    assert declaration.problems_on(DATASETS["japanese-vowels"]) == []
