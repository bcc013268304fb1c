"""``robench table`` and ``make tables``: what is printed, written and refused; no torch, the same bytes twice."""

import io
import json
import lzma
import os
import re
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ROOT
from papers_examples import load_published, records, registry, shipped_tables

from robench.cli.table_command import command
from robench.core.errors import StoreError, StoreUnwritableError, UnknownNameError, UsageError
from robench.declare import read_registries
from robench.papers import archive as archive_module
from robench.papers import reading
from robench.papers.archive import packed, unpacked
from robench.store import FolderStore

MODELS = ("digits-symvit", "digits-rpc-released-symvit")
COMMITTED = ROOT / "reports" / "tables"
FOLDERS = (COMMITTED, ROOT / "reports" / "twins")


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == 0
    return done.stdout


def documents(text: str) -> list[Any]:
    """JSON documents that stand one after the other."""
    decoder, found = json.JSONDecoder(), []
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        found.append(document)
        text = text.lstrip()[end:]
    return found


@pytest.fixture(autouse=True)
def shipped_files_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the registry and the tables that come with robench once in this module."""
    monkeypatch.setattr(reading, "load_published", load_published)
    monkeypatch.setattr(reading, "read_registries", lambda files: read_registries(files) if files else registry())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which twins of one table are measured on a few examples each, one of them with three seeds."""
    folder: Path = tmp_path_factory.mktemp("results")
    store = FolderStore(folder)
    for number, model in enumerate(("digits-symvit", "digits-symvit@1", "digits-symvit@2", MODELS[1])):
        for record in records("digits-shift", model, 1 + number):
            store.put(record)
    return folder


@pytest.fixture(scope="module")
def measured(results: Path) -> Any:
    (document,) = documents(run("rpc:1", "--results", results, "--json"))
    return document


def test_a_real_store_fills_twins_and_nothing_of_the_paper(measured: Any, results: Path) -> None:
    assert measured["table"] == "rpc:1"
    cells = [cell for row in measured["rows"] for cell in row["cells"].values()]
    assert len(cells) == 35
    assert {cell["verdict"] for cell in cells} == {"not measured"}
    assert {cell["measured"] for cell in cells} == {None}
    (document,) = documents(run("rpc:1", "--twin", "--results", results, "--json"))
    twins = {row["model"]: row["cells"] for row in document["rows"]}
    filled = [model for model, row in twins.items() if any(cell["measured"] is not None for cell in row.values())]
    assert filled == list(MODELS)
    assert len(twins) == 5
    # 1, 2 and 3 of 20 are wrong with three seeds, 4 with the other model.
    of_seeds, single = (twins[model] for model in MODELS)
    keys = ("clean/top1_accuracy", "clean/top5_accuracy", "digits-o/aupr")
    first, second, aupr = (f"digits-shift/{key}" for key in keys)
    corrupted = "digits-c/digits-c/mean_corruption_error"
    assert (of_seeds[first]["measured"], of_seeds[first]["num_seeds"]) == (pytest.approx(90.0), 3)
    assert of_seeds[first]["low"] == pytest.approx(90 - 4.302652729911275 * 5 / 3**0.5)
    assert (single[first]["measured"], single[first]["num_seeds"]) == (pytest.approx(80.0), 1)
    assert single[second]["measured"] == pytest.approx(100.0)
    assert single[aupr]["measured"] is not None
    assert single[corrupted]["measured"] is None
    assert single[corrupted]["reason"] == "robench reproduce rpc:1 --twin --rows digits-rpc-released-symvit"


def test_each_format_prints_the_table(results: Path) -> None:
    for name, wanted in (("text", "rpc:5: "), ("md", "# rpc:5: "), ("csv", "table,block"), ("html", "<!doctype")):
        assert run("rpc:5", "--results", results, "--format", name).startswith(wanted)
    text = run("rpc:1", "--twin", "--results", results, "--format", "latex")
    assert text.startswith("% Twins of rpc:1 ")
    assert r"digits-symvit & 90.0\,{\scriptsize [" in text
    assert r"\begin{tabular}" in text


def test_no_line_of_a_table_is_wider_than_160_characters(tmp_path: Path) -> None:
    texts = [path.read_text() for folder in FOLDERS for path in folder.glob("*.md")]
    texts.append(run("--all", "--results", tmp_path))
    assert [line for text in texts for line in text.splitlines() if len(line) > 160] == []


def test_several_tables_are_printed_each_once_in_the_order_asked_for(tmp_path: Path) -> None:
    text = run("rpc:5", "bilateral:5", "rpc:5", "--results", tmp_path, "--json")
    assert [each["table"] for each in documents(text)] == ["rpc:5", "bilateral:5"]


def test_what_a_user_registers_is_named_in_commands(tmp_path: Path) -> None:
    registry = tmp_path / "mine.yaml"
    registry.write_text("checkpoints: {}\n")
    (document,) = documents(run("rpc:5", "--results", tmp_path, "--registry", registry, "--json"))
    reason = document["rows"][0]["cells"][document["columns"][0]]["reason"]
    assert reason.startswith(f"robench reproduce rpc:5 --rows symvit --registry {registry};")


@pytest.mark.parametrize(
    ("arguments", "error", "wanted"),
    [
        (["rcp:1"], UnknownNameError, r"unknown printed table 'rcp:1'\. Did you mean 'rpc:1'\?"),
        (["rpc:15"], UnknownNameError, "unknown printed table 'rpc:15'"),
        (["rpc"], UsageError, "a table is PAPER:NUMBER, such as rpc:1, got 'rpc'; there are bilateral:1 to bilatera"),
        (["rpc:01"], UsageError, "got 'rpc:01'"),
        (["rpc:x"], UsageError, "got 'rpc:x'"),
        (["a\nb:1"], UsageError, r"got 'a\\nb:1'"),
        ([], UsageError, "name tables, such as rpc:1, or give --all, got neither; there are"),
        (["rpc:1", "--all"], UsageError, "got both"),
        (["rpc:1", "--registry", "/nonexistent.yaml"], UsageError, "/nonexistent.yaml"),
        (["rpc:1", "rpc:8", "rpc:7", "--twin"], UsageError, "no model of rpc:7, rpc:8 has a twin on small data"),
        (["rpc:1", "--archive", "kept"], UsageError, r"--archive must be a file ending in \.tar\.xz, got 'kept'"),
        (["rpc:5", "--output", "file"], StoreUnwritableError, "cannot be written"),
    ],
)
def test_what_cannot_be_met_says_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: type[Exception], wanted: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=wanted):
        run(*arguments)


class TestOutput:
    def test_tables_are_written_in_both_formats_with_a_manifest(self, results: Path, tmp_path: Path) -> None:
        said = run("rpc:1", "rpc:5", "--results", results, "--output", tmp_path)
        assert said == f"0 of 39 printed numbers are measured; 2 tables in {tmp_path}\n"
        names = {"rpc-1.md", "rpc-1.json", "rpc-5.md", "rpc-5.json", "manifest.json"}
        assert {path.name for path in tmp_path.iterdir()} == names
        assert (tmp_path / "rpc-1.md").read_text() == run("rpc:1", "--results", results, "--format", "md")
        assert (tmp_path / "rpc-1.json").read_text() == run("rpc:1", "--results", results, "--json")
        # What the numbers rest on, and no clock.
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        assert (manifest["measured"], manifest["printed"]) == (0, 39)
        assert manifest["suites"].keys() == {"imagenet-shift", "imagenet-c", "imagenet-adv-rpc"}
        assert manifest["versions"] == {"torch": ["2"]}
        assert manifest["archive"]["measurements"] == len(list((results / "records").iterdir()))
        assert list(manifest["tables"]) == ["rpc:1", "rpc:5"]
        assert str(tmp_path) not in json.dumps(manifest)
        assert "2026" not in json.dumps(manifest)

    def test_twins_are_written_with_a_manifest_of_their_own(self, results: Path, tmp_path: Path) -> None:
        said = run("rpc:1", "--twin", "--results", results, "--output", tmp_path)
        assert said == f"10 of 35 numbers of twins are measured; 1 tables in {tmp_path}\n"
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        assert (manifest["measured"], manifest["twins"], "printed" in manifest) == (10, 35, False)
        assert manifest["suites"].keys() == {"digits-shift", "digits-c"}

    def test_the_same_results_give_the_same_bytes_through_an_archive(self, results: Path, tmp_path: Path) -> None:
        archive = tmp_path / "kept.tar.xz"
        said = run("rpc:1", "--results", results, "--archive", archive)
        with unpacked(archive) as folder:
            count = len(list(folder.glob("records/*/*.parquet")))
        assert said == f"{count} files of results are in {archive}, {archive.stat().st_size:,} bytes\n"
        assert count < len(list((results / "records").glob("*/*.parquet")))
        arguments = ("rpc:1", "--twin", "--json", "--results")
        assert run(*arguments, archive) == run(*arguments, results)
        # Adding the same again changes no byte, and nothing removes nothing.
        first = archive.read_bytes()
        for again in (results, tmp_path / "nothing"):
            run("rpc:1", "--results", again, "--archive", archive)
            assert archive.read_bytes() == first


def refused(path: Path, message: str | None = None) -> str:
    with pytest.raises(StoreError, match=message) as caught, unpacked(path):
        pass
    return str(caught.value)


class TestArchiveFile:
    def packed(self, tmp_path: Path, *members: tuple[str, bytes, bytes]) -> Path:
        path = tmp_path / "a.tar.xz"
        with tarfile.open(path, "w:xz") as archive:
            for name, kind, content in members:
                member = tarfile.TarInfo(name)
                member.type, member.size = kind, len(content)
                member.linkname = "/etc/passwd"
                archive.addfile(member, io.BytesIO(content))
        return path

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("../records/x", tarfile.REGTYPE),
            ("/etc/x", tarfile.REGTYPE),
            (f"records/{'a' * 32}/../../x", tarfile.REGTYPE),
            (f"records/{'a' * 32}/x", tarfile.SYMTYPE),
            (f"records/{'a' * 32}/x", tarfile.FIFOTYPE),
            ("records/short/x", tarfile.REGTYPE),
            (f"records/{'a' * 32}/\x1b[31m", tarfile.REGTYPE),
        ],
    )
    def test_what_is_no_file_of_results_is_refused_and_nothing_is_left(
        self, tmp_path: Path, name: str, kind: bytes
    ) -> None:
        path = self.packed(tmp_path, (name, kind, b""))
        assert "\x1b" not in refused(path, "which is not a file of results")
        assert [each.name for each in tmp_path.iterdir()] == ["a.tar.xz"]

    def test_more_than_results_can_have_is_refused_piece_by_piece(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive_module, "MOST_BYTES", 1 << 20)
        path = self.packed(tmp_path, (f"records/{'a' * 32}/x", tarfile.REGTYPE, bytes(3 << 20)))
        assert path.stat().st_size < 10_000
        refused(path, "more than 0 GB of results")

    def test_sparse_and_repeated_members_are_refused(self, tmp_path: Path) -> None:
        name = f"records/{'a' * 32}/x"
        refused(self.packed(tmp_path, (name, tarfile.GNUTYPE_SPARSE, b"")))
        refused(self.packed(tmp_path, *[(name, tarfile.REGTYPE, b"x")] * 3), f"has {name} twice")

    def test_a_cut_tar_and_what_follows_a_stream_are_refused(self, tmp_path: Path) -> None:
        path = self.packed(tmp_path, *((f"records/{each * 32}/x", tarfile.REGTYPE, b"x") for each in "ab"))
        whole = path.read_bytes()
        tar = lzma.decompress(whole)
        for cut in (1024, 1536, 2048):
            path.write_bytes(lzma.compress(tar[:cut]))
            refused(path, "cannot be read as an archive")
        for after in (b"x", whole):
            path.write_bytes(whole + after)
            refused(path, "something follows its end")
        path.write_bytes(whole[:-20])
        refused(path, "cannot be read as an archive")

    def test_a_pipe_is_refused_at_once(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.tar.xz")
        refused(tmp_path / "a.tar.xz", "must be a regular file")

    def test_messages_name_the_archive_and_no_folder_that_is_gone(self, tmp_path: Path) -> None:
        path = self.packed(tmp_path, (f"records/{'a' * 32}/x", tarfile.REGTYPE, b"x"))
        with pytest.raises(StoreError) as caught, unpacked(path) as folder:
            raise StoreError(f"{folder}/records/x is damaged")
        assert str(caught.value) == f"{path}: records/x is damaged"

    def files_of(self, folder: Path) -> dict[str, bytes]:
        return {each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.glob("records/*/*")}

    def test_damage_anywhere_is_a_store_error_or_changes_nothing(self, results: Path, tmp_path: Path) -> None:
        path = tmp_path / "a.tar.xz"
        content = packed(results)
        wanted = self.files_of(results)
        for place in range(0, len(content), max(1, len(content) // 60)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
            with suppress(StoreError), unpacked(path) as folder:
                assert self.files_of(folder) == wanted
        path.write_bytes(content[: len(content) // 2])
        refused(path)

    def test_failures_and_temporary_files_are_left_out(self, results: Path, tmp_path: Path) -> None:
        copied = tmp_path / "copied"
        shutil.copytree(results, copied)
        folder = next((copied / "records").iterdir())
        (folder / ".x.part").write_text("half")
        (copied / "failures").mkdir(exist_ok=True)
        assert packed(copied) == packed(results)


def test_all_46_tables_are_committed_and_count_1314_numbers() -> None:
    names = {f"{paper}-{number}" for paper, number in shipped_tables()}
    assert {path.stem for path in COMMITTED.glob("*.md")} == names
    manifest = json.loads((COMMITTED / "manifest.json").read_text())
    counted = [each["printed"] for each in manifest["tables"].values() if each["counted"]]
    assert manifest["printed"] == sum(counted) == 1314
    for name, each in manifest["tables"].items():
        document = json.loads((COMMITTED / f"{name.replace(':', '-')}.json").read_text())
        assert sum(len(row["cells"]) for row in document["rows"]) == each["printed"]


def test_twins_are_committed_of_every_table_that_has_any() -> None:
    tables = [each.name for each in shipped_tables().values() if any(cell.twin for cell in each.cells)]
    with_twins = {name.replace(":", "-") for name in tables}
    assert {path.stem for path in FOLDERS[1].glob("*.md")} == with_twins
    assert len(with_twins) == 33
    manifest = json.loads((FOLDERS[1] / "manifest.json").read_text())
    assert (manifest["measured"], manifest["twins"]) == (909, 925)


def test_a_part_of_a_table_has_its_verdicts_claims_and_hours(tmp_path: Path) -> None:
    options = ("rpc:1", "--results", tmp_path, "--device-speed", "100", "--json")
    (whole,) = documents(run(*options))
    (part,) = documents(run(*options, "--rows", "rpc-symvit", "--columns", "in-c*"))
    assert part["columns"] == ["IN-C top-1", "IN-C mCE"]
    assert [row["label"] for row in part["rows"]] == ["RPC-SymViT (6iter/layer1)"]
    (row,) = [row for row in whole["rows"] if row["label"] == part["rows"][0]["label"]]
    assert part["rows"][0]["cells"] == {name: row["cells"][name] for name in part["columns"]}
    assert part["claims"] == [
        claim for claim in whole["claims"] if claim["row"] == row["label"] and claim["column"] in part["columns"]
    ]
    assert len(part["claims"]) == 2
    assert whole["hours"].keys() == {row["label"] for row in whole["rows"]}
    assert part["hours"] == {row["label"]: whole["hours"][row["label"]]}
    assert re.fullmatch(r"training [\d.-]+ h, measuring [\d.-]+ min", part["hours"][row["label"]])
    assert "hours of one seed on a device that achieves 100 TFLOPS" in run(*options[:-1])
    assert documents(run("rpc:1", "--results", tmp_path, "--json"))[0]["hours"] == {}


def test_hours_are_of_columns_where_models_are_columns(tmp_path: Path) -> None:
    (document,) = documents(run("rkde:7", "--results", tmp_path, "--device-speed", "100", "--json"))
    labels = set(document["columns"]) | {row["label"] for row in document["rows"]}
    assert document["hours"]
    assert document["hours"].keys() <= labels


def test_the_first_examples_are_marked_by_their_number(results: Path) -> None:
    options = ("rpc:1", "--twin", "--results", results, "--rows", MODELS[1], "--columns", "IN-1K top-1", "--json")
    (whole,), (part,) = documents(run(*options)), documents(run(*options, "--examples", "2"))
    assert whole["columns"][0]["num_examples"][0] > 2
    assert part["columns"][0]["num_examples"] == [2, 2]
