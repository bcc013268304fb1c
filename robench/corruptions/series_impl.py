"""Corruptions of time series: noise, drift, dropout, spikes, warped and shifted time, gain and quantisation.

Each function takes one series (T, C) without its padding, in float64, the strength of the declared severity, and the
draws of that example; it returns the corrupted series. Severities share their draws, and numbers are drawn step by
step, so that a longer padding changes nothing. Everything is computed on the CPU, element by element or in an order of
its own, so that neither the batch nor the device nor the number of threads changes a byte.

Source: definitions and strengths are robench's own. Similar changes are used for data augmentation: noise, scaling and
time warping by Um et al. 2017, arXiv:1706.00527; drift, dropout and quantisation by the library tsaug.
"""

from collections.abc import Callable
from math import pi, sqrt

import torch
from torch import Tensor

from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.seeds import Stream
from robench.corruptions import SERIES_TYPES
from robench.corruptions.series import SPIKE, SeriesCorruption
from robench.declarations.base import imported
from robench.domains.series import SERIES

SeriesFunction = Callable[[Tensor, float, Draws], Tensor]

# Half waves of a drift beside its constant, and of a warp.
NUM_WAVES = 3


def corrupt(declaration: SeriesCorruption, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return series (B, T, C) with the corruption; steps of padding are those of the batch.

    Raises:
        ContractError: inputs are not series.
    """
    if problem := declaration.problem_with_shape(tuple(batch.inputs.shape[1:])):
        raise ContractError(problem)
    function: SeriesFunction = imported(SERIES_TYPES[declaration.type])
    inputs = batch.inputs.detach().cpu()
    valid = SERIES.rules.valid(inputs)
    lengths = [inputs.shape[1]] * len(inputs) if valid is None else valid.sum(1).tolist()
    result = inputs.clone()
    for row, length in enumerate(lengths):
        series = inputs[row, :length].double()
        result[row, :length] = function(series, declaration.strength, draws.take([row])).float()
    return Perturbed(inputs=result.to(batch.inputs.device))


def noise(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x + strength z with independent standard normal numbers z."""
    return series + strength * _normal(draws, "noise", series.shape)


def drift(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x + strength b(u), where b is a sum of half waves z_k cos(pi k u), k = 0 to 3, of mean square 1.

    u goes from 0 to 1 over the series, and z are standard normal numbers of each channel.
    """
    weights = _normal(draws, "drift", (1 + NUM_WAVES, series.shape[1]))
    baseline = torch.zeros_like(series)
    for wave, weight in enumerate(weights):
        baseline = baseline + torch.cos(pi * wave * _times(len(series)))[:, None] * weight
    return series + strength / sqrt(1 + NUM_WAVES / 2) * baseline


def sample_dropout(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x with steps that repeat the one before, each with the probability ``strength``; the first one stays."""
    places = torch.arange(len(series))
    is_kept = (_uniform(draws, "sample_dropout", (len(series),)) >= strength) | (places == 0)
    return series[torch.where(is_kept, places, 0).cummax(0).values]


def channel_dropout(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x with some channels 0: strength times their number, rounded at random so that the mean is exact."""
    num_channels = series.shape[1]
    drawn = _uniform(draws, "channel_dropout", (1 + num_channels,))
    count = int(strength * num_channels + float(drawn[0]))
    result = series.clone()
    result[:, drawn[1:].argsort(stable=True)[:count]] = 0.0
    return result


def spikes(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x with values moved up or down by ``SPIKE`` deviations, each with the probability ``strength``."""
    is_hit = _uniform(draws, "spikes", series.shape) < strength
    signs = draws.signs(Stream(purpose="spikes_sign"), series.shape)[0].cpu().double()
    return torch.where(is_hit, series + SPIKE * signs, series)


def time_warp(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x at the times u + strength sum_k w_k sin(pi k u) / (pi k), k = 1 to 3, between the same ends.

    The absolute values of w add up to 1, so that time never runs backwards below a strength of 1. Values between two
    steps are interpolated linearly.
    """
    weights = 2.0 * _uniform(draws, "time_warp", (NUM_WAVES,)) - 1.0
    total = sum(abs(float(weight)) for weight in weights)
    times = torch.arange(len(series), dtype=torch.float64) / max(len(series) - 1, 1)
    moved = times
    for wave, weight in enumerate(weights, start=1):
        moved = moved + strength * float(weight) / total / (pi * wave) * torch.sin(pi * wave * times)
    return _at(series, moved * (len(series) - 1))


def time_shift(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x earlier or later by strength times its length, with its first or last step repeated.

    Shifts by a part of a step interpolate linearly.
    """
    sign = float(draws.signs(Stream(purpose="time_shift"), (1,)))
    return _at(series, torch.arange(len(series), dtype=torch.float64) + sign * strength * len(series))


def gain(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return x times exp(strength z), with a standard normal number z of each channel."""
    return series * torch.exp(strength * _normal(draws, "gain", (series.shape[1],)))


def quantisation(series: Tensor, strength: float, draws: Draws) -> Tensor:
    """Return the nearest multiples of ``strength``."""
    return (series / strength).round() * strength


def _normal(draws: Draws, purpose: str, shape: tuple[int, ...]) -> Tensor:
    return draws.normal(Stream(purpose=purpose), shape)[0].cpu().double()


def _uniform(draws: Draws, purpose: str, shape: tuple[int, ...]) -> Tensor:
    return draws.uniform(Stream(purpose=purpose), shape)[0].cpu().double()


def _times(num_steps: int) -> Tensor:
    """Return the middles of equal parts of [0, 1], (T,)."""
    return (torch.arange(num_steps, dtype=torch.float64) + 0.5) / num_steps


def _at(series: Tensor, places: Tensor) -> Tensor:
    """Return a series (T, C) at places (T,) counted in steps, by linear interpolation; the ends are repeated."""
    places = places.clamp(0, len(series) - 1)
    before = places.floor().long()
    after = (before + 1).clamp(max=len(series) - 1)
    part = (places - before)[:, None]
    return series[before] * (1.0 - part) + series[after] * part
