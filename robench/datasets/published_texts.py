"""Declarations of published texts: sentences and reviews with their sentiment, and WikiText for language models.

Numbers of examples are those of Socher et al. 2013 (SST-5: 8,544, 1,101 and 2,210 sentences; 1,821 of the test's are
not neutral), of GLUE (Wang et al. 2019, arXiv:1804.07461: 67,349 phrases and 872 sentences) and of Maas et al. 2011
(25,000 reviews each).

Numbers of tokens and words of WikiText are those of Merity et al. 2016, arXiv:1609.07843, table 1; the end of each
line, ``<eos>``, is a token. The table counts articles too: 60 for test and validation each, 28,475 and 600 for
training. The files mark articles by lines of the form of a title, and some other lines have that form: splits by it
that others published have 62 documents for the test. So the number of examples is left to the files.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.datasets.base import TEST_SPLIT, DatasetBase, SizedSplits
from robench.declarations.base import LARGEST
from robench.domains.texts import TEXTS

_Rating = Annotated[int, Ge(0), Le(100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFiles(SizedSplits):
    """Base of the declarations of labelled texts in published files below the data root.

    Attributes:
        archive: name of the published archive.
        reader: ``module:name`` of the function ``(declared, data_root, split)`` that returns ids, texts and classes in
            the order of the files; ``suffix``: ending of the file of a split, empty for folders.
    """

    implementation: ClassVar[str] = "robench.datasets.sentiment_impl:open_labelled"
    reader: ClassVar[str]
    suffix: ClassVar[str] = ""

    domain: str = TEXTS.name
    folder: str
    archive: str

    def path_of(self, split: str) -> str:
        """Return the path of a split's file or folder below the data root."""
        return f"{self.folder}/{split}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TabbedSentences(LabelledFiles):
    """Declaration of ``SPLIT.tsv``: a header, and for each sentence a row of it, a tab and its class."""

    reader: ClassVar[str] = "robench.datasets.sentiment_impl:read_sentences"
    suffix: ClassVar[str] = ".tsv"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentTrees(LabelledFiles):
    """Declaration of ``SPLIT.txt``: for each sentence a line with its tree, each of whose nodes has a class.

    Attributes:
        is_binary: whether classes 0 and 1 become 0, classes 3 and 4 become 1, and sentences of class 2, which are
            neutral, are left out.
        is_lower_case: whether letters become lower case.
    """

    reader: ClassVar[str] = "robench.datasets.sentiment_impl:read_trees"
    suffix: ClassVar[str] = ".txt"

    is_binary: bool = False
    is_lower_case: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFolders(LabelledFiles):
    """Declaration of ``SPLIT/CLASS/NUMBER_RATING.txt``: a file for each review, equally many of each class.

    Attributes:
        class_folders: names of the folders of the classes, in their order.
        ratings: lowest and highest rating of each class.
    """

    reader: ClassVar[str] = "robench.datasets.sentiment_impl:read_reviews"

    class_folders: tuple[str, ...]
    ratings: tuple[tuple[_Rating, _Rating], ...]


def _of_split(declared: LabelledFiles, split: str, title: str) -> LabelledFiles:
    """Return the dataset of another split of the same files."""
    return replace(
        declared,
        name=f"{declared.name}/{split}",
        title=title,
        num_examples=declared.num_examples_of(split),
        evaluation_split=split,
    )


SST2 = TabbedSentences(
    name="sst2",
    title="SST-2: sentences of film reviews, negative (0) or positive (1), GLUE's development split",
    task="classification",
    num_classes=2,
    num_examples=872,
    source="Socher et al. 2013; files of GLUE, Wang et al. 2019, arXiv:1804.07461",
    licence="not stated",
    folder="SST-2",
    splits=("train", "dev"),
    evaluation_split="dev",
    sizes=(67_349, 872),
    archive="SST-2.zip",
)
SST2_TRAIN = _of_split(SST2, "train", "SST-2, GLUE's training split: phrases and sentences")
SST5 = SentimentTrees(
    name="sst5",
    title="SST-5: sentences of film reviews, very negative (0) to very positive (4), test split",
    task="classification",
    num_classes=5,
    num_examples=2_210,
    source="Socher et al. 2013, Stanford Sentiment Treebank",
    licence=SST2.licence,
    folder="trees",
    splits=("train", "dev", TEST_SPLIT),
    sizes=(8_544, 1_101, 2_210),
    archive="trainDevTestTrees_PTB.zip",
)
SST5_DEV = _of_split(SST5, "dev", "SST-5, development split")
SST5_TRAIN = _of_split(SST5, "train", "SST-5, training split: whole sentences")
SST2_TEST = replace(
    SST5,
    name="sst2/test",
    title="SST-2, the original test split: sentences of SST-5's that are not neutral, in GLUE's form",
    num_classes=2,
    num_examples=1_821,
    splits=(TEST_SPLIT,),
    sizes=(1_821,),
    is_binary=True,
    is_lower_case=True,
)
IMDB = ReviewFolders(
    name="imdb",
    title="IMDb: film reviews, negative (0) or positive (1), test split",
    task="classification",
    num_classes=2,
    num_examples=25_000,
    source="Maas et al. 2011, Large Movie Review Dataset",
    licence="not stated",
    folder="aclImdb",
    splits=("train", TEST_SPLIT),
    sizes=(25_000, 25_000),
    archive="aclImdb_v1.tar.gz",
    class_folders=("neg", "pos"),
    ratings=((1, 4), (7, 10)),
)
IMDB_TRAIN = _of_split(IMDB, "train", "IMDb, training split")
SENTIMENT_SETS = (SST2, SST2_TRAIN, SST2_TEST, SST5, SST5_DEV, SST5_TRAIN, IMDB, IMDB_TRAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles(DatasetBase):
    """Declaration of texts in files as WikiText's, ``wiki.SPLIT.tokens`` or ``wiki.SPLIT.raw``, below the data root.

    Attributes:
        suffix: ending of the files' names: ``tokens`` of the closed vocabulary, or ``raw`` for the words as they were.
        num_tokens: number of tokens of each split, in the order of ``splits``: words, and an end at each line; empty
            if none is published.
        vocabulary_size: number of different tokens of the training split, the end of a line included; None likewise.
        context_tokens: number of tokens before each article that are its context, at most. It is part of the
            fingerprint.
        archive: name of the published archive.
    """

    implementation: ClassVar[str] = "robench.datasets.wikitext_impl:open_tokens"

    domain: str = TEXTS.name
    splits: tuple[str, ...] = ("train", "valid", TEST_SPLIT)
    folder: str
    suffix: Literal["tokens", "raw"] = "tokens"
    num_tokens: tuple[Annotated[int, Ge(1), Le(1000 * LARGEST)], ...] = ()
    vocabulary_size: Annotated[int, Ge(1), Le(LARGEST)] | None = None
    context_tokens: Annotated[int, Ge(0), Le(LARGEST)] = 384
    archive: str

    def num_tokens_of(self, split: str) -> int | None:
        """Return the published number of tokens of a split."""
        self.check_split(split)
        return self.num_tokens[self.splits.index(split)] if self.num_tokens else None

    def path_of(self, split: str) -> str:
        """Return the path of a split's file below the data root."""
        return f"{self.folder}/wiki.{split}.{self.suffix}"


WIKITEXT_103 = TokenFiles(
    name="wikitext-103",
    title="WikiText-103: articles of the English Wikipedia, 103 million tokens for training",
    task="language-modeling",
    source="Merity et al. 2016, arXiv:1609.07843",
    licence="CC BY-SA 3.0",
    folder="wikitext-103",
    num_tokens=(103_227_021, 217_646, 245_569),
    vocabulary_size=267_735,
    archive="wikitext-103-v1.zip",
)
WIKITEXT_103_VALID = replace(
    WIKITEXT_103, name="wikitext-103/valid", title="WikiText-103, validation articles", evaluation_split="valid"
)
WIKITEXT_2 = replace(
    WIKITEXT_103,
    name="wikitext-2",
    title="WikiText-2: WikiText-103 with 2 million tokens for training and rare words unknown",
    folder="wikitext-2",
    num_tokens=(2_088_628, 217_646, 245_569),
    vocabulary_size=33_278,
    archive="wikitext-2-v1.zip",
)
WIKITEXT_2_VALID = replace(
    WIKITEXT_2, name="wikitext-2/valid", title="WikiText-2, validation articles", evaluation_split="valid"
)
WIKITEXT_103_RAW = replace(
    WIKITEXT_103,
    name="wikitext-103-raw",
    title="WikiText-103, raw: the words in place of <unk>, for models of any tokenizer",
    folder="wikitext-103-raw",
    suffix="raw",
    num_tokens=(),
    vocabulary_size=None,
    archive="wikitext-103-raw-v1.zip",
)
WIKITEXT_2_RAW = replace(
    WIKITEXT_103_RAW,
    name="wikitext-2-raw",
    title="WikiText-2, raw: the test and validation articles of WikiText-103, and 2 million tokens for training",
    folder="wikitext-2-raw",
    archive="wikitext-2-raw-v1.zip",
)
WIKITEXT_SETS = (
    WIKITEXT_103,
    WIKITEXT_103_VALID,
    WIKITEXT_103_RAW,
    WIKITEXT_2,
    WIKITEXT_2_VALID,
    WIKITEXT_2_RAW,
)
