"""Reference models of corruption errors by family of corruptions, and the types that a mean is over.

A mean is over the fifteen types of ImageNet-C, whatever others a suite has beside them; over the others where it has
none of the fifteen (``mean_corruption_error`` and ``mean_error`` of imagenet-c-extra).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.declarations.imagenet_c import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
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
    """Return the types of corruption that a mean is over, where a suite has some of ``types``.

    Those of ImageNet-C as published, 15 or the 4 extra ones; types that it does not have are averaged where there are
    no others.

    >>> len(averaged_types(["snow", "spatter"])), averaged_types(["spatter"])
    (15, ('speckle_noise', 'gaussian_blur', 'spatter', 'saturate'))
    """
    for published in (COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS):
        if any(each in published for each in types):
            return published
    return tuple(sorted(types))
