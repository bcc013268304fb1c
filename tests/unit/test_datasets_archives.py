"""Archives are read with distrust: whatever is no plain file or folder below the target refuses the whole archive."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robench.core.errors import MissingDataError, UsageError
from robench.datasets.archives import check_members, read_members

LIMITS = {"max_bytes": 10_000, "max_members": 50}


def tar_of(path: Path, *members: tarfile.TarInfo | tuple[str, bytes], **options: str) -> Path:
    """Write a tar file of files given by name and content, and of members of other kinds."""
    with tarfile.open(path, **{"mode": "w", **options}) as archive:  # type: ignore[call-overload]  # mode is text
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def sparse_member(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    fields = {"major": "0", "minor": "1", "map": "0,1", "size": "9"}
    info.pax_headers = {f"GNU.sparse.{field}": value for field, value in fields.items()}
    return info


def zip_of(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def zip_member(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def contents(archive: Path) -> dict[str, bytes | None]:
    return {"/".join(each.parts): None if each.is_folder else each.open().read() for each in read_members(archive)}


PLAIN = {"a": None, "a/x.jpg": b"first", "a/b": None, "a/b/y.jpg": b"", "z.txt": b"last"}


def plain_tar(path: Path, mode: str = "w") -> Path:
    folders = [member("./a/", tarfile.DIRTYPE), ("./a/x.jpg", b"first"), member("a/b", tarfile.DIRTYPE)]
    return tar_of(path, *folders, ("a//b/y.jpg", b""), ("z.txt", b"last"), mode=mode)  # type: ignore[arg-type]  # both


def plain_zip(path: Path) -> Path:
    return zip_of(path, ("a/", b""), ("a/x.jpg", b"first"), ("a/b/", b""), ("a/b/y.jpg", b""), ("z.txt", b"last"))


@pytest.mark.parametrize("form", ["tar", "tar.gz", "zip", "gzip called tar"])
def test_the_same_is_read_from_every_form_told_by_its_content(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("x.zip" if form == "tar" else "x.tar")
    archive = plain_zip(path) if form == "zip" else plain_tar(path, "w" if form == "tar" else "w:gz")
    assert contents(archive) == PLAIN
    assert check_members(archive, **LIMITS) == [("a", "x.jpg"), ("a", "b", "y.jpg"), ("z.txt",)]


def test_long_and_foreign_names_are_read(tmp_path: Path) -> None:
    name = "n01498041/" + "long " * 49 + "ü.jpg"
    for archive in (tar_of(tmp_path / "x.tar", (name, b"1")), zip_of(tmp_path / "x.zip", (name, b"1"))):
        assert contents(archive) == {name: b"1"}


def refusal(archive: Path, limits: dict[str, int] = LIMITS) -> str:
    with pytest.raises(MissingDataError) as caught:
        check_members(archive, **limits)
    assert caught.value.exit_code == 4
    assert str(archive) in str(caught.value)
    return str(caught.value)


OUTSIDE = {
    "../x.jpg": "would leave the folder",
    "a/../../x.jpg": "would leave the folder",
    "a/..": "would leave the folder",
    "..": "would leave the folder",
    "/etc/x.jpg": "is an absolute name",
    "//x.jpg": "is an absolute name",
    "C:/x.jpg": "is an absolute name",
    "c:x.jpg": "is an absolute name",
    "a\\..\\x.jpg": "would leave the folder",
}


@pytest.mark.parametrize("name", [*OUTSIDE, ""])
def test_a_name_that_leaves_the_folder_or_is_none_is_refused(tmp_path: Path, name: str) -> None:
    info = zipfile.ZipInfo("fine")
    info.filename = name
    assert OUTSIDE.get(name, "'' has no name") in refusal(zip_of(tmp_path / "x.zip", (info, b"evil")))
    if name:
        message = refusal(tar_of(tmp_path / "x.tar", ("fine.jpg", b""), (name, b"evil")))
        assert f"{name!r} {OUTSIDE[name]}" in message


OTHER_KINDS: dict[str, tarfile.TarInfo | zipfile.ZipInfo] = {
    **{kind: member("evil", getattr(tarfile, kind), "/etc/passwd") for kind in ("SYMTYPE", "LNKTYPE", "CHRTYPE")},
    **{kind: member("evil", getattr(tarfile, kind)) for kind in ("BLKTYPE", "FIFOTYPE", "CONTTYPE")},
    **{kind: zip_member("evil", getattr(stat, kind) | 0o777) for kind in ("S_IFLNK", "S_IFCHR", "S_IFBLK")},
    **{kind: zip_member("evil", getattr(stat, kind) | 0o777) for kind in ("S_IFIFO", "S_IFSOCK")},
    "unknown": member("evil", b"?"),
    "sparse": sparse_member("evil"),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_what_is_neither_file_nor_folder_is_refused(tmp_path: Path, kind: str) -> None:
    found = OTHER_KINDS[kind]
    if isinstance(found, tarfile.TarInfo):
        archive = tar_of(tmp_path / "x.tar", ("fine.jpg", b""), found)
    else:
        archive = zip_of(tmp_path / "x.zip", ("fine.jpg", b""), (found, b"/etc/passwd"))
    assert "'evil' is neither a regular file nor a folder" in refusal(archive)


TWICE = ("a/x.jpg a/x.jpg", "a/x.jpg ./a//x.jpg", "a a/x.jpg", "a/x.jpg a", "a/b/x.jpg a/b", "x.jpg x.jpg/")


@pytest.mark.parametrize("names", TWICE)
def test_two_members_of_one_name_are_refused(tmp_path: Path, names: str) -> None:
    members = [member(name, tarfile.DIRTYPE) if name.endswith("/") else (name, b"1") for name in names.split()]
    assert "is there twice" in refusal(tar_of(tmp_path / "x.tar", *members))


@pytest.mark.parametrize("names", [("a/x.jpg", "A/X.JPG"), ("a/\u00e9.jpg", "a/e\u0301.jpg"), ("\u00df.jpg", "ss.jpg")])
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_two_members_that_are_one_without_case_are_refused(tmp_path: Path, names: tuple[str, str], form: str) -> None:
    write = tar_of if form == "tar" else zip_of
    archive = write(tmp_path / "x", *((name, b"x") for name in names))  # type: ignore[operator]  # both take these
    assert f"is the same file as {names[0]!r} where a file system ignores case" in refusal(archive)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a/\udcff.jpg", "cannot be printed, or is not UTF-8"),
        ("a/\x1b[2J.jpg", "cannot be printed"),
        ("a/new\nline.jpg", "cannot be printed"),
        ("a/" + "x" * 256, "more than 255 bytes"),
        ("a/" + "\u00fc" * 128 + "/x.jpg", "more than 255 bytes"),
    ],
)
def test_a_name_that_cannot_be_written_everywhere_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    assert reason in refusal(tar_of(tmp_path / "x.tar", (name, b"1")))


@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device"])
def test_an_archive_that_is_no_regular_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "link to a device": tmp_path / "link"}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    elif kind != "device":
        path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"cannot read archive .*not a regular file"):
        list(read_members(path))


def test_a_folder_may_be_there_twice(tmp_path: Path) -> None:
    twice = [member("a", tarfile.DIRTYPE), ("a/x.jpg", b"1"), member("a/", tarfile.DIRTYPE)]
    assert check_members(tar_of(tmp_path / "x.tar", *twice), **LIMITS) == [("a", "x.jpg")]  # type: ignore[arg-type]  # both


class TestBombs:
    """What an archive declares is counted before anything of it is unpacked."""

    def test_one_byte_too_many_is_refused_and_none_too_many_is_not(self, tmp_path: Path) -> None:
        archive = tar_of(tmp_path / "x.tar", ("x", b"1" * 60), ("y", b"1" * 40))
        assert len(check_members(archive, max_bytes=100, max_members=2)) == 2
        assert "99 bytes" in refusal(archive, {"max_bytes": 99, "max_members": 2})

    def test_one_member_too_many_is_refused(self, tmp_path: Path) -> None:
        archive = plain_zip(tmp_path / "x.zip")
        assert len(check_members(archive, max_bytes=100, max_members=5)) == 3
        assert "(4 members" in refusal(archive, {"max_bytes": 100, "max_members": 4})

    def test_a_tar_that_declares_what_it_does_not_have_is_refused_by_its_first_header(self, tmp_path: Path) -> None:
        info = tarfile.TarInfo("bomb")
        info.size = 2**40
        (tmp_path / "x.tar").write_bytes(info.tobuf() + bytes(1024))
        assert "declares more than this dataset can have" in refusal(tmp_path / "x.tar")

    def test_a_negative_size_makes_no_room_for_others(self, tmp_path: Path) -> None:
        info = tarfile.TarInfo("evil")
        info.pax_headers = {"size": "-1000000"}
        assert "a negative size" in refusal(tar_of(tmp_path / "x.tar", info))

    def test_a_header_of_gigabytes_is_not_read_into_memory(self, tmp_path: Path) -> None:
        info = tarfile.TarInfo("././@PaxHeader")
        info.type, info.size = tarfile.XHDTYPE, 2**33
        with gzip.open(tmp_path / "x.tar.gz", "wb") as file:
            file.write(info.tobuf(tarfile.USTAR_FORMAT if info.size < 2**33 else tarfile.GNU_FORMAT))
            file.write(bytes(1 << 16))
        assert "a header claims to have 8,589,934,592 bytes" in refusal(tmp_path / "x.tar.gz")


def flipped(path: Path, place: int, bits: int = 0xFF) -> Path:
    content = bytearray(path.read_bytes())
    content[place] ^= bits
    path.write_bytes(content)
    return path


class TestDamage:
    @pytest.mark.parametrize("keep", [10, 700, 1400])
    def test_a_tar_that_is_cut_short_is_damaged(self, tmp_path: Path, keep: int) -> None:
        archive = tar_of(tmp_path / "x.tar", ("x", b"1" * 600), ("y", b"1" * 600))
        archive.write_bytes(archive.read_bytes()[:keep])
        assert "is damaged or not a tar or zip file" in refusal(archive)

    def test_a_flipped_byte_is_noticed_and_does_not_end_a_tar_without_a_word(self, tmp_path: Path) -> None:
        compressed = tar_of(tmp_path / "x.tar.gz", ("x", bytes(range(256)) * 20), mode="w:gz")
        assert "is damaged" in refusal(flipped(compressed, compressed.stat().st_size // 2))
        archive = tar_of(tmp_path / "x.tar", ("x", b"1"), ("y", b"2"), ("z", b"3"))
        assert "data that is not a member follows" in refusal(flipped(archive, 1024))

    def test_a_compressed_tar_with_megabytes_of_padding_is_refused(self, tmp_path: Path) -> None:
        archive = plain_tar(tmp_path / "x.tar")
        with gzip.open(tmp_path / "x.tar.gz", "wb") as file:
            file.write(archive.read_bytes() + bytes(2**21))
        assert "data that is not a member follows" in refusal(tmp_path / "x.tar.gz")

    @pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"PK\x03\x04 and no more", b"\x1f\x8b\x08"])
    def test_what_is_no_archive_is_said_to_be_none(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x.tar").write_bytes(content)
        assert "is damaged or not a tar or zip file" in refusal(tmp_path / "x.tar")

    def test_an_encrypted_zip_is_refused(self, tmp_path: Path) -> None:
        archive = zip_of(tmp_path / "x.zip", ("x", b"1"))
        place = archive.read_bytes().index(b"PK\x01\x02") + 8
        assert "'x' is encrypted" in refusal(flipped(archive, place, 1))

    def test_a_zip_of_another_compression_is_refused(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("x", b"1" * 100)
        assert "compressed in an unusual way" in refusal(tmp_path / "x.zip")

    @pytest.mark.parametrize("form", ["tar", "tar.gz", "zip"])
    @given(data=st.data())
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_a_garbled_archive_is_read_or_refused_and_never_a_fault(
        self, tmp_path: Path, form: str, data: st.DataObject
    ) -> None:
        path = tmp_path / "x"
        archive = plain_zip(path) if form == "zip" else plain_tar(path, "w" if form == "tar" else "w:gz")
        content = bytearray(archive.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, min(len(content), 3000) - 1))] = data.draw(st.integers(0, 255))
        archive.write_bytes(content)
        try:
            names = ["/".join(parts) for parts in check_members(archive, **LIMITS)]
        except MissingDataError:
            return
        assert not any(name.startswith("/") or ".." in name.split("/") for name in names)

    def test_a_chain_of_headers_is_refused(self, tmp_path: Path) -> None:
        info = tarfile.TarInfo("././@PaxHeader")
        info.type = tarfile.XHDTYPE
        (tmp_path / "x.tar").write_bytes(info.tobuf() * 5000)
        assert "is damaged" in refusal(tmp_path / "x.tar")

    def test_an_archive_that_is_not_there_is_a_usage_error(self, tmp_path: Path) -> None:
        for path, reason in [(tmp_path / "none.tar", "No such file"), (tmp_path, "Is a directory")]:
            with pytest.raises(UsageError, match=reason):
                check_members(path, **LIMITS)
