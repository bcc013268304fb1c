"""Noise has the moments that its constants say, and Poisson counts are exact quantiles."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.noise_impl import (
    GAUSSIAN,
    IMPULSE,
    SHOT,
    SPECKLE,
    gaussian_noise,
    impulse_noise,
    poisson_quantiles,
    shot_noise,
    speckle_noise,
)
from robench.perturbations.draws import ExampleDraws

LEVEL = 128.0
COUNT = 3 * 160 * 160
EVERY_STRENGTH = [(constants, severity) for constants in ("imagenet", "cifar") for severity in range(1, 6)]
every_strength = pytest.mark.parametrize(("constants", "severity"), EVERY_STRENGTH)


def asked(kind: Any, constants: Any, severity: int) -> tuple[Corruption, ExampleDraws]:
    return Corruption(type=kind, severity=severity, constants=constants), ExampleDraws([severity])


def grey(level: float = LEVEL) -> torch.Tensor:
    return torch.full((1, 3, 160, 160), level)


@every_strength
def test_gaussian_noise_has_no_mean_and_its_deviation_at_every_level(constants: str, severity: int) -> None:
    deviation = 255.0 * GAUSSIAN[constants][severity - 1]
    for level in (0.0, LEVEL):
        noise = gaussian_noise(grey(level), *asked("gaussian_noise", constants, severity)).double() - level
        assert abs(float(noise.mean())) < 4 * deviation / COUNT**0.5
        assert float(noise.std()) == pytest.approx(deviation, rel=4 / (2 * COUNT) ** 0.5)


@every_strength
def test_speckle_noise_grows_with_the_level(constants: str, severity: int) -> None:
    noise = speckle_noise(grey(), *asked("speckle_noise", constants, severity)).double() - LEVEL
    deviation = LEVEL * SPECKLE[constants][severity - 1]
    assert abs(float(noise.mean())) < 4 * deviation / COUNT**0.5
    assert float(noise.std()) == pytest.approx(deviation, rel=4 / (2 * COUNT) ** 0.5)
    assert torch.equal(speckle_noise(grey(0.0), *asked("speckle_noise", constants, severity)), grey(0.0))


@every_strength
def test_impulse_noise_makes_its_share_black_or_white_by_halves(constants: str, severity: int) -> None:
    result = impulse_noise(grey(), *asked("impulse_noise", constants, severity))
    share, hit = IMPULSE[constants][severity - 1], result != LEVEL
    assert set(result[hit].tolist()) == {0.0, 255.0}
    assert float(hit.double().mean()) == pytest.approx(share, abs=4 * (share / COUNT) ** 0.5)
    assert float((result[hit] > LEVEL).double().mean()) == pytest.approx(0.5, abs=2 / (share * COUNT) ** 0.5)


def test_impulses_of_a_weak_severity_stay_in_a_strong_one() -> None:
    results = [impulse_noise(grey(), Corruption(type="impulse_noise", severity=s), ExampleDraws([0])) for s in (2, 4)]
    hit = results[0] != LEVEL
    assert torch.equal(results[1][hit], results[0][hit])


@every_strength
def test_shot_noise_has_the_mean_and_the_variance_of_its_photons(constants: str, severity: int) -> None:
    photons = SHOT[constants][severity - 1]
    counts = shot_noise(grey(), *asked("shot_noise", constants, severity)).double() * (photons / 255.0)
    mean = LEVEL / 255.0 * photons
    assert float(counts.mean()) == pytest.approx(mean, abs=4 * (mean / COUNT) ** 0.5)
    assert float(counts.var()) == pytest.approx(mean, rel=6 * (2 / COUNT + 1 / (mean * COUNT)) ** 0.5)


@pytest.mark.parametrize("photons", sorted({*SHOT["imagenet"], *SHOT["cifar"]}))
def test_poisson_counts_are_scipys_quantiles_at_every_level(photons: int) -> None:
    levels = torch.arange(256.0).repeat(40, 1)
    shares = ExampleDraws([photons]).uniform(Stream(purpose="shares"), levels.shape)[0]
    # The ends of what can be drawn, and a share on the edge of the table's cells.
    shares[0], shares[1], shares[2] = 2.0**-24, 1.0 - 2.0**-24, 0.5
    counts = poisson_quantiles(levels, shares, photons)
    wanted = stats.poisson.ppf(shares.double().numpy(), levels.double().numpy() / 255 * photons)
    # Scipy calls the quantile of nothing -1.
    assert np.array_equal(counts.numpy(), np.maximum(wanted, 0.0))


def test_the_share_of_nothing_is_no_more_than_the_smallest_other() -> None:
    levels = torch.arange(256.0)
    none, smallest = (poisson_quantiles(levels, torch.full((256,), share), 60) for share in (0.0, 2.0**-24))
    assert bool((none <= smallest).all())
