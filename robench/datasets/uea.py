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


def _uea(
    name: str,
    problem: str,
    *,
    sizes: tuple[int, int],
    num_steps: int,
    num_channels: int,
    num_classes: int,
    sha256s: tuple[tuple[str, str], ...] = (),
) -> UeaSet:
    train, test = sizes
    return UeaSet(
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
        sha256s=sha256s,
    )


UEA_SETS: tuple[UeaSet, ...] = (
    _uea(
        "ethanol-concentration",
        "EthanolConcentration",
        sizes=(261, 263),
        num_steps=1751,
        num_channels=3,
        num_classes=4,
    ),
    _uea("face-detection", "FaceDetection", sizes=(5890, 3524), num_steps=62, num_channels=144, num_classes=2),
    _uea("handwriting", "Handwriting", sizes=(150, 850), num_steps=152, num_channels=3, num_classes=26),
    _uea("heartbeat", "Heartbeat", sizes=(204, 205), num_steps=405, num_channels=61, num_classes=2),
    _uea(
        "japanese-vowels",
        "JapaneseVowels",
        sizes=(270, 370),
        num_steps=29,
        num_channels=12,
        num_classes=9,
        sha256s=(
            (TRAIN_SPLIT, "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd"),
            (TEST_SPLIT, "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462"),
        ),
    ),
    _uea("pems-sf", "PEMS-SF", sizes=(267, 173), num_steps=144, num_channels=963, num_classes=7),
    _uea(
        "self-regulation-scp1",
        "SelfRegulationSCP1",
        sizes=(268, 293),
        num_steps=896,
        num_channels=6,
        num_classes=2,
    ),
    _uea(
        "self-regulation-scp2",
        "SelfRegulationSCP2",
        sizes=(200, 180),
        num_steps=1152,
        num_channels=7,
        num_classes=2,
    ),
    _uea(
        "spoken-arabic-digits", "SpokenArabicDigits", sizes=(6599, 2199), num_steps=93, num_channels=13, num_classes=10
    ),
    _uea(
        "uwave-gesture-library",
        "UWaveGestureLibrary",
        sizes=(120, 320),
        num_steps=315,
        num_channels=3,
        num_classes=8,
        sha256s=(
            (TRAIN_SPLIT, "e1d656037ceb880fe3d4ef7f83f2ee38459897ebaaada93527a17a86823bc92d"),
            (TEST_SPLIT, "734b30171297cc4c209485020466d83dabd2b7ecf76edc10957354f2557d0964"),
        ),
    ),
    _uea(
        "basic-motions",
        "BasicMotions",
        sizes=(40, 40),
        num_steps=100,
        num_channels=6,
        num_classes=4,
        sha256s=(
            (TRAIN_SPLIT, "8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6"),
            (TEST_SPLIT, "79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc"),
        ),
    ),
)
