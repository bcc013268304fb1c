"""Declaration of the domain of time series: (T, C) float32, standardised, padded on the right."""

from fractions import Fraction

from robench.domains.base import CHANNELS, Domain

SERIES = Domain(
    name="series",
    title="Time series (T, C), float32, standardised by the training set",
    implementation="robench.domains.series_impl:PaddedSeries",
    axes=("time", CHANNELS),
    is_real_valued=True,
    unit="deviation",
    is_padded=True,
    shown_as="lines",
    audit_epsilon=Fraction(1, 10),
)
