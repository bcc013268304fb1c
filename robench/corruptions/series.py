"""Declaration of corruptions of time series: nine types at five severities, made on the fly.

Strengths are constants of robench, since no published set of corrupted series exists. They are in deviations of the
training set, the unit of the domain, or in proportions of a series' own length, so that they apply to any dataset.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from robench.corruptions import SERIES_TYPES
from robench.corruptions.corruption import CorruptionBase
from robench.domains.series import SERIES

# By type, from the weakest severity to the strongest.
STRENGTHS: Mapping[str, tuple[float, float, float, float, float]] = {
    # Standard deviation of Gaussian noise, in deviations.
    "noise": (0.1, 0.2, 0.35, 0.55, 0.8),
    # Root mean square of a smooth baseline, in deviations.
    "drift": (0.15, 0.3, 0.5, 0.75, 1.0),
    # Probability with which a step repeats the one before.
    "sample_dropout": (0.1, 0.2, 0.35, 0.5, 0.7),
    # Proportion of the channels that are 0, the mean of the training set.
    "channel_dropout": (0.1, 0.2, 0.3, 0.45, 0.6),
    # Probability with which a value is moved by SPIKE deviations.
    "spikes": (0.01, 0.02, 0.04, 0.07, 0.12),
    # Largest change of the speed of time, as a proportion of it.
    "time_warp": (0.2, 0.35, 0.5, 0.7, 0.9),
    # Shift, as a proportion of the length.
    "time_shift": (0.02, 0.05, 0.1, 0.15, 0.25),
    # Standard deviation of the logarithm of a channel's factor.
    "gain": (0.1, 0.2, 0.35, 0.5, 0.7),
    # Distance of two levels, in deviations.
    "quantisation": (0.25, 0.5, 1.0, 1.5, 2.5),
}
SPIKE = 4.0

if TYPE_CHECKING:
    TypeName = str
else:
    # Choices at run time, for reading declarations from YAML.
    TypeName = Literal[tuple(SERIES_TYPES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesCorruption(CorruptionBase):
    """Corruption of time series at one severity; padding stays as it is.

    Attributes:
        type: one of ``robench.corruptions.SERIES_TYPES``.
        severity: 1 (weak) to 5 (strong).
    """

    kind: ClassVar[str] = "series-corruption"
    implementation: ClassVar[str] = "robench.corruptions.series_impl:corrupt"
    types: ClassVar[Collection[str]] = SERIES_TYPES
    domain: ClassVar[str] = SERIES.name

    type: TypeName

    @property
    def strength(self) -> float:
        """Return the constant of type and severity."""
        return STRENGTHS[self.type][self.severity - 1]

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why the corruption cannot be applied to inputs of a shape: they have no axis of time and channels."""
        if len(shape) == len(SERIES.axes):
            return ""
        return f"corruption {self.type!r} needs series (time, channels), got {shape}"
