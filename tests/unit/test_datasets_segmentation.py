"""Images with masks: ADE20K as published and corrupted, users' folders, lists and arrays, and scenes of digits."""

import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from refusals import Refusal, check
from sklearn.datasets import load_digits, load_sample_images  # type: ignore[import-untyped]  # ships no types
from test_datasets_user_refusals import arrays, file, of, wrong

from robench.core.errors import DeclarationError, ExampleError, MissingDataError
from robench.core.protocols import Batch
from robench.core.seeds import example_seed
from robench.corruptions import COMMON_CORRUPTIONS
from robench.corruptions.corruption import Corruption
from robench.corruptions.corruption_impl import corrupt
from robench.corruptions.elastic_transform_impl import moved_labels as moved_by_elastic_transform
from robench.corruptions.zoom_blur_impl import moved_labels as moved_by_zoom_blur
from robench.corruptions.zoom_blur_impl import zoom_factors
from robench.datasets import DATASETS, digit_scenes_impl, open_dataset
from robench.datasets.decoding import decode, rescaled, size_after
from robench.datasets.user_masks_impl import MaskedImages
from robench.datasets.verification import verify
from robench.declarations.base import FieldsError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_datasets
from robench.draws import ExampleDraws
from robench.tasks.segmentation import IGNORED
from robench.testing import check_dataset

SMALL = ImagePreprocessing(mean=(), std=(), resize=16, longer_at_most=24, interpolation="bilinear")
AS_THEY_ARE = ImagePreprocessing(mean=(), std=())
CROPPED = ImagePreprocessing(mean=(), std=(), resize=16, crop=16)
ZEROS, NINES = np.zeros((5, 7), np.uint8), np.full((5, 7, 3), 9, np.uint8)
RELEASE = "ADEChallengeData2016"
# Height and width of images, of which one has its longer side limited.
SIZES = ((20, 30), (48, 30), (12, 41))


def image_of(height: int, width: int, seed: int) -> NDArray[np.uint8]:
    """Blocks of colour, which JPEG keeps roughly."""
    blocks = np.random.default_rng(seed).integers(0, 256, (height // 4 + 1, width // 4 + 1, 3), dtype=np.uint8)
    return blocks.repeat(4, 0).repeat(4, 1)[:height, :width]


def mask_of(height: int, width: int, seed: int, highest: int = 150) -> NDArray[np.uint8]:
    return np.random.default_rng(seed + 100).integers(0, highest + 1, (height, width), dtype=np.uint8)


def save(path: Path, pixels: NDArray[Any], **how: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **how)
    return path


def write_release(root: Path) -> None:
    for part, prefix, count in (("training", "ADE_train", 2), ("validation", "ADE_val", len(SIZES))):
        for number, size in enumerate(SIZES[:count], 1):
            name = f"{prefix}_{number:08d}"
            save(root / RELEASE / "images" / part / f"{name}.jpg", image_of(*size, number))
            save(root / RELEASE / "annotations" / part / f"{name}.png", mask_of(*size, number))


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A data root with a small release."""
    write_release(tmp_path)
    return tmp_path


def opened(name: str, root: Path, preprocessing: ImagePreprocessing | None = SMALL, split: str = "test") -> Any:
    return open_dataset(name, data_root=root, preprocessing=preprocessing, split=split)


def examples_of(dataset: Any) -> dict[str, Batch]:
    batches = [dataset.batch(position, position + 1) for position in range(len(dataset))]
    return {batch.ids[0]: batch for batch in batches}


class TestResize:
    @pytest.mark.parametrize(
        ("size", "resized"),
        [
            *(((683, 512), (683, 512)), ((500, 333), (769, 512)), ((333, 500), (512, 769))),
            *(((2100, 2100), (512, 512)), ((1000, 100), (2048, 205)), ((2048, 512), (2048, 512))),
        ],
    )
    def test_sides_are_those_of_imrescale(self, size: tuple[int, int], resized: tuple[int, int]) -> None:
        usual = ImagePreprocessing(mean=(), std=(), resize=512, longer_at_most=2048, interpolation="bilinear")
        assert size_after(*size, usual) == resized

    @pytest.mark.parametrize("size", [(30, 45), (91, 17), (1, 7)])
    @pytest.mark.parametrize("resized", [(48, 48), (23, 91), (1, 3)])
    def test_pixels_are_those_of_opencv(self, size: tuple[int, int], resized: tuple[int, int]) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
        assert np.array_equal(rescaled(pixels, *resized), cv2.resize(pixels, resized, interpolation=cv2.INTER_LINEAR))


class TestAde20k:
    def test_images_are_resized_and_masks_are_not(self, release: Path) -> None:
        dataset = opened("ade20k", release)
        assert sorted(dataset.ids) == [f"validation/ADE_val_{number:08d}" for number in (1, 2, 3)]
        for number, size in enumerate(SIZES, 1):
            batch = examples_of(dataset)[f"validation/ADE_val_{number:08d}"]
            mask = mask_of(*size, number).astype(np.int64)
            assert (batch.task, batch.targets.dtype, batch.inputs.dtype) == ("segmentation", torch.int64, torch.float32)
            assert np.array_equal(batch.targets[0].numpy(), mask - 1)
            assert IGNORED == -1 == batch.targets.min()
            with Image.open(release / RELEASE / "images" / "validation" / f"ADE_val_{number:08d}.jpg") as file:
                width, height = {(20, 30): (24, 16), (48, 30): (15, 24), (12, 41): (24, 7)}[size]
                resized = cv2.resize(np.array(file), (width, height), interpolation=cv2.INTER_LINEAR)
            assert np.array_equal((batch.inputs[0] * 255).round().permute(1, 2, 0).numpy(), resized)

    def test_the_usual_resize_is_that_of_segmenter(self, release: Path) -> None:
        found = examples_of(opened("ade20k", release, None))
        sizes = sorted(tuple(batch.inputs.shape[2:]) for batch in found.values())
        assert sizes == [(512, 768), (512, 1749), (819, 512)]

    def test_the_zip_has_the_same_ids_pixels_and_fingerprint(self, release: Path) -> None:
        folders = {split: opened("ade20k", release, split=split) for split in ("train", "test")}
        found = {split: examples_of(each) for split, each in folders.items()}
        with zipfile.ZipFile(release / f"{RELEASE}.zip", "w") as archive:
            for path in sorted((release / RELEASE).rglob("*")):
                archive.write(path, path.relative_to(release))
        (release / RELEASE).rename(release / "elsewhere")
        for split, folder in folders.items():
            zipped = opened("ade20k", release, split=split)
            assert zipped.identity == folder.identity
            assert zipped.ids == folder.ids
            for example_id, batch in examples_of(zipped).items():
                assert torch.equal(batch.inputs, found[split][example_id].inputs)
                assert torch.equal(batch.targets, found[split][example_id].targets)
        assert folders["train"].identity.num_examples == 2

    def test_it_keeps_what_every_dataset_promises(self, release: Path) -> None:
        check_dataset("ade20k", data_root=release, preprocessing=SMALL)
        check_dataset("ade20k-c/elastic_transform/5/moved", data_root=release, preprocessing=SMALL)

    def test_an_image_is_the_same_in_another_process(self, release: Path) -> None:
        dataset = opened("ade20k-c/fog/5", release)
        sent = pickle.loads(pickle.dumps(dataset.image(1)))
        assert np.array_equal(decode(sent, SMALL), (dataset[1][0] * 255).round().permute(1, 2, 0).numpy())

    def test_verification_counts_and_reads(self, release: Path) -> None:
        mask = mask_of(*SIZES[0], 1)
        mask[3, 4] = 151
        save(release / RELEASE / "annotations" / "validation" / "ADE_val_00000001.png", mask)
        train, test = verify("ade20k", release, decode=True)
        assert [each.kind for each in train.findings] == ["wrong-count"]
        assert "2 images with masks of the train split, wanted 20,210" in train.findings[0].message
        assert (test.split, test.form, test.num_images, test.num_classes) == ("test", "folders", 3, 150)
        assert [each.kind for each in test.findings] == ["wrong-count", "wrong-mask"]
        said = "ADE_val_00000001.png has the value 151 in 1 pixels, the first in row 3, column 4; wanted 1 to 150, or"
        assert said in test.findings[1].message
        assert all(each.is_absent for each in verify("ade20k", release / "elsewhere"))

    def test_all_types_and_severities_are_declared(self) -> None:
        names = {name for name in DATASETS.builtin if name.startswith("ade20k-c/")}
        plain = {f"ade20k-c/{each}/{severity}" for each in COMMON_CORRUPTIONS for severity in (1, 2, 3, 4, 5)}
        assert {name for name in names if not name.endswith("/moved")} == plain
        assert {name.split("/")[1] for name in names - plain} == {"elastic_transform", "zoom_blur"}
        assert len(names) == 85
        names_of_classes = DATASETS["ade20k"].class_names
        assert names_of_classes is not None
        assert (len(names_of_classes), names_of_classes[0], names_of_classes[149]) == (150, "wall", "flag")


class TestCorrupted:
    @pytest.mark.parametrize("kind", ["gaussian_noise", "glass_blur", "fog"])
    def test_an_image_is_corrupted_before_the_resize(self, release: Path, kind: str) -> None:
        clean, found = opened("ade20k", release, AS_THEY_ARE), opened(f"ade20k-c/{kind}/5", release)
        assert found.ids == clean.ids
        for position, example_id in enumerate(clean.ids):
            draws = ExampleDraws([example_seed(0, "ade20k", "corruption", example_id)])
            batch = clean.batch(position, position + 1)
            corruption = Corruption(type=kind, severity=5)
            wanted = corrupt(corruption, batch, None, draws).inputs[0]  # type: ignore[arg-type]  # no model is read
            pixels = (wanted * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
            width, height = size_after(pixels.shape[1], pixels.shape[0], SMALL)
            resized = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR)
            one = found.batch(position, position + 1)
            assert np.array_equal((one.inputs[0] * 255).round().permute(1, 2, 0).numpy(), resized)
            assert torch.equal(one.targets, batch.targets)

    def test_masks_are_moved_where_the_name_says_so(self, release: Path) -> None:
        clean = examples_of(opened("ade20k", release))
        plain = opened("ade20k-c/elastic_transform/1", release)
        moved = opened("ade20k-c/elastic_transform/1/moved", release)
        assert plain.identity.fingerprint != moved.identity.fingerprint
        for example_id, batch in examples_of(moved).items():
            unmoved = examples_of(plain)[example_id]
            assert torch.equal(unmoved.targets, clean[example_id].targets)
            assert torch.equal(unmoved.inputs, batch.inputs)
            assert (batch.targets != unmoved.targets).float().mean() > 0.5

    @pytest.mark.parametrize("severity", [1, 5])
    def test_labels_move_with_the_pixels_of_an_elastic_transform(self, severity: int) -> None:
        rows, columns = np.arange(90)[:, None] // 30, np.arange(140) // 35
        labels = torch.from_numpy((rows + 3 * columns) % 5)[None]
        images = (labels / 4.0)[:, None].float()
        declared, draws = Corruption(type="elastic_transform", severity=severity), ExampleDraws([5])
        batch = Batch(ids=("x",), inputs=images, targets=labels)
        seen = corrupt(declared, batch, None, draws).inputs[0, 0] * 4  # type: ignore[arg-type]  # no model is read
        moved = moved_by_elastic_transform(labels, declared, draws)[0]
        # Where a pixel is between two labels, either is near.
        is_of_one_label = (seen - seen.round()).abs() < 0.01
        assert is_of_one_label.float().mean() > 0.6
        assert (moved == seen.round())[is_of_one_label].float().mean() > 0.99
        assert (moved != labels[0]).float().mean() > 0.02

    def test_labels_of_a_zoom_blur_are_those_of_most_enlargements(self) -> None:
        labels = np.random.default_rng(0).integers(-1, 3, (9, 14))
        declared = Corruption(type="zoom_blur", severity=3)
        factors = zoom_factors(1.21, 0.02)[1:]
        wanted = labels.copy()
        for row, column in np.ndindex(*labels.shape):
            # The image itself counts twice; of equally frequent labels the first one stays.
            seen = Counter({int(labels[row, column]): 2})
            for factor in factors:
                place = [source(at, size, factor) for at, size in ((row, 9), (column, 14))]
                seen[int(labels[place[0], place[1]])] += 1
            wanted[row, column] = max(seen, key=lambda label: seen[label])
        found = moved_by_zoom_blur(torch.from_numpy(labels)[None], declared, ExampleDraws([0]))
        assert np.array_equal(found[0].numpy(), wanted)
        assert (wanted != labels).any()


def source(at: int, size: int, factor: float) -> int:
    """Nearest pixel of a place on an enlarged line, as ``clipped_zoom`` of the published code trims it."""
    kept = int(np.ceil(size / factor))
    enlarged = round(kept * factor)
    place = (at + (enlarged - size) // 2) * (kept - 1) / max(1, enlarged - 1)
    low = int(np.floor(place))
    return (size - kept) // 2 + min(low + (place - low > 0.5), kept - 1)


def entry(folder: Path, text: str) -> Mapping[str, Any]:
    (folder / "data.yaml").write_text(f"datasets:\n  mine: {text}\n")
    return find_datasets([folder / "data.yaml"])


def mine(folder: Path, text: str, preprocessing: ImagePreprocessing | None = AS_THEY_ARE) -> Any:
    return open_dataset(entry(folder, text)["mine"], data_root=None, preprocessing=preprocessing)


COLOURS = [[10 * number, 255 - number, number] for number in range(11)]
FOLDERS = "kind: image-masks, path: images, masks: masks"
BY_INDEX = f"{{{FOLDERS}, num_classes: 3, ignore_index: 255}}"
BY_COLOUR = f"{{{FOLDERS}, colours: {{road: [0, 0, 0], sky: [9, 9, 200]}}, ignore_colour: [255, 255, 255]}}"


def write_example(folder: Path, name: str, mask: NDArray[Any] = ZEROS) -> None:
    save(folder / "images" / f"{name}.jpg", image_of(*mask.shape[:2], 1))
    save(folder / "masks" / f"{name}.png", mask)


class TestUsers:
    def test_scenes_in_each_format_are_the_same_examples(self, tmp_path: Path) -> None:
        scenes = open_dataset("digit-scenes", data_root=None, preprocessing=None).batch(0, 40)
        pixels = (scenes.inputs * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        masks = np.where(scenes.targets == IGNORED, 255, scenes.targets).astype(np.uint8)
        table = np.array([*COLOURS, *[[255, 255, 255]] * 245], dtype=np.uint8)
        rows, names = ["image,mask"], [f"{number:02d}" for number in range(40)]
        for name, image, mask in zip(names, pixels, masks, strict=True):
            save(tmp_path / "images" / f"{name}.png", image)
            palette = Image.fromarray(mask, "P")
            palette.putpalette(table.tobytes())
            (tmp_path / "masks").mkdir(exist_ok=True)
            palette.save(tmp_path / "masks" / f"{name}.png")
            save(tmp_path / "zero" / f"{name}.png", np.where(mask == 255, 0, mask + 1).astype(np.uint8))
            save(tmp_path / "coloured" / f"{name}.png", table[mask])
            rows.append(f"images/{name}.png,masks/{name}.png")
        (tmp_path / "list.csv").write_text("\n".join(rows))
        np.savez(tmp_path / "arrays.npz", images=pixels, masks=masks)
        colours = ", ".join(f'"{number}": {colour}' for number, colour in enumerate(COLOURS))
        coloured = f"{FOLDERS.replace('masks: masks', 'masks: coloured')}, ignore_colour: [255, 255, 255]"
        entries = {
            "folders": f"{{{FOLDERS}, num_classes: 11, ignore_index: 255, same_size: true}}",
            "list": "{kind: image-masks, path: list.csv, num_classes: 11, ignore_index: 255, same_size: true}",
            "zero": f"{{{FOLDERS.replace('masks: masks', 'masks: zero')}, num_classes: 11, reduce_zero_label: true}}",
            "colours": f"{{{coloured}, colours: {{{colours}}}}}",
            "arrays": "{kind: npz, task: segmentation, path: arrays.npz, inputs: images, targets: masks,"
            " ignore_index: 255}",
        }
        fingerprints = set()
        for name, text in entries.items():
            dataset = mine(tmp_path, text)
            assert (len(dataset), dataset.num_classes) == (40, 11), name
            assert entry(tmp_path, text)["mine"].has_one_size == (name in ("folders", "list", "arrays"))
            fingerprints.add(dataset.identity.fingerprint)
            for example_id, batch in examples_of(dataset).items():
                number = int("".join(filter(str.isdigit, example_id)))
                assert torch.equal(batch.inputs[0], scenes.inputs[number]), (name, example_id)
                assert torch.equal(batch.targets[0], scenes.targets[number]), (name, example_id)
                assert batch.task == "segmentation"
        assert len(fingerprints) == len(entries)
        assert mine(tmp_path, entries["folders"]).batch(0, 9).targets.shape == (9, 48, 48)
        assert entry(tmp_path, entries["colours"])["mine"].class_names == tuple(map(str, range(11)))
        assert entry(tmp_path, entries["folders"])["mine"].num_classes == 11

    def test_images_of_several_sizes_are_read_one_at_a_time(self, tmp_path: Path) -> None:
        write_example(tmp_path, "a", np.zeros((8, 9), np.uint8))
        write_example(tmp_path, "b/c", np.zeros((5, 9), np.uint8))
        dataset = mine(tmp_path, BY_INDEX, SMALL)
        assert sorted(dataset.ids) == ["a", "b/c"]
        assert sorted(tuple(batch.targets.shape) for batch in examples_of(dataset).values()) == [(1, 5, 9), (1, 8, 9)]
        with pytest.raises(ExampleError, match=r"must have one size: .* is .* pixels, .*. Read them one at a time"):
            dataset.batch(0, 2)
        with pytest.raises(DeclarationError, match=r"images of different sizes: .*; leave out same_size"):
            mine(tmp_path, BY_INDEX.replace("}", ", same_size: true}"))

    @pytest.mark.parametrize(
        ("text", "mask", "message"),
        [
            (BY_INDEX, ZEROS[:, :6], "is 6x5 pixels, and its image .*bad.jpg is 7x5; give both one size"),
            (BY_INDEX, np.eye(5, 7, 1, dtype=np.uint8) * 3, "has the value 3 in 5 pixels, .* row 0, column 1"),
            (BY_INDEX, np.eye(5, 7, dtype=np.uint8) * 3, ".*wanted 0 to 2, or 255 for ignored pixels. Correct"),
            (BY_INDEX, np.full((5, 7), 255, np.uint8), "has ignored pixels alone, .*; leave the image out"),
            (BY_INDEX, np.zeros((5, 7, 3), np.uint8), r"has colours \(Pillow's mode RGB\), .* no colour table"),
            (BY_COLOUR, NINES, r"has the colour \[9, 9, 9\] in 35 pixels, .* row 0, column 0"),
            (BY_COLOUR, np.full((5, 7, 3), 255, np.uint8), "has ignored pixels alone"),
        ],
    )
    def test_a_wrong_mask_is_named_and_stops_no_other(
        self, tmp_path: Path, text: str, mask: NDArray[np.uint8], message: str
    ) -> None:
        good = np.zeros((5, 7, *mask.shape[2:]), np.uint8) if text == BY_COLOUR else ZEROS
        write_example(tmp_path, "good", good)
        write_example(tmp_path, "bad", mask)
        save(tmp_path / "images" / "bad.jpg", image_of(5, 7, 1))
        dataset: MaskedImages = mine(tmp_path, text)
        for position, example_id in enumerate(dataset.ids):
            if example_id == "good":
                assert not dataset.batch(position, position + 1).targets.any()
            else:
                with pytest.raises(ExampleError, match=f"mask .*bad.png {message}"):
                    dataset.batch(position, position + 1)
        (found,) = verify("mine", None, datasets=entry(tmp_path, text), decode=True)
        assert [each.kind for each in found.findings] == ["wrong-mask"]
        assert "bad.png" in found.findings[0].message
        (listed,) = verify("mine", None, datasets=entry(tmp_path, text))
        assert (listed.is_whole, listed.num_images, listed.is_decoded) == (True, 2, False)


def resized(message: str, **fields: Any) -> Refusal:
    fields = {"interpolation": "bilinear", "longer_at_most": 20} | fields
    return Refusal(lambda _: ImagePreprocessing(mean=(), std=(), **fields), FieldsError, message)


def published(
    message: str,
    change: Callable[[Path], object],
    preprocessing: ImagePreprocessing = SMALL,
    error: type[Exception] = MissingDataError,
) -> Refusal:
    def call(root: Path) -> None:
        write_release(root)
        change(root / RELEASE)
        opened("ade20k", root, preprocessing)

    return Refusal(call, error, message)


def two(message: str, *changes: Callable[[Path], object], error: type[Exception] = MissingDataError) -> Refusal:
    """Two examples of users are no dataset any more."""
    examples = [partial(write_example, name=name) for name in ("a", "b")]
    return of(message, BY_INDEX, *examples, *changes, error=error)


def listed(message: str, rows: str, error: type[Exception] = MissingDataError) -> Refusal:
    entry = "{kind: image-masks, path: masks/list.csv, num_classes: 3}"
    image = partial(write_example, name="../masks/a")
    return of(message, entry, partial(write_example, name="a"), image, file("masks/list.csv", rows), error=error)


def masked(message: str, masks: NDArray[Any]) -> Refusal:
    entry = "{kind: npz, task: segmentation, path: x.npz, ignore_index: 255}"
    return of(message, entry, arrays("x.npz", inputs=np.zeros((2, 5, 7, 3), np.uint8), targets=masks))


def folders(message: str, fields: str) -> Refusal:
    return wrong(re.escape(message), f"{{{FOLDERS}, {fields}}}")


def remove(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).unlink()


def emptied(root: Path) -> None:
    for path in (root / "images" / "validation").iterdir():
        path.unlink()


REFUSALS = (
    resized("longer_at_most must be at least resize, got 20 for None"),
    resized("longer_at_most must be at least resize, got 20 for 21", resize=21),
    resized("crop must be left out", resize=16, crop=16),
    resized("interpolation must be bilinear", resize=16, interpolation="bicubic"),
    published(
        "1 of 3 images without a mask: .*ADE_val_00000002.jpg. Put a PNG of the same name in",
        remove("annotations/validation/ADE_val_00000002.png"),
    ),
    published(
        "1 of 3 masks without an image: .*ADE_val_00000002.png. Remove the mask",
        remove("images/validation/ADE_val_00000002.jpg"),
    ),
    published("has no image in images/validation", emptied),
    published("not found", lambda release: release.rename(release.with_name("elsewhere"))),
    published("never cropped: leave out crop of the checkpoint's", Path.exists, CROPPED, DeclarationError),
    two("has 1 of 2 images without a mask: .*a.jpg. Put a PNG of the same name in .*masks", remove("masks/a.png")),
    two("1 of 3 masks without an image: .*extra.png. Remove", lambda root: save(root / "masks/extra.png", ZEROS)),
    two("masks does not exist. Correct its path", lambda root: (root / "masks").rename(root / "elsewhere")),
    two("are the same example; remove one of them", lambda root: save(root / "images/a.png", image_of(5, 7, 1))),
    two("cannot read mask .*a.png: it is not recognised", file("masks/a.png", "mask"), error=ExampleError),
    two(
        "mask .*a.png is a JPEG; save masks as PNG",
        lambda root: save(root / "masks/a.png", ZEROS, format="JPEG"),
        error=ExampleError,
    ),
    listed("has no column 'mask'.* Name it by image_column or mask", "image,label\na.png,a.png", DeclarationError),
    listed("line 2: cannot find mask .*b.png", "image,mask\na.png,b.png"),
    listed("line 2: ../a.png is not below the folder of the CSV file", "image,mask\na.png,../a.png"),
    listed("line 3: a.png was listed before, in line 2", "image,mask\na.png,a.png\na.png,a.png"),
    listed("lists no image", "image,mask"),
    masked(r"must be whole numbers of the shape \(2, 5, 7\), .* got uint8", np.zeros((2, 5, 6), np.uint8)),
    masked(r"must be whole numbers of the shape \(2, 5, 7\)", np.zeros((1, 5, 7), np.uint8)),
    masked("got float32", np.zeros((2, 5, 7), np.float32)),
    masked("mask 0 has the value -3 in 5 pixels", np.eye(5, 7, dtype=np.int16)[None].repeat(2, 0) * -3),
    masked("mask 0 has ignored pixels alone", np.full((2, 5, 7), 255, np.uint8)),
    wrong("masks: must name the folder of the masks of x, got None", "{kind: image-masks, path: x, num_classes: 3}"),
    wrong("masks: must be left out for a CSV", "{kind: image-masks, path: x.csv, masks: y, num_classes: 3}"),
    wrong("num_classes: must be given without class_names or colours", f"{{{FOLDERS}}}"),
    folders("class_names: must be 3 names, as many as", "num_classes: 3, class_names: [a, b]"),
    folders("class_names: must be different names, got 'a' twice", "class_names: [a, a]"),
    folders("ignore_colour: must be left out without", "num_classes: 3, ignore_colour: [0, 0, 0]"),
    folders("task: must be segmentation", "num_classes: 3, task: classification"),
    folders("colours: must be different, got [0, 0, 0]", "colours: {a: [0, 0, 0], b: [0, 0, 0]}"),
    folders("colours: must have values from 0 to 255", "colours: {a: [0, 0, 0], b: [0, 0, 256]}"),
    folders("colours: must have at least two classes, got 1", "colours: {a: [0, 0, 0]}"),
    folders("ignore_index", "colours: {road: [0, 0, 0], sky: [9, 9, 200]}, ignore_index: 3"),
    wrong("ignore_index: must be left out for classification", "{kind: npz, path: x, ignore_index: 3}"),
    wrong("domain: must be images for segmentation", "{kind: npz, path: x, task: segmentation, domain: series}"),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.message[:60])
def test_images_and_masks_that_do_not_go_together_are_refused(refusal: Refusal, tmp_path: Path) -> None:
    check(refusal, tmp_path)


OF_TRAINING = "6008c347a97983818d54506f0a591c6744f3abe33fb8a7f7786520d0792144f4"


class TestDigitScenes:
    @pytest.mark.parametrize(
        ("split", "size", "fingerprint"),
        [
            ("test", 400, "1127109a10dfe87d29d6d4d1c7d14bc536dd599ef59aa2eeda363e4ee5a45024"),
            pytest.param("train", 4000, OF_TRAINING, marks=pytest.mark.slow),
        ],
    )
    def test_bytes_are_fixed(self, split: str, size: int, fingerprint: str) -> None:
        made = digit_scenes_impl.made(split)
        assert (len(made), made.identity.fingerprint) == (size, fingerprint)
        counts = Counter(made.targets.ravel().tolist())
        assert counts.keys() == set(range(-1, 11))
        assert 0.7 < counts[10] / made.targets.size < 0.8
        assert counts[IGNORED] / made.targets.size < 0.15

    def test_a_scene_has_digits_of_its_split_on_its_own_part_of_a_photograph(self) -> None:
        whole = [each[:426] for each in load_sample_images().images]
        halves = [cv2.resize(each, (320, 213), interpolation=cv2.INTER_AREA) for each in whole]
        parts = {split: digit_scenes_impl.backgrounds(split) for split in ("train", "test")}
        for train, test, half in zip(parts["train"], parts["test"], halves, strict=True):
            assert (train.shape, test.shape) == ((213, 240, 3), (213, 80, 3))
            assert np.abs(np.concatenate([train, test], 1).astype(int) - half).max() <= 1

    def test_labels_follow_from_the_ink(self) -> None:
        scans = load_digits().images[:1]
        ink = digit_scenes_impl.drawn(scans)[0]
        # Bilinear with half-pixel centres, which OpenCV computes for floats without rounding.
        wanted = cv2.resize(scans[0].astype(np.float64), (16, 16), interpolation=cv2.INTER_LINEAR) * 16
        assert np.array_equal(ink, wanted)
        grey = np.full((60, 60, 3), 100, dtype=np.uint8)
        # The middle of all choices, and of the range of colours.
        random = iter([0, *[2**63] * 110])
        pixels, targets = digit_scenes_impl._scene([grey], ink[None], np.array([7]), random)
        # The first digit is in the middle, where the others may reach its outer 4 rows and columns alone.
        for row, column in np.ndindex(8, 8):
            opacity = int(ink[4 + row, 4 + column])
            wanted_label = 7 if opacity >= 160 else 10 if opacity < 64 else IGNORED
            assert targets[20 + row, 20 + column] == wanted_label
            assert pixels[20 + row, 20 + column].tolist() == [(100 * (256 - opacity) + 128 * opacity + 128) >> 8] * 3
        assert set(np.unique(targets)) == {-1, 7, 10}
        assert 256 < (pixels != 100).all(2).sum() < 6 * 256
