"""Declarations of sequences of tokens: the five tasks of Long-Range Arena, and small embedded sets of the same kinds.

Source: Tay et al. 2020, arXiv:2011.04006. Token 0 is padding, grey level g and byte b are the tokens g + 1 and b + 1.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.datasets.base import TEST_SPLIT, SizedSplits
from robench.datasets.cifar import CIFAR_10, PublishedCifar
from robench.datasets.digits import DIGITS
from robench.datasets.published_texts import IMDB, ReviewFolders
from robench.datasets.sotu import SOTU_ERAS
from robench.declarations.base import LARGEST
from robench.domains.listops import VOCABULARY
from robench.domains.tokens import TOKENS

TRAIN_SPLIT = "train"
VALIDATION_SPLIT = "validation"
_SPLITS = (TRAIN_SPLIT, VALIDATION_SPLIT, TEST_SPLIT)
_ARENA = "Long-Range Arena, Tay et al. 2020, arXiv:2011.04006"
# Padding and 256 bytes or grey levels.
_BYTES = 257
# As the published archive unpacks: its two outer folders have one name.
_RELEASE = "lra_release/lra_release"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSet(SizedSplits):
    """Base of the declarations of sequences of tokens.

    Attributes:
        length: number of positions of a sequence; shorter sequences are padded on the right, longer texts cut.
        vocabulary_size: number of different tokens, 0 to ``vocabulary_size - 1``; 0 is padding.
        vocabulary: text of each token from 1 on; empty for bytes and grey levels.
        is_paired: whether an input is a pair of sequences (2, ``length``).
        sha256s: SHA-256 of each split, in the order of ``splits``, which a split must have; empty if unknown.
        reader: ``module:name`` of the function ``(declared, data_root, split)`` that returns ``TokenRows``; empty
            where ``implementation`` opens the dataset otherwise.
    """

    implementation: ClassVar[str] = "robench.datasets.tokens_impl:open_tokens"

    task: str = "classification"
    domain: str = TOKENS.name
    splits: tuple[str, ...] = _SPLITS
    length: Annotated[int, Ge(1), Le(LARGEST)]
    vocabulary_size: Annotated[int, Ge(2), Le(LARGEST)] = _BYTES
    vocabulary: tuple[str, ...] = ()
    is_paired: bool = False
    sha256s: tuple[str, ...] = ()
    reader: str = ""

    def sha256_of(self, split: str) -> str | None:
        """Return the SHA-256 of a split; None if unknown."""
        return self.sha256s[self.splits.index(split)] if self.sha256s else None

    @property
    def known_fingerprint(self) -> str | None:
        """Return the fingerprint of the evaluation split; None if unknown."""
        return self.sha256_of(self.evaluation_split)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOps(TokenSet):
    """Declaration of generated expressions of ListOps, whose class is their value; see ``listops_impl``.

    Attributes:
        seed: seed of the generator.
        max_depth: largest number of nested expressions, a digit included.
        max_args: largest number of arguments of an operator; the smallest is two.
        min_length, max_length: smallest and largest number of tokens.
    """

    vocabulary_size: Annotated[int, Ge(2), Le(LARGEST)] = len(VOCABULARY) + 1
    vocabulary: tuple[str, ...] = VOCABULARY
    seed: Annotated[int, Ge(0), Le(2**63)]
    max_depth: Annotated[int, Ge(2), Le(20)]
    max_args: Annotated[int, Ge(2), Le(100)]
    min_length: Annotated[int, Ge(4), Le(LARGEST)]
    max_length: Annotated[int, Ge(4), Le(LARGEST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GreyCifar(TokenSet):
    """Declaration of images of CIFAR as sequences of grey levels, row by row, with the ids of the images.

    Attributes:
        images: dataset of the images; its training split, in the published order, has the sizes of ``train`` and
            ``validation`` together.
    """

    images: PublishedCifar


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewBytes(TokenSet):
    """Declaration of reviews as sequences of the bytes of their files, with the ids of the reviews.

    Attributes:
        reviews: dataset of the reviews.
    """

    reviews: ReviewFolders


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPairs(TokenSet):
    """Declaration of pairs of documents as bytes, in tables with tabs ``PREFIX.PART.tsv``: class, two ids, two texts.

    Attributes:
        files: name of the table of each split, in the order of ``splits``.
    """

    files: tuple[str, ...]

    def path_of(self, split: str) -> str:
        """Return the path of a split's table below the data root."""
        self.check_split(split)
        return f"{self.folder}/{self.files[self.splits.index(split)]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pathfinder(TokenSet):
    """Declaration of Pathfinder's images as sequences of grey levels, row by row: PNG files listed in ``metadata``.

    Examples are those of the files of metadata by their numbers, line by line; splits follow each other.

    Attributes:
        side: height and width of an image in pixels.
    """

    implementation: ClassVar[str] = "robench.datasets.pathfinder_impl:open_pathfinder"

    side: Annotated[int, Ge(1), Le(4096)]


LISTOPS = ListOps(
    name="listops",
    title="ListOps: nested operations on digits, of 501 to 1,999 tokens; the class is the value",
    num_classes=10,
    num_examples=2_000,
    num_training_examples=96_000,
    source=f"generated by robench with the grammar of Nangia & Bowman 2018, arXiv:1804.06028, as in {_ARENA}",
    licence="made by robench",
    folder="listops",
    length=2_000,
    sizes=(96_000, 2_000, 2_000),
    sha256s=(
        "851bdf5e6a6b720cc4880e5e324193804cfc09a808f1acdec76b82291e067cee",
        "6155aeb6a8782bdbae8ec87394c2892d7a8dc6344f143d1edcb377fc49af8a14",
        "abffeb2b790e2f3090e35d1c006affadf43dd3c269a4da86f7c7c34fcfa94af2",
    ),
    reader="robench.datasets.listops_impl:read_prepared",
    seed=20_201_108,
    max_depth=10,
    max_args=10,
    min_length=501,
    max_length=1_999,
)
LISTOPS_SHORT = replace(
    LISTOPS,
    name="listops-short",
    title="ListOps, short: nested operations on digits, of 8 to 64 tokens; the class is the value",
    num_examples=1_000,
    num_training_examples=20_000,
    folder=None,
    length=64,
    sizes=(20_000, 1_000, 1_000),
    sha256s=(
        "935f4cd16c8d1fc34931f7ac919d96dc414479d5d530c3d38490c36b7b128c74",
        "f57be91b8acedd1fd14cd369ee21df0c85743dbac3c020af14ae71b133c49547",
        "a99d7ff83bb18339bb70a3c4f147cdc6a0af2c873258218ed70573ea7763663b",
    ),
    reader="robench.datasets.listops_impl:made",
    seed=20_180_418,
    max_depth=4,
    min_length=8,
    max_length=64,
)
DIGITS_PIXELS = TokenSet(
    name="digits-pixels",
    title="Handwritten digits, 8x8 scans as sequences of 64 grey levels",
    num_classes=10,
    num_examples=DIGITS.num_examples,
    num_training_examples=DIGITS.num_training_examples,
    source=DIGITS.source,
    licence=DIGITS.licence,
    splits=DIGITS.splits,
    length=64,
    vocabulary_size=18,
    sizes=(1_197, 600),
    reader="robench.datasets.tokens_impl:digits_pixels",
)
SOTU_BYTES = TokenSet(
    name="sotu-bytes",
    title="Paragraphs of State of the Union addresses, of six eras, as their first 256 bytes",
    num_classes=6,
    num_examples=SOTU_ERAS.num_examples,
    num_training_examples=7_155,
    source=SOTU_ERAS.source,
    licence=SOTU_ERAS.licence,
    length=256,
    sizes=(7_155, 599, 596),
    reader="robench.datasets.tokens_impl:sotu_bytes",
)
LRA_IMAGE = GreyCifar(
    name="lra-image",
    title="CIFAR-10 as sequences of 1,024 grey levels",
    num_classes=10,
    num_examples=10_000,
    num_training_examples=45_000,
    source=f"{CIFAR_10.source}; as in {_ARENA}",
    licence=CIFAR_10.licence,
    folder=CIFAR_10.folder,
    length=1_024,
    sizes=(45_000, 5_000, 10_000),
    sha256s=(
        "9c1ce125246dd0a65771a332a967e761a7cc626fc6bdee688534c61b7c218e24",
        "0938885ea7140504f99f45f4c8e0d07b68fe8b18239e5cf14a99195438c0f657",
        "e5642024c3b947e0f3796ae3e2d946a87bcfcda4006a4dfda306a0a8e9a576ea",
    ),
    reader="robench.datasets.tokens_impl:grey_images",
    images=CIFAR_10,
)
LRA_TEXT = ReviewBytes(
    name="lra-text",
    title="IMDb: film reviews, negative (0) or positive (1), as up to 4,000 bytes",
    num_classes=2,
    num_examples=25_000,
    num_training_examples=25_000,
    source=f"{IMDB.source}; as in {_ARENA}",
    licence=IMDB.licence,
    folder=IMDB.folder,
    splits=IMDB.splits,
    length=4_000,
    sizes=IMDB.sizes,
    reader="robench.datasets.tokens_impl:review_bytes",
    reviews=IMDB,
)
LRA_RETRIEVAL = DocumentPairs(
    name="lra-retrieval",
    title="Pairs of papers, one citing the other (1) or not (0), as up to 4,000 bytes each",
    num_classes=2,
    num_examples=17_437,
    num_training_examples=147_086,
    source=f"ACL Anthology Network, Radev et al. 2013; pairs of {_ARENA}",
    licence="not stated",
    folder=f"{_RELEASE}/tsv_data",
    length=4_000,
    is_paired=True,
    sizes=(147_086, 18_090, 17_437),
    reader="robench.datasets.tokens_impl:document_pairs",
    files=tuple(f"new_aan_pairs.{part}.tsv" for part in ("train", "eval", "test")),
)
LRA_PATHFINDER = Pathfinder(
    name="lra-pathfinder",
    title="Pathfinder, 32x32 pixels and contours of 14 dashes: two dots on one path (1) or not (0)",
    num_classes=2,
    num_examples=20_000,
    num_training_examples=160_000,
    source=f"Linsley et al. 2018, arXiv:1805.08315; images of {_ARENA}",
    licence=LRA_RETRIEVAL.licence,
    folder=f"{_RELEASE}/pathfinder32/curv_contour_length_14",
    length=1_024,
    sizes=(160_000, 20_000, 20_000),
    side=32,
)
TOKEN_SETS: tuple[TokenSet, ...] = (
    LISTOPS,
    LISTOPS_SHORT,
    DIGITS_PIXELS,
    SOTU_BYTES,
    LRA_IMAGE,
    LRA_TEXT,
    LRA_RETRIEVAL,
    LRA_PATHFINDER,
)
