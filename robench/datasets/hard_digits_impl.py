"""Opener of ``digits-a``, the test digits that weak classifiers misclassify, unchanged.

Analogue of ImageNet-A (Hendrycks et al. 2021, arXiv:1907.07174: photographs that a ResNet-50 misclassifies). Four weak
classifiers are trained on the training digits; an image counts as hard if at least two of them are wrong. Their
mistakes are specific: a model that learns differently need not share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from sklearn.linear_model import RidgeClassifier  # type: ignore[import-untyped]  # scikit-learn ships no types
from sklearn.naive_bayes import BernoulliNB, MultinomialNB  # type: ignore[import-untyped]
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

from robench.datasets.digits import DIGITS_A
from robench.datasets.digits_impl import enlarge, split_scans
from robench.datasets.in_memory import InMemoryImages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from robench.datasets.digits_impl import Scan

MIN_MISTAKES: Final = 2


def hard_digits() -> InMemoryImages:
    """Return ``digits-a``."""
    test = split_scans("test")
    hard = [
        scan for scan, wrong in zip(test, mistakes(split_scans("train"), test), strict=True) if wrong >= MIN_MISTAKES
    ]
    enlarged = enlarge(np.stack([scan.pixels for scan in hard]))
    return InMemoryImages(
        DIGITS_A.name,
        {scan.id: scan.target for scan in hard},
        {scan.id: pixels[None] for scan, pixels in zip(hard, enlarged, strict=True)},
    )


def mistakes(train: Sequence[Scan], test: Sequence[Scan]) -> NDArray[np.int64]:
    """Return the number (N,) of weak classifiers trained on ``train`` that misclassify each of ``test``."""
    inputs, targets = _table(train)
    questions, answers = _table(test)
    classifiers = (
        BernoulliNB(binarize=8),
        MultinomialNB(),
        RidgeClassifier(),
        DecisionTreeClassifier(random_state=0),
    )
    wrong = [classifier.fit(inputs, targets).predict(questions) != answers for classifier in classifiers]
    counts: NDArray[np.int64] = np.sum(wrong, axis=0, dtype=np.int64)
    return counts


def _table(scans: Sequence[Scan]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return np.stack([scan.pixels.ravel() for scan in scans]), np.array([scan.target for scan in scans])
