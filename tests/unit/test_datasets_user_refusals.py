"""Users' datasets that are refused, by entry, file and line: images, arrays, items, series and texts."""

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import Refusal, check
from series_files import CLASSES, ended_by_nan, labels_of, series_of, write_ts
from user_data import declared, opened, write_arrays, write_folder, write_list

from robench.core.errors import DeclarationError, ExampleError, MissingDataError, UsageError
from robench.datasets.series_in_memory import dataset_of_series

Making = Callable[[Path], object]
TREE, LIST, NPZ = "{kind: image-folder, path: data}", "{kind: csv, path: list.csv}", "{kind: npz, path: x.npz}"
DIGITS = "{kind: torchvision, target: 'test_datasets_user:Digits', arguments: %s}"
MNIST = "{kind: torchvision, target: 'torchvision.datasets:MNIST', arguments: {root: absent, train: false}}"
SERIES, ENDED = "{kind: series-csv, path: x.csv}", "{kind: npz, domain: series, path: x.npz}"
TWO = "{kind: series-csv, path: a.csv, train: b.csv}"
TS = "{kind: ts, path: test.ts, train: train.ts}"
COLUMNS = "text_column: review, label_column: verdict"
TEST = series_of(7, longest=5)
TARGETS = [CLASSES.index(label) for label in labels_of(7)]
HEADER = "series,step,label,x\n"
MODULE = """
from dataclasses import replace
from robench.datasets.digits import DIGITS_A

MINE = replace(DIGITS_A, name="mine")
OTHER = DIGITS_A
NUMBER = 3
"""


def of(
    message: str,
    entry: str,
    *makings: Making,
    error: type[Exception] = MissingDataError,
    split: str | None = None,
    **fields: Any,
) -> Refusal:
    """What an entry declares cannot be opened, or read to the end, once files are made."""

    def call(root: Path) -> None:
        for making in makings:
            making(root)
        dataset = opened(declared(root, entry), split, **fields)
        for place in range(len(dataset)):
            dataset.batch(place, place + 1)

    return Refusal(call, error, message)


def wrong(message: str, entry: str, *makings: Making, **fields: Any) -> Refusal:
    """The entry itself, or what it says of the files, is refused."""
    return of(message, entry, *makings, error=DeclarationError, **fields)


def file(name: str, content: str | bytes = b"x") -> Making:
    def making(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)

    return making


def link(name: str, to: str) -> Making:
    return lambda root: (root / name).symlink_to(root / to)


def folder(root: Path) -> None:
    write_folder(root / "data")


def numbered(root: Path) -> None:
    write_list(root, names=False)


def whole_arrays(root: Path) -> None:
    write_arrays(root / "x.npz")


def arrays(name: str, **named: Any) -> Making:
    return lambda root: np.savez(root / name, **named)


def tree(message: str, *makings: Making) -> Refusal:
    return of(message, TREE, folder, *makings)


def listed(message: str, text: str, error: type[Exception] = MissingDataError) -> Refusal:
    return of(message, LIST, write_list, lambda root: (root / "folder").mkdir(), file("list.csv", text), error=error)


def images(message: str, **changes: Any) -> Refusal:
    return of(message, NPZ, lambda root: write_arrays(root / "x.npz", **changes))


def usual(message: str, names: str, fields: str = "}") -> Refusal:
    return wrong(message, NPZ[:-1] + fields, arrays("x.npz", **dict.fromkeys(names.split(), np.zeros(3))))


def forget(root: Path) -> None:
    sys.modules.pop("my_data_module", None)


def python(message: str, target: str) -> Refusal:
    entry, module = f"{{kind: python, target: {target}}}", file("my_data_module.py", MODULE)
    return wrong(rf"(?s)line 2: datasets.mine.*{message}", entry, module, forget)


def rows(message: str, text: str, header: str = HEADER, error: type[Exception] = MissingDataError) -> Refusal:
    return of(message, SERIES, file("x.csv", header + text), error=error)


def ended(message: str, **changes: Any) -> Refusal:
    return of(message, ENDED, arrays("x.npz", **{"targets": TARGETS, "inputs": ended_by_nan(TEST), **changes}))


def with_value(value: float, *place: int) -> Any:
    inputs = ended_by_nan(TEST)
    inputs[place] = value
    return inputs


def ts(root: Path) -> None:
    write_ts(root / "test.ts", TEST, labels_of(7))
    write_ts(root / "train.ts", series_of(9, seed=1, longest=8), labels_of(9))


def other_ts(num_channels: int, classes: Sequence[str] = CLASSES) -> Making:
    return lambda root: write_ts(
        root / "train.ts", series_of(3, num_channels=num_channels), labels_of(3, classes), classes=classes
    )


def part(name: str, last: int) -> Making:
    return file(name, f"{HEADER}a,0,0,1\na,{last},0,3\nb,5,1,9\n")


def memory(message: str, series: Any, **options: Any) -> Refusal:
    return Refusal(lambda _: dataset_of_series("mine", series, TARGETS, **options), MissingDataError, message)


def texts(message: str, kind: str, written: bytes, error: type[Exception] = MissingDataError) -> Refusal:
    return of(message, f"{{kind: {kind}, path: t, {COLUMNS}}}", file("t", written), error=error)


def reviews(root: Path) -> None:
    (root / "t").write_text("x,label\nWords,a\nMore,b\n")


def of_nothing(root: Path) -> None:
    pq.write_table(pa.table({"text": ["x", None], "label": [0, 1]}), root / "t.parquet")


GREY = np.full((2, 1, 32, 32), 0.5)
EYE = np.eye(12)[:, :, None, None]
IMAGES = (
    tree("one/loop leads back to an enclosing folder", link("data/one/loop", "data/one")),
    tree("loop leads back to an enclosing folder", link("data/loop", "data")),
    tree("cannot read .*levels of symbolic links", link("data/one/me", "data/one/me")),
    tree("one/x.png is not a regular file", lambda root: os.mkfifo(root / "data/one/x.png")),
    tree("one/x.png is not a regular file", link("data/one/x.png", "/dev/zero")),
    tree("the link .*one/x.png leads nowhere", link("data/one/x.png", "gone")),
    tree("1 class folder without an image: .*/five. Put", lambda root: (root / "data/five").mkdir()),
    tree("not UTF-8", file("data/one/" + os.fsdecode(b"\xff.png"))),
    of("data does not exist. Correct path in its entry", TREE),
    of("data holds 2 images outside class folders. Expected a", TREE, file("data/a.png"), file("data/b.png")),
    of("data holds no class folders", TREE, file("data/notes.txt")),
    of("has only one class in .*data, and a classifier needs two", TREE, file("data/cat/a.png")),
    wrong(r"has 4 class folders .*, and num_classes is 5", TREE[:-1] + ", num_classes: 5}", folder),
    of("image .*one/1.PNG: it is not recognised as an", TREE, folder, file("data/one/1.PNG"), error=ExampleError),
    of("with 2 channels: image files have 1, 3, 4", TREE, folder, error=ExampleError, mean=(0.5, 0.5), std=(0.5, 0.5)),
    wrong("32x32 pixels after resize None, smaller than crop 40", TREE, folder, crop=40),
    wrong("32x32 .* smaller than crop 40", NPZ, whole_arrays, crop=40),
    wrong("32x32 .* smaller than crop 40", DIGITS % "{}", crop=40),
    wrong("size 16 in its entry, .* has resize 20; leave one", TREE[:-1] + ", image_size: 16}", folder, resize=20),
    wrong("has resize 20; leave one", LIST[:-1] + ", image_size: 16}", write_list, resize=20),
    wrong("32x32 pixels as floats, which are not resized", DIGITS % "{form: floats}", resize=20),
    listed("no column 'path'. It is empty", "", DeclarationError),
    listed("2 columns 'label'", "path,label,label\n", DeclarationError),
    listed("has no example", "path,label\n"),
    listed(r"line 2: \.\./x.png is not below the folder of the CSV file", "path,label\n../x.png,1\n"),
    listed("line 2: .* is not below the folder", "path,label\na/../../x.png,1\n"),
    listed("line 2: /etc/passwd is not below the folder", "path,label\n/etc/passwd,1\n"),
    listed("line 3: cannot find image .*absent.png: No such file", "path,label\n0.png,1\nabsent.png,2\n"),
    listed("line 3: the path of the image must name a file", "path,label\n0.png,1\n.,2\n"),
    listed("line 3: image .*folder is not a regular file", "path,label\n0.png,1\nfolder,2\n"),
    listed("line 3: ./0.png was listed before, in line 2", "path,label\n0.png,1\n./0.png,2\n"),
    listed("line 2: 1 columns, and the header has 2", "path,label\n0.png\n"),
    listed("line 2: label is empty", "path,label\n0.png,\n"),
    listed("line 2: .*expected a CSV file", 'path,label\n0.png,"1"x\n'),
    listed("has the label -1", "path,label\n0.png,0\n1.png,-1\n"),
    listed("has only one class", "path,label\n0.png,0\n1.png,0\n"),
    listed("has only one class", "path,label\n0.png,cat\n1.png,cat\n"),
    listed("not UTF-8", "path,label\n0.png,\udcff\n"),
    wrong("the label 3 .* num_classes is 3: labels must be 0 to 2", LIST[:-1] + ", num_classes: 3}", numbered),
    wrong("has 4 different labels, and num_classes is 5", LIST[:-1] + ", num_classes: 5}", write_list),
    of("dataset 'mine'", "{kind: csv, path: absent.csv}"),
    of("dataset 'mine'", "{kind: csv, path: /dev/zero}"),
    of("dataset 'mine'", "{kind: csv, path: .}"),
    images("cannot be read without pickle", inputs=np.array([{}, {}])),
    images("cannot be read without pickle", targets=np.array([None] * 12)),
    images(r"must have the shape \(N, height, width\) or .* got uint8 \(12, 32\)", inputs=np.zeros((12, 32), np.uint8)),
    images(r"width, channels\), got uint8 \(12, 3, 32, 32\)", inputs=np.zeros((12, 3, 32, 32), np.uint8)),
    images(r"\(N, channels, height, width\), got float32", inputs=np.zeros((12, 8, 8, 3), np.float32)),
    images("must have the shape", inputs=np.zeros((12, 0, 8), np.uint8)),
    images("must be uint8, or floats in .* got int64", inputs=np.zeros((12, 8, 8), np.int64)),
    images(r"must lie in \[0, 1\], got nan in image 0", inputs=np.full((12, 1, 8, 8), np.nan)),
    images("got 255 in image 0; divide 8-bit values", inputs=EYE[:, :1] * 255),
    images("got -1 in image 3", inputs=-EYE[:, 3:4]),
    images(r"must be 12 whole numbers, .* of the shape \(11,\)", targets=np.arange(11)),
    images("has the label 9223372036854775819; labels are whole", targets=np.arange(12, dtype=np.uint64) + 2**63),
    images("must be 12 whole numbers, one an example, got float64", targets=np.arange(12.0)),
    images("has the label -1", targets=np.arange(12) - 1),
    images("has only one class", targets=np.zeros(12, int)),
    images("has no example", inputs=np.zeros((0, 8, 8), np.uint8), targets=np.zeros(0, int)),
    usual("no array 'inputs' and 'targets'. Known: x_train, y_train. Name them by inputs and", "x_train y_train"),
    usual("no array 'targets'. Known: inputs, y. Name it by targets in", "inputs y"),
    usual("no array 'image' and 'targets'. Known", "images labels", ", inputs: image}"),
    usual("no array 'inputs' and 'targets'", "images masks"),
    usual("has several pairs of arrays, images and labels, x_test and y_test; st", "images labels x_test y_test"),
    *(
        of("is not an npz file", NPZ, file("x.npz", content))
        for content in (b"", b"no archive", b"PK\x03\x04 broken", pickle.dumps({}))
    ),
    of("has a single array", NPZ, lambda root: np.save((root / "x.npz").open("wb"), np.zeros(3))),
    of("does not exist", NPZ),
    of("cannot read .*: it is a device", "{kind: npz, path: /dev/zero}"),
    wrong(r"has the label 3 .* num_classes is 3", NPZ[:-1] + ", num_classes: 3}", whole_arrays),
    wrong("32x32 pixels as floats, which are", NPZ, arrays("x.npz", inputs=GREY, targets=[0, 1]), resize=20),
    of("item 0 of .*: must be a pair of image and label, got ndarray", DIGITS % "{form: nothing}"),
    of("item 0 of .*: must have a whole number for a label, got str", DIGITS % "{form: text}"),
    of(r"item 0 .*: must have uint8 values, or floats in \[0, 1\]", DIGITS % "{form: grey levels}"),
    of(r"item 0 of .*: must have an image of Pillow's, or a tensor .* got Tensor \(32, 32\)", DIGITS % "{form: flat}"),
    wrong("is not a class", "{kind: torchvision, target: 'test_datasets_user:Absent'}"),
    wrong("no module 'no_such_module'", "{kind: torchvision, target: 'no_such_module:X'}"),
    of("raised TypeError.*Check its arguments", DIGITS % "{size: 3}"),
    of("RuntimeError: Dataset not found", MNIST),
    wrong("must not have download: robench downloads nothing", DIGITS % "{download: true}"),
    python("has the name 'digits-a'; give the entry the same name", "'my_data_module:OTHER'"),
    python("is of type int, wanted an instance of robench", "'my_data_module:NUMBER'"),
    python("there is no ABSENT in my_data_module", "'my_data_module:ABSENT'"),
    python("arguments must be left out", "'my_data_module:MINE', arguments: {a: 1}"),
    python("no module 'no_such_module'", "'no_such_module:X'"),
    python("target: must be package.module:NAME, got nonsense", "nonsense"),
)

SERIES_AND_TEXTS = (
    wrong("standardise: must be left out without train", "{kind: ts, path: x.ts, standardise: true}"),
    wrong("train: must name a file", "{kind: ts, path: x.ts, train: ''}"),
    wrong("train: must be left out for images", "{kind: npz, path: x.npz, train: y.npz}"),
    wrong("label_column: must differ from the other columns", SERIES[:-1] + ", step_column: label}"),
    wrong("channels: must be different columns", SERIES[:-1] + ", channels: [x, step]}"),
    wrong(r"no column 'y'.*Known: label, series, step, x", SERIES[:-1] + ", channels: [y]}", file("x.csv", HEADER)),
    rows("no column 'series'. It is empty. Name it by series_column, step_column, lab", "", "", DeclarationError),
    rows("no column 'series'.*serie", "", "serie,step,label,x\n", DeclarationError),
    rows("has no column beside series, step, label, wanted channels", "", "series,step,label\n"),
    rows("x.csv has no rows below its header, wanted one for each step of each series", ""),
    rows("line 3: step 0 of series 'a' was in line 2, too", "a,0,0,1\na,0,0,2\n"),
    rows("line 3: series 'a' has the label '1', and '0' before", "a,0,0,1\na,1,1,2\n"),
    rows(r"line 2 has 'nan' in column 'x', wanted a finite number, or \? if missing", "a,0,0,nan\n"),
    rows("line 2 has '' in column 'x', wanted a finite number", "a,0,0,\n"),
    rows("line 2 has 'high' in column 'x', wanted a finite number", "a,0,0,high\n"),
    rows("line 2 has 'first' in column 'step', wanted a finite number or a date", "a,first,0,1\n"),
    rows("series 'a' has intervals from 1 to 2 between its times, wanted equal", "a,0,0,1\na,1,0,2\na,3,0,2\n"),
    rows("series 'b' has an interval of 0.5 bet.*wanted 1, as .*series 'a'", "a,0,0,1\na,1,0,2\nb,0,0,1\nb,.5,0,2\n"),
    rows("line 2: label is empty; name the series and its label in every row", "a,0,,1\n"),
    rows("line 2: series is empty", ",0,0,1\n"),
    rows("line 2: 3 columns, and the header has 4", "a,0,0\n"),
    rows("has only one class", "a,0,0,1\nb,0,0,1\n"),
    rows("values beyond 1.15e[+]18, wanted standardised ones", "a,0,0,1e30\nb,0,1,1\n"),
    rows("wanted finite numbers", "a,0,0,1e200\nb,0,1,1\n"),
    of("b.csv has an interval of 2 .* wanted 1, as .*a.csv; resample", TWO, part("a.csv", 1), part("b.csv", 2)),
    ended("nan in series 0 at step 1 in channel 1, wanted finite numbers up to", inputs=with_value(np.nan, 0, 1, 1)),
    ended("inputs has inf in series 0 at step 0 in channel 0", inputs=with_value(np.inf, 0, 0, 0)),
    ended("inputs has no value in series 0, wanted a step at least", inputs=np.full((2, 3, 1), np.nan)),
    ended("has no value in series 0", inputs=np.zeros((7, 0, 2))),
    ended(r"float64 of the shape \(7, 4\), wanted numbers \(N, steps, channels\)", inputs=np.zeros((7, 4))),
    ended(r"has <U1 of the shape \(1, 1\), wanted numbers", inputs=np.array([["a"]])),
    ended("cannot be read without pickle", inputs=np.array([[1], [1, 2]], dtype=object)),
    ended("targets must be 7 whole numbers, one an example", targets=np.arange(6)),
    ended("has the label -1", targets=np.arange(7) - 1),
    of("has different classes in its files; give both the same @classLabel", TS, ts, other_ts(2, sorted(CLASSES))),
    of(r"has 2 channels in .*test\.ts, and 3 in .*train\.ts", TS, ts, other_ts(3)),
    of(r"train\.ts does not exist. Correct path in its entry", TS, ts, lambda root: (root / "train.ts").unlink()),
    wrong("has 3 classes in @classLabel, and num_classes is 4", TS[:-1] + ", num_classes: 4}", ts),
    of("has a series of 5 steps, wanted at most num_steps, 4", "{kind: ts, path: test.ts, num_steps: 4}", ts),
    of("has no split 'train' here, only 'test'", "{kind: ts, path: test.ts}", ts, split="train", error=UsageError),
    memory("dataset 'mine': series are absent: there are 0", []),
    memory("series 0 is not an array of numbers", [[[1.0], [2.0, 3.0]]]),
    memory(r"series 0 has the shape \(2,\), wanted \(steps, channels\)", [[1.0, 2.0]]),
    memory(r"series 0 has the shape \(0, 2\)", [np.zeros((0, 2))]),
    memory("series 6 has 1 channels, wanted 2, as series 0", [*TEST[:6], np.zeros((3, 1))]),
    memory("series 6 has nan at step 0 in channel 1, wanted finite numbers", [*TEST[:6], [[1.0, np.nan]]]),
    memory("has 6 series, 7 targets and 6 different ids, wanted a target and an id for each", TEST[:6]),
    memory("1 different ids", TEST, ids=["a"] * 7),
    memory("has targets from 0 to 2, wanted classes 0 to 1", TEST, num_classes=2),
    memory("has a series of 5 steps, wanted at most num_steps, 3", TEST, num_steps=3),
    memory("series of 2 channels, and training series of 3", TEST, training=[np.zeros((3, 3))]),
    texts("has no column 'verdict'", "csv", b"review\nonly texts\n", DeclarationError),
    texts(r"t, line 2 has a text without words. Remove it", "csv", b"review,verdict\n ,good\nx,bad\n"),
    texts("line 2: verdict is empty; give every text a label", "csv", b"review,verdict\nx,\ny,bad\n"),
    texts("has only one class", "csv", b"review,verdict\nx,a\ny,a\n"),
    texts("has no text", "csv", b"review,verdict\n"),
    texts("has no column 'review'. It is empty", "csv", b"", DeclarationError),
    texts(r"the control character U\+001E, wanted text", "csv", b"review,verdict\nx\x1ey,a\nz,b\n"),
    texts(r"t, line 2 is not JSON", "jsonl", b'{"review": "x", "verdict": "a"}\n{"review"\n'),
    texts("line 1 is not JSON", "jsonl", b"[" * 100_000),
    texts(r"line 1 is '\['x'\]' \(list\), wanted an object", "jsonl", b'["x"]\n'),
    texts(r"line 1 has '3' \(int\) in 'review', wanted a text", "jsonl", b'{"review": 3, "verdict": "a"}\n'),
    texts(r"'True' \(bool\) in 'verdict', wanted a text or a whole", "jsonl", b'{"review": "x", "verdict": true}\n'),
    texts("line 1 has no column 'verdict'", "jsonl", b'{"review": "x"}\n', DeclarationError),
    texts(r"half a character \(a surrogate\)", "jsonl", b'{"review": "\\ud800", "verdict": "a"}\n'),
    texts("is not a whole Parquet file", "parquet", b"PAR1 and no more"),
    of(r"t\.parquet, row 1 has nothing in 'text', wanted a text", "{kind: parquet, path: t.parquet}", of_nothing),
    of(r"none\.parquet does not exist", "{kind: parquet, path: none.parquet}"),
    of(r"has no file \*\.txt", "{kind: texts, path: empty}", lambda root: (root / "empty").mkdir()),
    of("has no split 'train'", "{kind: csv, path: t, text_column: x}", reviews, split="train", error=UsageError),
    wrong("image_column: must be left out", "{kind: csv, path: t, text_column: a, image_size: 8, image_column: b}"),
    wrong("train: must be left out without text_column", "{kind: csv, path: t.csv, train: u.csv}"),
    wrong("label_column: must differ from text_column, got 'label'", "{kind: csv, path: t, text_column: label}"),
    wrong("must be an encoding of texts such as utf-8, got 'k", "{kind: jsonl, path: t, encoding: klingon}"),
    wrong("encoding: must be an encoding of texts", "{kind: jsonl, path: t, encoding: rot13}"),
    wrong("encoding: must be left out for parquet", "{kind: parquet, path: t, encoding: utf-16}"),
    wrong("valid: must name a file or folder, got ''", "{kind: texts, path: t, valid: ''}"),
)


@pytest.mark.parametrize("refusal", IMAGES + SERIES_AND_TEXTS, ids=lambda refusal: refusal.message[:60])
def test_what_cannot_be_used_is_refused(refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    check(refusal, tmp_path)
