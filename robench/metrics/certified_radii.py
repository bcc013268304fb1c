"""Radii within which a smoothed model provably keeps its class, and answers of the model that contradict them.

Source: Cohen et al. 2019, arXiv:1902.02918, theorem 1 and algorithm CERTIFY. Where a class has the probability p > 1/2
under Gaussian noise of standard deviation sigma, the smoothed model answers it everywhere within the l2 distance
sigma * Phi^-1(p). In place of p there is its lower bound by Clopper and Pearson 1934, which is wrong with a probability
of at most alpha. The proof is about l2 alone, and about the smoothed model, not the model under the noise.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robench.core.flags import CONTRADICTED, Flag
from robench.metrics.sanity import P_VALUE


def contradicted(radius: ArrayLike, distance: ArrayLike, differs: ArrayLike, alpha: float, what: str) -> Flag:
    """Return whether more certificates are contradicted by other inputs than may be wrong by chance.

    Of each example (N,) that has a certificate: its ``radius``, the l2 ``distance`` of another input, and whether the
    model certainly answers another class there (``differs``). Each of the two answers is wrong with a probability of at
    most ``alpha``.
    """
    from scipy.special import bdtrc  # type: ignore[import-untyped]  # scipy has no types

    wrong = int(((np.asarray(distance) <= np.asarray(radius)) & np.asarray(differs)).sum())
    num_examples, limit = np.size(radius), min(1.0, 2 * alpha)
    p_value = float(bdtrc(wrong - 1, num_examples, limit)) if wrong else 1.0
    return Flag(
        name=CONTRADICTED,
        source="Cohen et al. 2019, theorem 1",
        value=wrong / max(1, num_examples),
        limit=limit,
        is_raised=p_value < P_VALUE,
        finding=f"{what}: {wrong} of {num_examples} certified examples have another class within their radius",
        advice="a certificate is wrong: check that the model is a function of each input alone, and report it",
    )


def least_probability(num_votes: ArrayLike, num_draws: int, alpha: float) -> NDArray[np.float64]:
    """Return the lower bound of Clopper and Pearson of a probability that ``num_votes`` of the draws show.

    It is one-sided: above the probability in at most a proportion ``alpha`` of cases.

    >>> least_probability([0, 990], 1000, 0.001).round(4).tolist()
    [0.0, 0.976]
    """
    from scipy.special import betaincinv

    votes = np.asarray(num_votes, np.float64)
    found = betaincinv(np.maximum(votes, 1), num_draws - votes + 1, alpha)
    return np.where(votes > 0, found, 0.0)


def certified_radius(probability: ArrayLike, sigma: float) -> NDArray[np.float64]:
    """Return the l2 radius that a lower bound of a class's probability certifies; 0 up to 1/2.

    >>> certified_radius([0.5, 0.99], 0.25).round(4).tolist()
    [0.0, 0.5816]
    """
    from scipy.special import ndtri

    radius: NDArray[np.float64] = np.maximum(0.0, sigma * ndtri(np.asarray(probability, np.float64)))
    return radius
