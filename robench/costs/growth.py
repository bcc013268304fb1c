"""Growth of costs with the number of tokens: fitted exponents, and predictions that keep within time and memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import linear_regression

# Numbers of tokens that are measured unless others are asked for.
TOKENS = (64, 128, 256, 512, 1024, 2048, 4096)
FEWEST_SIZES = 2
# Lower terms of a cost hide the highest at small sizes, so that a prediction grows at least so fast.
LEAST_EXPONENT, FIRST_EXPONENT = 2.0, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what one size may take: seconds of all its passes, and bytes of the tensors of one."""

    seconds: float
    bytes: float

    def problem(self, tokens: int, seconds: Mapping[int, float], peak_bytes: Mapping[int, float]) -> str | None:
        """Return why a size is not measured, from all passes of smaller sizes and their peaks; None if it may be."""
        wanted = predicted(tokens, peak_bytes)
        if wanted > self.bytes:
            return f"about {wanted / 1e9:.1f} GB predicted, {self.bytes / 1e9:g} GB allowed"
        wanted = predicted(tokens, seconds)
        if wanted > self.seconds:
            return f"about {wanted:,.0f} s predicted, {self.seconds:g} s allowed"
        return None


def predicted(tokens: int, measured: Mapping[int, float]) -> float:
    """Return the cost at a number of tokens, as it grew between the two largest measured ones before; 0 without any.

    It grows at least quadratically, and with the cube after a single size.
    """
    known = sorted(each for each in measured if each < tokens)
    if not known:
        return 0.0
    last = known[-1]
    exponent = FIRST_EXPONENT
    if len(known) > 1 and min(measured[each] for each in known[-2:]) > 0:
        grown = log(measured[last] / measured[known[-2]]) / log(last / known[-2])
        exponent = max(LEAST_EXPONENT, grown)
    return float(measured[last] * (tokens / last) ** exponent)


def larger_half(tokens: Sequence[int]) -> tuple[int, ...]:
    """Return the larger half of the sizes, ascending, and at least two; all of fewer.

    >>> larger_half([64, 128, 256, 512, 1024])
    (256, 512, 1024)
    """
    return tuple(sorted(tokens)[-max(FEWEST_SIZES, (len(tokens) + 1) // 2) :])


def fitted_exponent(measured: Mapping[int, float]) -> float | None:
    """Return b of the least squares of log(cost) = a + b log(tokens) over the larger half of the sizes.

    None for fewer than two sizes, and for costs that are 0.

    >>> round(fitted_exponent({64: 1.0, 128: 5.0, 256: 4.0, 512: 16.0}), 3)
    2.0
    """
    sizes = larger_half(list(measured))
    if len(sizes) < FEWEST_SIZES or any(measured[each] <= 0 for each in sizes):
        return None
    return linear_regression([log(each) for each in sizes], [log(measured[each]) for each in sizes]).slope
