"""Reference models of corruption errors by family of corruptions, and the types averaged in means.

A mean is over the fifteen types of ImageNet-C, even if a suite has others; over the others if it has none of the
fifteen (``mean_corruption_error`` and ``mean_error`` of imagenet-c-extra).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.metrics.alexnet import ALEXNET
from robench.metrics.digits_vit import DIGITS_VIT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from robench.metrics.reference_errors import ReferenceErrors

# By family of corruptions.
REFERENCES: Mapping[str, ReferenceErrors] = {
    "imagenet-c": ALEXNET,
    "imagenet-c-live": ALEXNET,
    "digits-c": DIGITS_VIT,
}


def averaged_types(types: Collection[str]) -> tuple[str, ...]:
    """Return the types of corruption that a mean averages, for a suite with some of ``types``.

    These are the 15 types of ImageNet-C as published, or the 4 extra ones; other types are averaged only if there are
    no published ones.

    >>> len(averaged_types(["snow", "spatter"])), averaged_types(["spatter"])
    (15, ('speckle_noise', 'gaussian_blur', 'spatter', 'saturate'))
    """
    for published in (COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS):
        if any(each in published for each in types):
            return published
    return tuple(sorted(types))
