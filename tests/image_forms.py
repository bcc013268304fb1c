"""Forty small images of four classes of ImageNet-1k, written in each form of the validation images."""

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise
import scipy.io  # type: ignore[import-untyped]  # scipy ships no types
from PIL import Image

# By WordNet id the index of ILSVRC 2012 and the id of the development kit, whose order is another one.
CLASSES = {"n01440764": (0, 449), "n02099601": (207, 3), "n02510455": (388, 1000), "n15075141": (999, 201)}
KIT = "ILSVRC2012_devkit_t12"
TRUTH = "ILSVRC2012_validation_ground_truth.txt"


@dataclass(frozen=True)
class Picture:
    """An encoded image, its number among the validation images and its class."""

    number: int
    wordnet_id: str
    content: bytes

    @property
    def stem(self) -> str:
        return f"ILSVRC2012_val_{self.number:08d}"

    @property
    def name(self) -> str:
        return f"{self.stem}.JPEG"

    @property
    def path(self) -> str:
        return f"{self.wordnet_id}/{self.name}"

    @property
    def label(self) -> int:
        return CLASSES[self.wordnet_id][0]


@cache
def pictures() -> tuple[Picture, ...]:
    generator, found = np.random.default_rng(0), []
    for number, wordnet_id in enumerate(generator.permutation(list(CLASSES) * 10).tolist(), 1):
        blocks = generator.integers(0, 256, (6, 7, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(blocks.repeat(8, 0).repeat(8, 1)).save(file, "JPEG", quality=int(generator.integers(50, 95)))
        found.append(Picture(number, wordnet_id, file.getvalue()))
    return tuple(found)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def write_tar(path: Path, members: Iterable[tuple[str, bytes]], mode: Any = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def kit_files(truth: str | None = None) -> dict[str, bytes]:
    """The two files of the development kit that matter, with a synset of no image among the others."""
    rows = [(number, wordnet_id, "words") for wordnet_id, (_, number) in CLASSES.items()]
    synsets = np.array(
        [*rows, (1001, "n00001740", "words")], dtype=[("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O")]
    )
    file = io.BytesIO()
    scipy.io.savemat(file, {"synsets": synsets.reshape(-1, 1)})
    lines = "".join(f"{CLASSES[each.wordnet_id][1]}\n" for each in pictures())
    return {
        f"{KIT}/data/{TRUTH}": (lines if truth is None else truth).encode(),
        f"{KIT}/data/meta.mat": file.getvalue(),
    }


def write_kit(root: Path, truth: str | None = None) -> None:
    for name, content in kit_files(truth).items():
        write(root / "imagenet-1k" / name, content)


def write_packed_kit(root: Path) -> None:
    members = [(f"{KIT}/readme.txt", b"text"), *kit_files().items()]
    write_tar(root / "imagenet-1k" / f"{KIT}.tar.gz", members, "w:gz")


def class_folders(root: Path, below: str = "imagenet-1k/val") -> None:
    for each in pictures():
        write(root / below / each.path, each.content)


def loose_files(root: Path) -> None:
    write_kit(root)
    for each in pictures():
        write(root / "imagenet-1k" / "val" / each.name, each.content)


def loose_files_with_classes(root: Path) -> None:
    for each in pictures():
        write(root / "imagenet-1k" / f"{each.stem}_{each.wordnet_id}.JPEG", each.content)


def published_tar(root: Path) -> None:
    write_packed_kit(root)
    write_tar(root / "imagenet-1k" / "ILSVRC2012_img_val.tar", [(each.name, each.content) for each in pictures()])


def tar_of_class_folders(root: Path) -> None:
    members = [("val/README.txt", b"text"), *((f"val/{each.path}", each.content) for each in pictures())]
    write_tar(root / "imagenet-1k" / "val.tar", members)


def parquet_rows(**changes: Callable[[Picture], Any]) -> dict[str, list[Any]]:
    """Columns of the hub: every second path has the WordNet id, as in some copies."""
    made = {
        "bytes": lambda each: each.content,
        "path": lambda each: f"{each.stem}{f'_{each.wordnet_id}' * (each.number % 2)}.JPEG",
        "label": lambda each: each.label,
    } | changes
    rows = {name: [of_each(each) for each in pictures()] for name, of_each in made.items()}
    images = [dict(zip(("bytes", "path"), pair, strict=True)) for pair in zip(rows["bytes"], rows["path"], strict=True)]
    return {"image": images, "label": rows["label"]}


def write_parquet(root: Path, rows: Mapping[str, list[Any]], size: int = 25) -> None:
    """Shards of ``size`` rows, in row groups of 7."""
    table = pa.table({name: pa.array(values) for name, values in rows.items()})
    folder = root / "imagenet-1k" / "data"
    folder.mkdir(parents=True)
    count = -(-len(table) // size)
    for number in range(count):
        path = folder / f"validation-{number:05d}-of-{count:05d}.parquet"
        pq.write_table(table.slice(number * size, size), path, row_group_size=7)


def parquet(root: Path) -> None:
    write_parquet(root, parquet_rows())


def nameless_parquet(root: Path) -> None:
    write_parquet(root, parquet_rows(path=lambda each: None if each.number == 7 else each.name))


def members_of(each: Picture, *, is_named: bool = True) -> list[tuple[str, bytes]]:
    described = {"label": each.label, "filename": f"val/{each.name}", "width": 56} if is_named else {"width": 56}
    key = f"{each.number - 1:06d}"
    return [
        (f"{key}.cls", str(each.label).encode()),
        (f"{key}.jpg", each.content),
        (f"{key}.json", json.dumps(described).encode()),
    ]


def write_webdataset(root: Path, members: Callable[[Picture], list[tuple[str, bytes]]]) -> None:
    for shard in range(2):
        of_shard = [member for each in pictures()[shard * 20 : shard * 20 + 20] for member in members(each)]
        write_tar(root / "imagenet-1k" / f"imagenet1k-validation-{shard:02d}.tar", of_shard)


def webdataset(root: Path) -> None:
    write_webdataset(root, members_of)


def webdataset_by_key(root: Path) -> None:
    write_webdataset(
        root, lambda each: [(f"{each.stem}.jpeg", each.content), (f"{each.stem}.cls", f"{each.label}\n".encode())]
    )


def nameless_webdataset(root: Path) -> None:
    write_webdataset(root, lambda each: members_of(each, is_named=False))
