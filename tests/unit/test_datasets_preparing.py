"""Unpacking writes the files of a dataset below its folder and nothing else, and goes on where it was interrupted."""

import io
import multiprocessing
import os
import signal
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import preparing
from robench.datasets.archives import Member, read_members
from robench.datasets.preparing import Unpacked, limits_of, unpack
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.uea import UEA_SETS

A, C, V2, SKETCH = (PUBLISHED_SETS[f"imagenet-{name}"] for name in ("a", "c", "v2", "sketch"))
IMAGES = {"n01498041/x.jpg": b"first", "n01498041/y.jpg": b"second", "n01531178/x.jpg": b"third"}


def tar_of(path: Path, files: dict[str, bytes], *, before: Sequence[tarfile.TarInfo] = ()) -> Path:
    with tarfile.open(path, "w") as archive:
        for info in before:
            archive.addfile(info)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o777
            archive.addfile(info, io.BytesIO(content))
    return path


def below(folder: Path) -> dict[str, bytes]:
    """All files below a folder, links among them, hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): b"" if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    (tmp_path / "downloads").mkdir()
    return tmp_path / "downloads"


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    return tmp_path / "data"


class TestPlaces:
    """Whatever an archive calls the set's folder, its class folders end where the dataset is read from."""

    @pytest.mark.parametrize("top", ["", "./", "imagenet-a/", "./imagenet-a/"])
    def test_the_set_s_own_folder_is_left_out(self, downloads: Path, data_root: Path, top: str) -> None:
        archive = tar_of(downloads / "imagenet-a.tar", {f"{top}{name}": content for name, content in IMAGES.items()})
        unpacked = unpack(archive, A, data_root)
        assert unpacked == Unpacked(folder=data_root / "imagenet-a", num_written=3, num_kept=0)
        assert below(data_root) == {f"imagenet-a/{name}": content for name, content in IMAGES.items()}

    def test_the_folders_of_v2_are_numbers(self, downloads: Path, data_root: Path) -> None:
        archive = tar_of(downloads / "x.tar.gz", {"imagenetv2-matched-frequency-format-val/12/x.jpeg": b"1"})
        unpack(archive, V2, data_root)
        assert below(data_root) == {"imagenet-v2/12/x.jpeg": b"1"}

    def test_a_zip_is_unpacked_likewise(self, downloads: Path, data_root: Path) -> None:
        with zipfile.ZipFile(downloads / "ImageNet-Sketch.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("sketch/", b"")
            archive.writestr("sketch/n01440764/sketch_0.JPEG", b"drawn" * 1000)
        unpack(downloads / "ImageNet-Sketch.zip", SKETCH, data_root)
        assert below(data_root) == {"imagenet-sketch/n01440764/sketch_0.JPEG": b"drawn" * 1000}

    def test_neither_modes_nor_times_are_taken_over(self, downloads: Path, data_root: Path) -> None:
        unpack(tar_of(downloads / "x.tar", IMAGES), A, data_root)
        status = (data_root / "imagenet-a" / "n01498041" / "x.jpg").stat()
        assert not status.st_mode & 0o111
        assert status.st_mtime > 10**9


class TestRefused:
    """Evil archives leave no file behind: none outside the target, and none inside."""

    def refused(self, archive: Path, data_root: Path) -> str:
        around = below(data_root.parent)
        with pytest.raises(MissingDataError) as caught:
            unpack(archive, A, data_root)
        assert below(data_root.parent) == around
        return str(caught.value)

    @pytest.mark.parametrize("name", ["../evil.jpg", "n01498041/../../../evil.jpg", "/tmp/robench-evil.jpg"])
    def test_names_that_lead_outside(self, downloads: Path, data_root: Path, name: str) -> None:
        self.refused(tar_of(downloads / "x.tar", IMAGES | {name: b"evil"}), data_root)
        assert not os.path.lexists("/tmp/robench-evil.jpg")

    def test_a_link_and_then_a_file_through_it(self, downloads: Path, data_root: Path) -> None:
        info = tarfile.TarInfo("n01498041/up")
        info.type, info.linkname = tarfile.SYMTYPE, str(downloads)
        archive = tar_of(downloads / "x.tar", {"n01498041/up/evil.jpg": b"evil"}, before=[info])
        self.refused(archive, data_root)

    def test_duplicates_that_become_so_without_the_set_s_folder(self, downloads: Path, data_root: Path) -> None:
        twice = {"n01498041/x.jpg": b"1", "imagenet-a/n01498041/x.jpg": b"2"}
        message = self.refused(tar_of(downloads / "x.tar", twice), data_root)
        assert "holds the same file in a folder of dataset 'imagenet-a' and beside it" in message

    def test_bombs(self, downloads: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        archive = tar_of(downloads / "x.tar", IMAGES)
        for limits in ({"max_bytes": 10, "max_members": 100}, {"max_bytes": 1000, "max_members": 2}):
            monkeypatch.setattr(preparing, "limits_of", lambda published, found=limits: found)
            assert "declares more than this dataset can have" in self.refused(archive, data_root)

    def test_an_archive_of_another_dataset(self, downloads: Path, data_root: Path) -> None:
        files = {f"imagenet-r/{name}": content for name, content in IMAGES.items()} | {"imagenet-r/README.txt": b""}
        message = self.refused(tar_of(downloads / "imagenet-r.tar", files), data_root)
        assert "holds nothing of dataset 'imagenet-a': it holds imagenet-r/n01498041/x.jpg" in message
        assert "wanted CLASS/NAME.JPEG. Its archives: imagenet-a.tar" in message

    def test_an_archive_without_class_folders(self, downloads: Path, data_root: Path) -> None:
        self.refused(tar_of(downloads / "x.tar", {"x.jpg": b"1", "some/x.jpg": b"1"}), data_root)
        assert "it holds no file" in self.refused(tar_of(downloads / "y.tar", {}), data_root)

    def test_a_link_in_the_target_is_not_followed(self, downloads: Path, data_root: Path) -> None:
        elsewhere = data_root.parent / "elsewhere"
        elsewhere.mkdir()
        (data_root / "imagenet-a").mkdir(parents=True)
        (data_root / "imagenet-a" / "n01498041").symlink_to(elsewhere)
        with pytest.raises(UsageError, match="n01498041 is a link, which unpacking does not follow"):
            unpack(tar_of(downloads / "x.tar", IMAGES), A, data_root)
        assert below(elsewhere) == {}

    def test_a_file_that_is_a_link_is_replaced_and_not_written_through(self, downloads: Path, data_root: Path) -> None:
        precious = data_root.parent / "precious.txt"
        precious.write_bytes(b"first")
        folder = data_root / "imagenet-a" / "n01498041"
        folder.mkdir(parents=True)
        (folder / "x.jpg").symlink_to(precious)
        unpack(tar_of(downloads / "x.tar", {"n01498041/x.jpg": b"OTHER"}), A, data_root)
        assert precious.read_bytes() == b"first"
        assert not (folder / "x.jpg").is_symlink()

    def test_the_data_root_and_the_set_s_folder_may_be_links(self, downloads: Path, data_root: Path) -> None:
        (data_root.parent / "disk").mkdir()
        data_root.mkdir()
        (data_root / "imagenet-a").symlink_to(data_root.parent / "disk")
        unpack(tar_of(downloads / "x.tar", IMAGES), A, data_root)
        assert below(data_root.parent / "disk") == IMAGES


class TestResuming:
    """What was unpacked before is kept; what was cut off is not there."""

    def test_a_second_call_writes_nothing(self, downloads: Path, data_root: Path) -> None:
        archive = tar_of(downloads / "x.tar", IMAGES)
        unpack(archive, A, data_root)
        image = data_root / "imagenet-a" / "n01531178" / "x.jpg"
        before = image.stat().st_ino
        assert unpack(archive, A, data_root) == Unpacked(folder=data_root / "imagenet-a", num_written=0, num_kept=3)
        assert image.stat().st_ino == before
        # A file of another size is written anew.
        image.write_bytes(b"thi")
        assert unpack(archive, A, data_root).num_written == 1
        assert below(data_root / "imagenet-a") == IMAGES

    @pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError(28, "No space left on device")])
    def test_an_interrupted_unpacking_leaves_whole_files_and_is_taken_up(
        self, downloads: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
    ) -> None:
        archive = tar_of(downloads / "x.tar", IMAGES)

        class Interrupting(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                if self.tell() >= 3:
                    raise interruption
                return super().read(3)

        def interrupted(path: Path) -> Iterator[Member]:
            for number, each in enumerate(read_members(path)):
                yield replace(each, open=lambda: Interrupting(b"second")) if number == 1 else each

        with monkeypatch.context() as patched:
            patched.setattr(preparing, "read_members", interrupted)
            with pytest.raises((KeyboardInterrupt, UsageError)):
                unpack(archive, A, data_root)
        assert below(data_root) == {"imagenet-a/n01498041/x.jpg": b"first"}
        assert unpack(archive, A, data_root) == Unpacked(folder=data_root / "imagenet-a", num_written=2, num_kept=1)
        assert below(data_root / "imagenet-a") == IMAGES

    def test_what_a_killed_unpacking_left_half_written_is_cleared_away(self, downloads: Path, data_root: Path) -> None:
        work = data_root / "imagenet-a" / preparing.WORK_FOLDER
        work.mkdir(parents=True)
        (work / "unfinished").write_bytes(b"half")
        unpack(tar_of(downloads / "x.tar", IMAGES), A, data_root)
        assert below(data_root / "imagenet-a") == IMAGES


class TestWorkFolder:
    """What is unfinished lies where no member can, and one unpacking at a time writes there."""

    @pytest.mark.parametrize("name", [".1.unpacking/x", ".1.unpacking", ".robench-unpackin", "n01498041/.unfinished"])
    def test_no_name_of_a_member_stops_later_unpackings(self, downloads: Path, data_root: Path, name: str) -> None:
        files = IMAGES | {name: b"odd"}
        for number in range(3):
            unpacked = unpack(tar_of(downloads / "x.tar", files), A, data_root)
            assert unpacked.num_written == (0 if number else 4)
            assert below(data_root / "imagenet-a") == files

    @pytest.mark.parametrize("top", ["", "imagenet-a/"])
    @pytest.mark.parametrize("name", ["unfinished", "x/y"])
    def test_a_member_there_is_refused(self, downloads: Path, data_root: Path, name: str, top: str) -> None:
        archive = tar_of(downloads / "x.tar", IMAGES | {f"{top}.Robench-Unpacking/{name}": b"evil"})
        with pytest.raises(MissingDataError, match=r"'\.Robench-Unpacking/.*' lies in \.robench-unpacking"):
            unpack(archive, A, data_root)
        assert not data_root.exists()

    @pytest.mark.parametrize("blocker", ["file", "link"])
    def test_a_work_folder_that_is_none_is_a_usage_error(self, downloads: Path, data_root: Path, blocker: str) -> None:
        work = data_root / "imagenet-a" / preparing.WORK_FOLDER
        work.parent.mkdir(parents=True)
        work.write_bytes(b"mine") if blocker == "file" else work.symlink_to(downloads)
        with pytest.raises(UsageError, match=r"\.robench-unpacking"):
            unpack(tar_of(downloads / "x.tar", IMAGES), A, data_root)
        assert work.is_symlink() or work.read_bytes() == b"mine"

    def test_a_second_unpacking_into_the_same_folder_is_refused_while_one_is_under_way(
        self, downloads: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archive = tar_of(downloads / "x.tar", IMAGES)
        refusals: list[str] = []

        def watched(path: Path) -> Iterator[Member]:
            for each in read_members(path):
                with monkeypatch.context() as patched:
                    patched.setattr(preparing, "read_members", read_members)
                    with pytest.raises(UsageError) as caught:
                        unpack(archive, A, data_root)
                refusals.append(str(caught.value))
                yield each

        with monkeypatch.context() as patched:
            patched.setattr(preparing, "read_members", watched)
            assert unpack(archive, A, data_root).num_written == 3
        assert [message for message in refusals if "is in progress; wait" in message] == refusals
        assert len(refusals) == 3
        assert below(data_root / "imagenet-a") == IMAGES
        # Another folder is another matter, and so is this one afterwards.
        assert unpack(archive, A, data_root.with_name("elsewhere")).num_written == 3
        assert unpack(archive, A, data_root).num_kept == 3

    def test_several_processes_at_once_leave_the_dataset_whole(self, downloads: Path, data_root: Path) -> None:
        files = {f"n01498041/{number}.jpg": bytes([number]) * 50_000 for number in range(40)}
        archive = tar_of(downloads / "x.tar", files)
        with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as pool:
            ended = [pool.submit(attempted, archive, data_root) for _ in range(6)]
            outcomes = {each.result() for each in ended}
        assert "done" in outcomes
        assert all(outcome == "done" or "is in progress; wait" in outcome for outcome in outcomes)
        assert below(data_root / "imagenet-a") == files

    def test_a_killed_unpacking_keeps_nobody_out(self, downloads: Path, data_root: Path) -> None:
        archive = tar_of(downloads / "x.tar", IMAGES)
        context = multiprocessing.get_context("fork")
        killed = context.Process(target=killed_while_unpacking, args=(archive, data_root))
        killed.start()
        killed.join()
        assert killed.exitcode == -9
        assert (data_root / "imagenet-a" / preparing.WORK_FOLDER).exists()
        assert unpack(archive, A, data_root) == Unpacked(folder=data_root / "imagenet-a", num_written=2, num_kept=1)
        assert below(data_root / "imagenet-a") == IMAGES


def attempted(archive: Path, data_root: Path) -> str:
    try:
        unpack(archive, A, data_root)
    except UsageError as error:
        return str(error)
    return "done"


def killed_while_unpacking(archive: Path, data_root: Path) -> None:
    def killing(path: Path) -> Iterator[Member]:
        for number, each in enumerate(read_members(path)):
            if number == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            yield each

    preparing.read_members = killing  # type: ignore[attr-defined]  # in this process alone, which ends
    unpack(archive, A, data_root)


class TestFaults:
    def test_a_damaged_zip_keeps_no_part_of_the_damaged_file(self, downloads: Path, data_root: Path) -> None:
        path = downloads / "x.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("sketch/n01440764/a.JPEG", b"whole")
            archive.writestr("sketch/n01440764/b.JPEG", b"garbled")
        path.write_bytes(path.read_bytes().replace(b"garbled", b"gXrbled"))
        with pytest.raises(MissingDataError, match=r"is damaged .*Bad CRC"):
            unpack(path, SKETCH, data_root)
        assert below(data_root) == {"imagenet-sketch/n01440764/a.JPEG": b"whole"}

    def test_a_member_shorter_than_it_declares_is_not_kept(
        self, downloads: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def short(path: Path) -> Iterator[Member]:
            return (replace(each, open=lambda: io.BytesIO(b"x")) for each in read_members(path))

        monkeypatch.setattr(preparing, "read_members", short)
        with pytest.raises(MissingDataError, match=r"n01498041/x\.jpg is shorter than the 5 bytes that it declares"):
            unpack(tar_of(downloads / "x.tar", IMAGES), A, data_root)
        assert below(data_root) == {}

    def test_a_folder_that_cannot_be_written_is_a_usage_error(self, downloads: Path, data_root: Path) -> None:
        data_root.write_text("a file")
        with pytest.raises(UsageError, match="cannot write"):
            unpack(tar_of(downloads / "x.tar", IMAGES), A, data_root)

    def test_a_set_without_class_folders_in_its_archive_says_so(self, downloads: Path, data_root: Path) -> None:
        archive = tar_of(downloads / "ILSVRC2012_img_val.tar", {"ILSVRC2012_val_00000001.JPEG": b"1"})
        with pytest.raises(UsageError, match="it has no class folders"):
            unpack(archive, PUBLISHED_SETS["imagenet-1k"], data_root)


UEA_FOLDERS = {declared.folder for declared in UEA_SETS}
UNPACKED = [
    published
    for published in PUBLISHED_SETS.values()
    if published.folder not in UEA_FOLDERS and (published.archives or published.num_bytes or published.unpacked_bytes)
]


@pytest.mark.parametrize("published", UNPACKED, ids=lambda published: published.name)
def test_limits_leave_room_for_what_is_published_and_little_more(published: object) -> None:
    limits = limits_of(published)  # type: ignore[arg-type]  # a published set
    num_bytes = published.unpacked_bytes or published.num_bytes  # type: ignore[attr-defined]  # as above
    assert num_bytes < limits["max_bytes"] <= 3 * num_bytes
    num_files = published.num_files or published.num_images  # type: ignore[attr-defined]  # as above
    assert 1.1 * num_files < limits["max_members"] < 3 * num_files + 20_000
