"""Sets of the UEA archive: prepared from every published form, verified, and opened; nothing is downloaded here."""

import hashlib
import lzma
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from series_files import CLASSES, labels_of, series_of, write_ts

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import DATASETS, open_dataset, uea_forms
from robench.datasets.preparing import Unpacked, prepare
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.uea import UEA_SETS, UeaSet
from robench.datasets.verification import verify
from robench.domains.series_impl import PADDING

Spoiling = Callable[[Path], object]
NAMES = ("JapaneseVowels_TEST.ts", "JapaneseVowels_TRAIN.ts")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Folder of the files of a small set."""
    for name, count in zip(NAMES, (5, 6), strict=True):
        write_ts(tmp_path / "files" / name, series_of(count, seed=count), labels_of(count))
    return tmp_path / "files"


@pytest.fixture(autouse=True)
def _published(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Japanese vowels have the sizes and digests of the small set."""
    digests = (hashlib.sha256((files / name).read_bytes()).hexdigest() for name in NAMES)
    sizes = {"num_examples": 5, "num_training_examples": 6, "num_steps": 7, "num_channels": 2, "num_classes": 3}
    (declared,) = (each for each in UEA_SETS if each.name == "japanese-vowels")
    small = replace(declared, sha256s=tuple(zip(("test", "train"), digests, strict=True)), **sizes)
    builtin: Any = DATASETS.builtin
    monkeypatch.setitem(builtin, "japanese-vowels", small)


def zipped(files: Path, inside: str) -> Path:
    path = files.parent / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README.txt", "made by a test")
        for name in NAMES:
            archive.write(files / name, inside + name)
    return path


def tarred(files: Path) -> Path:
    with tarfile.open(files.parent / "x.tar.gz", "w:gz") as archive:
        archive.add(files, "JapaneseVowels")
    return files.parent / "x.tar.gz"


def packed(files: Path) -> Path:
    folder = files.parent / "packed" / "JapaneseVowels"
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / f"{name}.xz").write_bytes(lzma.compress((files / name).read_bytes()))
    return folder.parent


FORMS: dict[str, Callable[[Path], Path]] = {
    "zip": lambda files: zipped(files, "JapaneseVowels/"),
    "zip of files": lambda files: zipped(files, ""),
    "zip of all sets": lambda files: zipped(files, "Multivariate_ts/JapaneseVowels/"),
    "wheel": lambda files: zipped(files, "aeon/datasets/data/JapaneseVowels/"),
    "tar": tarred,
    "folder": lambda files: files,
    "folder packed by xz": packed,
}


def prepared(source: Path | None, data_root: Path, name: str = "japanese-vowels") -> Unpacked:
    return prepare(name, data_root, archive=source, on_progress=lambda done, total: None)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_becomes_the_same_files(files: Path, tmp_path: Path, form: str) -> None:
    source, root = FORMS[form](files), tmp_path / "data"
    folder = root / "JapaneseVowels"
    assert prepared(source, root) == Unpacked(folder=folder, num_written=2, num_kept=0)
    wanted = {name: (files / name).read_bytes() for name in NAMES}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == wanted
    assert prepared(source, root).num_kept == 2
    # Without an archive, too: nothing is downloaded.
    assert prepared(None, root).num_kept == 2
    (folder / NAMES[0]).write_bytes((folder / NAMES[0]).read_bytes().replace(b"3", b"4"))
    assert prepared(source, root).num_written == 1
    dataset = open_dataset("japanese-vowels", data_root=root, preprocessing=None)
    assert dataset.batch(0, 5).inputs.shape == (5, 7, 2)
    assert [each.is_whole for each in verify("japanese-vowels", root)] == [True, True]


@pytest.mark.parametrize(("split", "count"), [("train", 6), ("test", 5)])
def test_a_split_has_its_own_series_standardised_by_training(
    files: Path, tmp_path: Path, split: str, count: int
) -> None:
    prepared(files, tmp_path)
    dataset = open_dataset("japanese-vowels", data_root=tmp_path, preprocessing=None, split=split)
    batch, steps = dataset.batch(0, count), np.concatenate(series_of(6, seed=6))
    assert sorted(batch.ids) == [f"japanese-vowels/{split}/{number:05d}" for number in range(count)]
    for example_id, target, found in zip(batch.ids, batch.targets.tolist(), batch.inputs.numpy(), strict=True):
        number = int(example_id[-5:])
        assert CLASSES[target] == labels_of(count)[number]
        series = series_of(count, seed=count)[number]
        wanted = (series - steps.mean(0)) / np.sqrt(((steps - steps.mean(0)) ** 2).sum(0) / (len(steps) - 1))
        np.testing.assert_allclose(found[: len(series)], wanted, atol=1e-6)
        assert (found[len(series) :] == PADDING).all()


def test_an_unknown_split_is_refused(files: Path, tmp_path: Path) -> None:
    prepared(files, tmp_path)
    with pytest.raises(UsageError, match="has no split 'valid'"):
        open_dataset("japanese-vowels", data_root=tmp_path, preprocessing=None, split="valid")


def change(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new))


def written(count: int, *, num_channels: int = 2, classes: tuple[str, ...] = CLASSES) -> Spoiling:
    series, labels = series_of(count, num_channels=num_channels), labels_of(count, classes)
    return lambda files: write_ts(files / NAMES[0], series, labels, classes=classes)


def compressed(files: Path) -> None:
    (files / f"{NAMES[0]}.xz").write_bytes(lzma.compress((files / NAMES[0]).read_bytes()))


SPOILT: dict[str, Spoiling] = {
    "has no JapaneseVowels_TRAIN.ts, at its top or below": lambda files: (files / NAMES[1]).unlink(),
    "_TEST.ts as published: its SHA-256 is .*, wanted ": lambda files: change(files / NAMES[0], b"3.", b"4."),
    "line 5 has the class 'walking'": lambda files: change(files / NAMES[0], b":walk", b":walking"),
    "has 4 series of 2 channels .* wanted 5": written(4),
    "has 5 series of 3 channels": written(5, num_channels=3),
    "lists 2 classes, wanted 3": written(5, classes=("a", "b")),
    "has more than .* bytes, which Japanes": lambda files: (files / NAMES[0]).write_bytes(b"#" * (1 << 21)),
    "has JapaneseVowels_TEST.ts twice": compressed,
    "TEST.ts.xz is damaged or not an xz": lambda files: (files / NAMES[0]).rename(files / f"{NAMES[0]}.xz"),
}


@pytest.mark.parametrize("message", SPOILT)
def test_other_files_are_refused_and_nothing_is_written(files: Path, tmp_path: Path, message: str) -> None:
    SPOILT[message](files)
    with pytest.raises(MissingDataError, match=message):
        prepared(files, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_the_package_is_downloaded_with_its_digest(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = zipped(files, "aeon/datasets/data/JapaneseVowels/")

    def downloading(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        assert command[1:4] == ["-m", "pip", "download"]
        assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(command)
        (line,) = Path(command[command.index("--requirement") + 1]).read_text().splitlines()
        assert line.startswith("aeon==1.6.0 --hash=sha256:d05227086706f8")
        (Path(command[command.index("--dest") + 1]) / "aeon-1.6.0-py3-none-any.whl").write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(uea_forms.subprocess, "run", downloading)
    assert prepared(None, tmp_path / "data").num_written == 2


def test_without_a_network_the_message_has_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        options["stderr"].write(b"WARNING: Retrying\nERROR: No matching distribution\nlast")
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(uea_forms.subprocess, "run", failing)
    with pytest.raises(MissingDataError, match=r"cannot download aeon==1.6.0: No matching .* with --archive FILE$"):
        prepared(None, tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("declared", UEA_SETS, ids=lambda declared: declared.name)
def test_a_set_not_downloaded_says_where_it_is(
    declared: UeaSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = PUBLISHED_SETS[declared.name]
    assert published.where.startswith("https://www.timeseriesclassification.com")
    assert (published.package is not None) == (declared.name in ("japanese-vowels", "basic-motions"))
    if published.package is None:
        with pytest.raises(UsageError, match=r"Missing option '--archive': .* timeseriesclassification|https://www"):
            prepared(None, tmp_path, declared.name)


class TestVerify:
    def test_absent_and_changed_files_are_named(self, files: Path, tmp_path: Path) -> None:
        assert [each.is_absent for each in verify("japanese-vowels", tmp_path / "data")] == [True, True]
        assert [each.is_absent for each in verify("japanese-vowels", None)] == [True, True]
        prepared(files, tmp_path / "data")
        change(tmp_path / "data" / "JapaneseVowels" / NAMES[1], b"3", b"4")
        test, train = verify("japanese-vowels", tmp_path / "data")
        assert (test.num_series, test.num_channels, test.num_steps, test.num_classes) == (5, 2, 7, 3)
        assert test.sha256 == hashlib.sha256((files / NAMES[0]).read_bytes()).hexdigest()
        assert [each.kind for each in train.findings] == ["wrong-file"]
        assert "is not JapaneseVowels_TRAIN.ts as published" in train.findings[0].message

    def test_the_longest_of_all_is_compared(self, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        builtin: Any = DATASETS.builtin
        monkeypatch.setitem(builtin, "japanese-vowels", replace(builtin["japanese-vowels"], num_steps=8))
        prepared(files, tmp_path / "data")
        test, train = verify("japanese-vowels", tmp_path / "data")
        assert train.is_whole
        (finding,) = test.findings
        assert finding.message == "dataset 'japanese-vowels' has series of up to 7 steps, wanted 8"
