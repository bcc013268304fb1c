"""Formats of users' texts: text files, and tables of texts with labels."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.datasets.user import TRAIN_SPLIT, VALID_SPLIT, FilesFormat
from robench.declarations.base import FieldProblem
from robench.domains.texts import TEXTS
from robench.tasks import TASKS
from robench.tasks.language_modeling import LANGUAGE_MODELING

LINES = "lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat(FilesFormat):
    """Format of texts, with a path for each split; ``path`` is that of the test split.

    Attributes:
        train, valid: paths of the training and the validation split, relative as ``path`` is; None for no such split.
        encoding: encoding of the files, as Python names them; None for UTF-8, with or without a byte order mark.
        spaced: whether to put a blank between words and punctuation, for models that split texts at blanks, and to
            join the lines of a paragraph.
    """

    path_fields: ClassVar[tuple[str, ...]] = ("path", TRAIN_SPLIT, VALID_SPLIT)

    train: str | None = None
    valid: str | None = None
    encoding: str | None = None
    spaced: bool = False

    @property
    def input_domain(self) -> str:
        """Return the name of the domain of the inputs."""
        return TEXTS.name

    @property
    def has_labels(self) -> bool:
        """Return whether each text has a label; for language models texts are their own targets."""
        return not TASKS[self.task].targets_are_inputs

    def contradictions(self) -> list[FieldProblem]:
        """Refuse empty paths, and an encoding that Python does not have."""
        problems = FilesFormat.contradictions(self)
        try:
            "a".encode(self.encoding or "utf-8")
        # ValueError: a null character in the name.
        except (LookupError, ValueError):
            problems.append(("encoding", f"must be an encoding of texts such as utf-8, got {self.encoding!r}"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFiles(TextFormat):
    """Texts in one file, or in the ``.txt`` files of a folder, at any depth.

    For classifiers (``task: classification``) a folder has a folder for each class, named by its label.

    Attributes:
        examples: ``documents`` for a text of each file, ``lines`` for one of each line that is not blank.
    """

    kind: ClassVar[str] = "texts"
    implementation: ClassVar[str] = "robench.datasets.user_texts_impl:open_text_files"

    task: str = LANGUAGE_MODELING.name
    examples: Literal["documents", "lines"] = "documents"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable(TextFormat):
    """Table with a text in each row; labels, which language models do not need, are those of ``csv``.

    Attributes:
        text_column, label_column: names of the columns, or of the keys of each row.
    """

    implementation: ClassVar[str] = "robench.datasets.user_texts_impl:open_text_table"

    text_column: str | None = "text"
    label_column: str = "label"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one column for both text and label."""
        problems = TextFormat.contradictions(self)
        if self.text_column == self.label_column:
            problems.append(("label_column", f"must differ from text_column, got {self.label_column!r} for both"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLines(TextTable):
    """Texts in a file with a JSON object in each line; labels are texts or whole numbers, also as floats."""

    kind: ClassVar[str] = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable(TextTable):
    """Texts in a Parquet file; labels are texts or whole numbers, also as floats. Other columns are not read."""

    kind: ClassVar[str] = "parquet"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse an encoding: texts in Parquet are UTF-8."""
        problems = TextTable.contradictions(self)
        if self.encoding is not None:
            problems.append(("encoding", f"must be left out for parquet, whose texts are UTF-8, got {self.encoding!r}"))
        return problems
