"""Files of texts below the data root: finding, reading and checking them; each problem is a message of one line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from robench.core.errors import MissingDataError
from robench.core.files import read_regular
from robench.datasets.base import DatasetBase
from robench.datasets.prepared import check_present
from robench.domains.code_points import CONTEXT_END

_FORBIDDEN: Final = {"NUL": b"\0", "U+001E": CONTEXT_END.encode()}


@dataclass(frozen=True, slots=True)
class TextFile:
    """Content of a text file, and the name of the published archive that holds it."""

    path: Path
    content: bytes
    archive: str

    def refusal(self, problem: str, how: str = "") -> MissingDataError:
        """Return the error for a problem of the file, with the advice to unpack the archive again."""
        return MissingDataError(f"{self.path} {problem}. Unpack {self.archive} again{how}")

    def check_text(self) -> None:
        """Refuse a file without words, or with placeholder signs."""
        if not self.content or self.content.isspace():
            raise self.refusal(f"is empty: it has {len(self.content):,} bytes and no word")
        for name, sign in _FORBIDDEN.items():
            if sign in self.content:
                raise self.refusal(f"has the control character {name}, wanted text")

    def check_lines(self) -> None:
        """Refuse what ``check_text`` refuses, and ends of lines of Windows."""
        self.check_text()
        if b"\r\n" in self.content:
            raise self.refusal("has Windows line ends (CR LF), wanted LF alone", ", without conversion of text")

    def decoded(self, start: int = 0, stop: int | None = None) -> str:
        """Return bytes [start, stop) as text."""
        try:
            return self.content[start:stop].decode()
        except UnicodeDecodeError as error:
            raise self.refusal(f"is not UTF-8 at byte {start + error.start:,}") from error

    def lines(self) -> list[str]:
        """Return the checked lines of the file."""
        self.check_lines()
        return self.decoded().removesuffix("\n").split("\n")


def find_folder(declared: DatasetBase, data_root: Path | None, wanted: str, archive: str) -> Path:
    """Return the path of the folder of ``wanted``, a file or a pattern of files below the data root."""
    advice = (
        f"Wanted: DIR/{wanted}, from the archive {archive}. Give DIR by --data-root DIR or the variable ROBENCH_DATA"
    )
    if data_root is None:
        raise MissingDataError(f"dataset {declared.name!r} needs a folder. {advice}")
    path = (data_root.expanduser() / wanted).parent
    check_present(declared, [path], advice, are_folders=True)
    return path


def find_file(declared: DatasetBase, data_root: Path | None, wanted: str, archive: str, most_bytes: int) -> TextFile:
    """Return the file ``wanted`` below the data root."""
    path = find_folder(declared, data_root, wanted, archive) / wanted.rpartition("/")[2]
    if not path.exists():
        check_present(declared, [path], f"Unpack {archive} again")
    return read_file(declared, path, archive, most_bytes)


def read_file(declared: DatasetBase, path: Path, archive: str, most_bytes: int) -> TextFile:
    """Return a regular file of at most ``most_bytes``."""
    try:
        return TextFile(path, read_regular(path, most_bytes), archive)
    except OSError as error:
        raise MissingDataError(f"cannot read {path} of dataset {declared.name!r}: {error.strerror}") from error
