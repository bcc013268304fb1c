"""Declarations of the ten sets of the UEA archive of time series that the papers measure, and of BasicMotions."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.datasets.base import TEST_SPLIT, DatasetBase
from robench.declarations.base import LARGEST
from robench.domains.series import SERIES

TRAIN_SPLIT = "train"
# Sets whose files a Python package holds (``published.py``), so that they are downloaded without an archive.
PACKAGED = ("japanese-vowels", "basic-motions")
_SOURCE = "UEA multivariate time series archive, Bagnall et al. 2018, arXiv:1811.00075"


@dataclass(frozen=True, slots=True, kw_only=True)
class UeaSet(DatasetBase):
    """Declaration of a set of the UEA archive, in its files ``PROBLEM_TRAIN.ts`` and ``PROBLEM_TEST.ts``.

    Series are standardised, channel by channel, by mean and standard deviation over all steps of the training split;
    missing values are interpolated linearly before that.

    Attributes:
        problem: its name in the archive.
        num_channels: number of channels; ``num_steps``: length of the longest series of both splits.
        sha256s: splits with the SHA-256 of their published files; those of another split are not checked.
    """

    implementation: ClassVar[str] = "robench.datasets.uea_impl:open_series"

    problem: str
    num_channels: Annotated[int, Ge(1), Le(LARGEST)]
    num_steps: Annotated[int, Ge(1), Le(LARGEST)]
    sha256s: tuple[tuple[str, str], ...] = ()

    def file_of(self, split: str) -> str:
        """Return the name of a split's file."""
        return f"{self.problem}_{split.upper()}.ts"


# Name, name in the archive, training and test series, longest series in steps, channels, classes.
_TABLE: tuple[tuple[str, str, int, int, int, int, int], ...] = (
    ("ethanol-concentration", "EthanolConcentration", 261, 263, 1751, 3, 4),
    ("face-detection", "FaceDetection", 5890, 3524, 62, 144, 2),
    ("handwriting", "Handwriting", 150, 850, 152, 3, 26),
    ("heartbeat", "Heartbeat", 204, 205, 405, 61, 2),
    ("japanese-vowels", "JapaneseVowels", 270, 370, 29, 12, 9),
    ("pems-sf", "PEMS-SF", 267, 173, 144, 963, 7),
    ("self-regulation-scp1", "SelfRegulationSCP1", 268, 293, 896, 6, 2),
    ("self-regulation-scp2", "SelfRegulationSCP2", 200, 180, 1152, 7, 2),
    ("spoken-arabic-digits", "SpokenArabicDigits", 6599, 2199, 93, 13, 10),
    ("uwave-gesture-library", "UWaveGestureLibrary", 120, 320, 315, 3, 8),
    ("basic-motions", "BasicMotions", 40, 40, 100, 6, 4),
)
# SHA-256 of the files of the training and the test split, where they are known.
_SHA256S = {
    "japanese-vowels": (
        "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd",
        "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462",
    ),
    "uwave-gesture-library": (
        "e1d656037ceb880fe3d4ef7f83f2ee38459897ebaaada93527a17a86823bc92d",
        "734b30171297cc4c209485020466d83dabd2b7ecf76edc10957354f2557d0964",
    ),
    "basic-motions": (
        "8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6",
        "79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc",
    ),
}
UEA_SETS = tuple(
    UeaSet(
        name=name,
        title=f"{problem}: series of {num_channels} channels and up to {num_steps:,} steps",
        task="classification",
        domain=SERIES.name,
        num_classes=num_classes,
        num_examples=test,
        num_training_examples=train,
        source=_SOURCE,
        licence="as stated by the donors of each set",
        folder=problem,
        splits=(TEST_SPLIT, TRAIN_SPLIT),
        problem=problem,
        num_channels=num_channels,
        num_steps=num_steps,
        sha256s=tuple(zip((TRAIN_SPLIT, TEST_SPLIT), _SHA256S.get(name, ()), strict=False)),
    )
    for name, problem, train, test, num_steps, num_channels, num_classes in _TABLE
)
