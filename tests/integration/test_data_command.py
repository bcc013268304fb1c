"""``robench data``: from a downloaded archive to a verified dataset, and what every way of going wrong says."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from conftest import Robench
from image_forms import class_folders
from PIL import Image

from robench.datasets import DATASETS
from robench.datasets.base import class_subset
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.trajectories import OFFLINE_SETS

EMBEDDED = {name for name, declared in (*DATASETS.items(), *OFFLINE_SETS.items()) if declared.folder is None}


@pytest.fixture(scope="module")
def imagenet_o(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive as that of ImageNet-O: 2,000 images of 200 classes, not as many of each."""
    file = io.BytesIO()
    Image.new("RGB", (16, 16), "red").save(file, "JPEG")
    content = file.getvalue()
    archive: Path = tmp_path_factory.mktemp("downloads") / "imagenet-o.tar"
    classes = list(class_subset("imagenet-o"))
    with tarfile.open(archive, "w") as tar:
        readme = tarfile.TarInfo("imagenet-o/README.txt")
        tar.addfile(readme)
        for number in range(2000):
            wordnet_id = classes[number % 200 if number < 1900 else 0]
            info = tarfile.TarInfo(f"imagenet-o/{wordnet_id}/thing_{number / 7:.8f}.JPEG")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return archive


@pytest.fixture
def data_root(imagenet_o: Path, tmp_path: Path, robench: Robench) -> Path:
    """ImageNet-O as unpacked by the command, in a copy of its own."""
    prepared = imagenet_o.parent / "prepared"
    if not prepared.exists():
        ended = robench("data", "prepare", "imagenet-o", "--archive", imagenet_o, "--data-root", prepared)
        assert ended.code == 0
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    return tmp_path


def findings(robench: Robench, *arguments: object) -> tuple[int, list[dict[str, Any]]]:
    ended = robench("data", "verify", *arguments, "--json")
    return ended.code, json.loads(ended.stdout)


class TestList:
    def test_every_set_has_place_size_licence_and_folder(self, robench: Robench) -> None:
        entries = {entry["name"]: entry for entry in json.loads(robench("data", "list", "--json").stdout)}
        assert entries.keys() == EMBEDDED | PUBLISHED_SETS.keys() | OFFLINE_SETS.keys()
        assert all(entry["where"] and entry["licence"] for entry in entries.values())
        assert entries["imagenet-a"]["num_bytes"] == 687_552_512
        assert entries["imagenet-c"]["archives"] == ["noise.tar", "blur.tar", "weather.tar", "digital.tar", "extra.tar"]
        assert len(entries["imagenet-c"]["datasets"]) == 95
        assert {name for name, entry in entries.items() if entry["folder"] is None} == EMBEDDED

    def test_text_shows_the_same_names_and_sizes(self, robench: Robench) -> None:
        lines = {line.split()[0]: line for line in robench("data", "list").stdout.splitlines()[1:]}
        assert lines.keys() == EMBEDDED | PUBLISHED_SETS.keys() | OFFLINE_SETS.keys()
        assert "66,022,818,580" in lines["imagenet-c"]
        assert "embedded" in lines["digits-r"]

    def test_it_starts_without_torch(self) -> None:
        code = (
            "import sys; sys.argv = ['robench', 'data', 'list']\n"
            "from robench.cli.main import main\ntry:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
            "print(*[name for name in ('torch', 'timm', 'PIL') if name in sys.modules], file=sys.stderr)"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ended.stderr.strip() == ""


class TestPrepare:
    def test_the_archive_becomes_a_dataset_that_is_whole(self, robench: Robench, data_root: Path) -> None:
        ended = robench("data", "verify", "imagenet-o", "--data-root", data_root, "--decode")
        assert ended.code == 0
        counts = f"2,000 images of 200 classes, class folders in {data_root / 'imagenet-o'}"
        assert ended.stdout == f"whole  imagenet-o: {counts}; every image was read\n"

    def test_again_it_keeps_what_is_there(self, robench: Robench, data_root: Path, imagenet_o: Path) -> None:
        (data_root / "imagenet-o" / "README.txt").unlink()
        ended = robench("data", "prepare", "imagenet-o", "--archive", imagenet_o, "--data-root", data_root)
        assert ended.stdout == f"{data_root / 'imagenet-o'}: 1 files written, 2,000 existed already.\n"
        assert f"robench data verify imagenet-o --data-root {data_root}" in ended.stderr

    def test_the_data_root_may_be_an_environment_variable(
        self, robench: Robench, imagenet_o: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ROBENCH_DATA", str(tmp_path / "there"))
        assert robench("data", "prepare", "imagenet-o", "--archive", imagenet_o).code == 0
        assert (tmp_path / "there" / "imagenet-o" / "n01443537").is_dir()

    def test_an_unsafe_archive_ends_with_4_and_writes_nothing(self, robench: Robench, tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "evil.tar", "w") as tar:
            tar.addfile(tarfile.TarInfo("n01443537/fine.JPEG"))
            tar.addfile(tarfile.TarInfo("../evil.JPEG"))
        ended = robench(
            *("data", "prepare", "imagenet-o", "--archive", tmp_path / "evil.tar", "--data-root", tmp_path / "data")
        )
        assert ended.code == 4
        assert "'../evil.JPEG' would leave the folder" in ended.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["evil.tar"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("imagenet-x", "--archive", "x.tar", "--data-root", "."), "unknown published dataset 'imagenet-x'"),
            (("digits", "--archive", "x.tar", "--data-root", "."), "unknown published dataset 'digits'"),
            (("imagenet-a", "--archive", "x.tar"), "--data-root DIR or the variable ROBENCH_DATA"),
            (("imagenet-a", "--archive", "none.tar", "--data-root", "."), "none.tar: No such file"),
            (("imagenet-a", "--data-root", "."), "Missing option '--archive'"),
            (("imagenet-1k", "--archive", "x.tar", "--data-root", "."), "it has no class folders"),
        ],
    )
    def test_what_cannot_be_asked_ends_with_2(
        self,
        robench: Robench,
        arguments: tuple[str, ...],
        message: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        ended = robench("data", "prepare", *arguments)
        assert ended.code == 2
        assert message in ended.stderr


class TestVerify:
    def test_json_says_all_of_a_whole_set(self, robench: Robench, data_root: Path) -> None:
        assert findings(robench, "imagenet-o", "--data-root", data_root) == (
            0,
            [
                {
                    "dataset": "imagenet-o",
                    "is_whole": True,
                    "folder": str(data_root / "imagenet-o"),
                    "form": "class folders",
                    "has_own_ids": False,
                    "num_images": 2000,
                    "num_classes": 200,
                    "is_decoded": False,
                    "findings": [],
                }
            ],
        )

    def test_a_damaged_set_ends_with_4_and_each_damage_is_told(self, robench: Robench, data_root: Path) -> None:
        place = data_root / "imagenet-o"
        first, second, *_ = sorted((place / "n01443537").iterdir())
        first.write_text("text")
        second.write_bytes(second.read_bytes()[:-100])
        shutil.rmtree(place / "n01704323")
        code, (found,) = findings(robench, "imagenet-o", "--data-root", data_root, "--decode")
        assert code == 4
        kinds = [finding["kind"] for finding in found["findings"]]
        assert sorted(kinds) == ["corrupt-image", "missing-class", "no-image", "wrong-count"]
        assert all(finding["is_problem"] for finding in found["findings"])

    def test_text_shows_ten_of_a_kind_and_counts_the_rest(self, robench: Robench, data_root: Path) -> None:
        for path in list((data_root / "imagenet-o" / "n01443537").iterdir())[:13]:
            path.write_bytes(b"")
        ended = robench("data", "verify", "imagenet-o", "--data-root", data_root)
        lines = ended.stdout.splitlines()
        assert ended.code == 4
        assert lines[0].startswith("WRONG  imagenet-o: 2,000 images of 200 classes, class folders in ")
        assert "; no image was read" in lines[0]
        assert sum(line.endswith("has zero bytes; restore it") for line in lines) == 10
        assert lines[-1] == "  empty-file: and 3 more (all of them with --json)"

    def test_harmless_findings_end_with_0(self, robench: Robench, data_root: Path) -> None:
        first = min((data_root / "imagenet-o" / "n01443537").iterdir())
        Image.new("CMYK", (16, 16)).save(first, "JPEG")
        code, (found,) = findings(robench, "imagenet-o", "--data-root", data_root, "--decode")
        assert (code, [finding["is_problem"] for finding in found["findings"]]) == (0, [False])

    def test_an_absent_set_ends_with_4_and_says_what_was_tried(self, robench: Robench, tmp_path: Path) -> None:
        ended = robench("data", "verify", "imagenet-sketch", "--data-root", tmp_path)
        assert ended.code == 4
        assert f"{tmp_path / 'imagenet-sketch'}: absent" in ended.stdout
        assert robench("data", "verify", "imagenet-sketch").code == 4

    def test_the_95_parts_of_imagenet_c_take_a_line_each(self, robench: Robench, tmp_path: Path) -> None:
        (tmp_path / "imagenet-c" / "fog" / "1" / "n01440764").mkdir(parents=True)
        lines = robench("data", "verify", "imagenet-c", "--data-root", tmp_path).stdout.splitlines()
        assert sum(line.startswith("absent imagenet-c/") for line in lines) == 94
        assert any(line.startswith("WRONG  imagenet-c/fog/1: 0 images of 0 classes") for line in lines)
        assert any(line.startswith("The first absent one: dataset 'imagenet-c/g") for line in lines)

    def test_an_embedded_dataset_needs_no_data_root(self, robench: Robench) -> None:
        ended = robench("data", "verify", "digits-a")
        assert ended.code == 0
        assert ended.stdout.startswith("whole  digits-a: 74 images of 10 classes")


@pytest.mark.parametrize("words", [("data",), ("data", "list"), ("data", "verify"), ("data", "prepare")])
def test_every_part_has_help(robench: Robench, words: tuple[str, ...]) -> None:
    ended = robench(*words, "--help")
    assert ended.code == 0
    assert ended.stdout.startswith(f"Usage: robench {' '.join(words)}")


def test_images_are_packed_for_a_model(robench: Any, tmp_path: Path) -> None:
    class_folders(tmp_path)
    ended = robench("data", "pack", "imagenet-1k", "--model", "deit-tiny", "--data-root", tmp_path)
    assert ended.code == 0, ended.stderr
    (path,) = (tmp_path / "packed").glob("imagenet-1k-*.pixels")
    assert ended.stdout == f"{path}: 40 images, {40 * 224 * 224 * 3:,} bytes\n"
    refused = robench("data", "pack", "digits", "--data-root", tmp_path)
    assert refused.code == 2
    assert "dataset 'digits' has no encoded images to pack" in refused.stderr
    assert "--data-root" in robench("data", "pack", "imagenet-1k").stderr
