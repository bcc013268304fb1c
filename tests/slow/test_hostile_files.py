"""Three hundred files that mean harm: none is executed, none writes outside its folder, none makes a reader wait.

Each is made by seeded code and handed to the reader of its kind in a process of its own pool, with a limit on its time
and memory. A reader may succeed, or raise one of robench's own errors; everything else fails.
"""

import io
import itertools
import json
import multiprocessing
import os
import pickle
import pickletools
import random
import resource
import signal
import struct
import tarfile
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from robench.core.errors import RobenchError

NUM_FILES = 300
# Generous: each takes well under a second on a quiet machine, and a reader that waits for a pipe takes for ever.
SECONDS_EACH = 60
MEMORY = 16 << 30
MARKER = "executed"

Made = tuple[str, str, Callable[[Path], None]]


# --- pickles: every form in which a name can be looked up and called, and every opcode once ---


def shell(marker: Path) -> bytes:
    return f"touch {marker}".encode()


def pickle_payloads(marker: Path) -> Iterator[tuple[str, bytes]]:
    """Programs that would create the marker if a reader executed what they say."""
    command = shell(marker)
    text = b"X" + struct.pack("<I", len(command)) + command
    short = b"\x8c" + bytes([len(command)]) + command if len(command) < 256 else text
    names = {b"os": b"system", b"posix": b"system", b"subprocess": b"getoutput", b"builtins": b"exec"}
    for module, name in names.items():
        argument = text
        if name == b"exec":
            code = f"import os; os.system({command.decode()!r})".encode()
            argument = b"X" + struct.pack("<I", len(code)) + code
        held = b"c" + module + b"\n" + name + b"\n"
        stack = b"\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(name)]) + name + b"\x93"
        called = {
            "global-reduce": held + argument + b"\x85R",
            "global-tuple-reduce": held + b"(" + argument + b"tR",
            "stack-global-reduce": stack + argument + b"\x85R",
            "inst": b"(" + argument + b"i" + module + b"\n" + name + b"\n",
            "obj": b"(" + held + argument + b"o",
            "newobj": held + argument + b"\x85\x81",
            "newobj-ex": held + argument + b"\x85}\x92",
            "build": b"c__main__\nPath\n)\x81}" + text + held + argument + b"\x85Rsb",
            "build-setstate": b"cargparse\nNamespace\n)\x81}X\x0c\x00\x00\x00__setstate__"
            + held
            + b"sb"
            + argument
            + b"b",
            "memo": held + b"q\x000h\x00" + argument + b"\x85R",
            "memoize": held + b"\x940h\x00" + argument + b"\x85R",
            "in-a-dict": b"}" + short + held + argument + b"\x85Rs",
            "in-a-list": b"](" + held + argument + b"\x85Re",
            "in-a-frozenset": b"(" + held + argument + b"\x85R\x91",
            "rebuild": b"ctorch._utils\n_rebuild_tensor_v2\n(" + held + argument + b"\x85RtR",
            "ordered-dict": b"ccollections\nOrderedDict\n]" + held + argument + b"\x85Ra\x85R",
            "getattr": b"cbuiltins\ngetattr\ncos\nX" + b"\x06\x00\x00\x00system" + b"\x86R" + argument + b"\x85R",
            "persistent": held + argument + b"\x85RQ",
        }
        for form, program in called.items():
            yield f"{module.decode()}-{form}", program + b"."
    for code in (b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00"):
        yield f"extension-{code[0]:02x}", code + text + b"\x85R."


def opcode_programs() -> Iterator[tuple[str, bytes]]:
    """Every opcode of the language once, with a plausible argument, over a stack that has something for it."""
    arguments = {
        None: b"", "decimalnl_short": b"7\n", "decimalnl_long": b"7L\n", "stringnl": b"'a'\n", "floatnl": b"1.5\n",
        "stringnl_noescape": b"a\n", "stringnl_noescape_pair": b"os\nsystem\n", "unicodestringnl": b"a\n",
        "uint1": b"\x01", "uint2": b"\x01\x00", "int4": b"\x01\x00\x00\x00", "uint4": b"\x01\x00\x00\x00",
        "uint8": b"\x01" + bytes(7), "float8": bytes(8), "string1": b"\x01a", "string4": b"\x01\x00\x00\x00a",
        "bytes1": b"\x01a", "bytes4": b"\x01\x00\x00\x00a", "bytes8": b"\x01" + bytes(7) + b"a",
        "bytearray8": b"\x01" + bytes(7) + b"a", "unicodestring1": b"\x01a", "unicodestring4": b"\x01\x00\x00\x00a",
        "unicodestring8": b"\x01" + bytes(7) + b"a", "long1": b"\x01\x07", "long4": b"\x01\x00\x00\x00\x07",
    }  # fmt: skip
    for opcode in pickletools.opcodes:
        argument = arguments[opcode.arg.name if opcode.arg else None]
        yield (
            f"opcode-{opcode.name.lower()}",
            b"}(cos\nsystem\nX\x01\x00\x00\x00a\x85" + opcode.code.encode("latin-1") + argument + b".",
        )


def torch_zip(path: Path, program: bytes, *others: tuple[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + program)
        for name, content in (("archive/version", b"3\n"), ("archive/byteorder", b"little"), *others):
            archive.writestr(name, content)


def torch_legacy(path: Path, program: bytes) -> None:
    magic = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001})]
    path.write_bytes(b"".join(magic) + b"\x80\x02" + program + pickle.dumps([], 2))


def pickles(marker: Path, chance: random.Random) -> Iterator[Made]:
    programs = [*pickle_payloads(marker), *opcode_programs()]
    for number, (name, program) in enumerate(programs):
        writes = (
            (torch_zip, torch_legacy) if name.startswith(("os-", "ext")) else ((torch_zip, torch_legacy)[number % 2],)
        )
        for write in writes:
            yield f"{name}-{write.__name__}", "weights", lambda path, w=write, p=program: w(path, p)  # type: ignore[misc]
    for name, program in programs[: len(programs) // 4]:
        yield f"{name}-bare", "weights", lambda path, p=program: path.write_bytes(b"\x80\x02" + p) and None  # type: ignore[misc]
    deep = b"(" * 200_000 + b"."
    yield "marks-deep", "weights", lambda path: torch_zip(path, deep)
    yield "frame-lies", "weights", lambda path: torch_zip(path, b"\x95" + b"\xff" * 8 + b"N.")
    yield "bytes-lie", "weights", lambda path: torch_zip(path, b"\x8e" + struct.pack("<Q", 1 << 60) + b"a.")
    yield "long-lies", "weights", lambda path: torch_legacy(path, b"\x8b" + struct.pack("<i", -5) + b".")


# --- archives ---


def tar_of(path: Path, *infos: tarfile.TarInfo) -> None:
    with tarfile.open(path, "w") as archive:
        archive.addfile(good := tarfile.TarInfo("n01498041/good.jpg"), io.BytesIO(b""))
        assert good.size == 0
        for info in infos:
            archive.addfile(info, io.BytesIO(b"x" * info.size) if info.isreg() else None)


def info_of(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


EVIL_NAMES = (
    "../escaped.jpg", "n01498041/../../escaped.jpg", "/tmp/escaped.jpg", "..\\escaped.jpg", "C:/escaped.jpg", "..",
    "n01498041/..", "n01498041/good.jpg", "N01498041/GOOD.jpg", ".robench-unpacking/lock", ".1.unpacking/x", "./", "",
    "n01498041/" + "x" * 300, "x/" * 2000 + "y", "n01498041/\x1b[2J.jpg", "n01498041/a\nb.jpg", "n01498041/\udcff.jpg",
)  # fmt: skip


def zip_of(path: Path, *members: tuple[str, bytes, int]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in (("n01498041/good.jpg", b"", 0), *members):
            info = zipfile.ZipInfo("x")
            info.filename, info.external_attr, info.compress_type = name, mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


def archives(chance: random.Random) -> Iterator[Made]:
    for number, name in enumerate(EVIL_NAMES):
        yield f"tar-name-{number}", "archive", lambda path, n=name: tar_of(path, info_of(n, size=4))  # type: ignore[misc]
        if name.isascii():
            yield f"zip-name-{number}", "archive", lambda path, n=name: zip_of(path, (n, b"evil", 0))  # type: ignore[misc]
    kinds = {"sym": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "chr": tarfile.CHRTYPE, "fifo": tarfile.FIFOTYPE}
    for (label, kind), target in itertools.product(kinds.items(), ("../../..", "/etc/passwd")):
        infos = info_of("n01498041/l", kind, target), info_of("n01498041/l/escaped.jpg", size=4)
        yield f"tar-{label}-{len(target)}", "archive", lambda path, i=infos: tar_of(path, *i)  # type: ignore[misc]
    for mode in (0o120777, 0o010644, 0o020644):
        yield f"zip-mode-{mode:o}", "archive", lambda path, m=mode: zip_of(path, ("n01498041/l", b"../..", m))  # type: ignore[misc]
    yield "zip-bomb", "archive", lambda path: zip_of(path, ("n01498041/b.jpg", bytes(50_000_000), 0))
    yield "zip-many", "archive", lambda path: zip_of(path, *((f"n01498041/{n}.jpg", b"", 0) for n in range(40_000)))
    yield "tar-size-lies", "archive", forged_tar
    for number in range(12):
        yield f"zip-garbled-{number}", "archive", lambda path, s=number: garbled_zip(path, random.Random(s))  # type: ignore[misc]
    yield "archive-pipe", "archive", os.mkfifo
    yield "archive-device", "archive", lambda path: path.symlink_to("/dev/zero")


def forged_tar(path: Path) -> None:
    path.write_bytes(info_of("n01498041/x.jpg", size=1 << 50).tobuf(tarfile.GNU_FORMAT))


def garbled_zip(path: Path, chance: random.Random) -> None:
    zip_of(path, ("n01498041/a.jpg", b"a" * 500, 0), ("n01498041/b.jpg", b"b" * 500, 0))
    content = bytearray(path.read_bytes())
    for _ in range(3):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content[: chance.choice([len(content), chance.randrange(len(content))])])


# --- safetensors ---


def safetensors_of(header: object, data: bytes = bytes(64), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape: list[Any], offsets: list[Any], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def safetensors() -> Iterator[Made]:
    whole = {"a": tensor([16], [0, 64])}
    contents = {
        "length-huge": safetensors_of(whole, length=2**63), "length-past": safetensors_of(whole, length=10**6),
        "length-short": safetensors_of(whole, length=5), "length-zero": safetensors_of(whole, length=0),
        "shape-huge": safetensors_of({"a": tensor([2**40, 2**40], [0, 64])}),
        "shape-overflow": safetensors_of({"a": tensor([2**62, 4], [0, 64])}),
        "shape-negative": safetensors_of({"a": tensor([-16], [0, 64])}),
        "shape-float": safetensors_of({"a": tensor([16.5], [0, 64])}),
        "offsets-overlap": safetensors_of({"a": tensor([16], [0, 64]), "b": tensor([16], [0, 64])}),
        "offsets-swapped": safetensors_of({"a": tensor([16], [64, 0])}),
        "offsets-past": safetensors_of({"a": tensor([16], [64, 128])}),
        "offsets-huge": safetensors_of({"a": tensor([16], [2**63, 2**64 - 1])}),
        "offsets-hole": safetensors_of({"a": tensor([8], [32, 64])}),
        "dtype": safetensors_of({"a": tensor([16], [0, 64], "EVIL")}), "empty": b"", "list": safetensors_of([]),
        "duplicate": safetensors_of(b'{"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},' * 2 + b'"b":1}'),
        "deep": safetensors_of(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        "not-utf8": safetensors_of(b'{"\xff\xfe":1}'), "metadata": safetensors_of({"__metadata__": {"a": {"b": 1}}}),
        "truncated": safetensors_of(whole)[:-10],
        "names": safetensors_of({f"n{n}": tensor([0], [0, 0]) for n in range(60_000)}, b""),
    }  # fmt: skip
    for name, content in contents.items():
        yield f"safetensors-{name}", "weights", lambda path, c=content: path.write_bytes(c) and None  # type: ignore[misc]
    yield "weights-pipe", "weights", os.mkfifo
    yield "weights-device", "weights", lambda path: path.symlink_to("/dev/zero")


# --- YAML ---


def yamls(marker: Path) -> Iterator[Made]:
    laughs = "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9 if n else ['lol'])}]\n" for n in range(10))
    command = shell(marker).decode()
    texts: dict[str, str | bytes] = {
        "laughs": laughs, "merge": "a: &a {b: 1}\nc:\n  <<: [*a, *a]\n", "self": "&a [*a]", "deep": "[" * 300_000,
        "deep-block": "".join(f"{' ' * n}a:\n" for n in range(900)), "null": b"a: \0", "latin": b"a: \xff",
        "huge": f"seed: {'9' * 900_000}",
        "exponent": "seed: 1e999999999",
        "long": "x" * (1 << 20),
        "over": "x" * (2 << 20),
        "apply": f"!!python/object/apply:os.system ['{command}']",
        "new": f"!!python/object/new:os.system ['{command}']",
        "name": "a: !!python/name:os.system",
        "module": "a: !!python/module:os",
        "exec": f"!!python/object/apply:exec ['{command}']",
        "binary": "a: !!binary QQ==",
        "unknown-fields": "".join(f"k{n}: 1\n" for n in range(9000)),
        "docs": "---\na\n" * 1000,
        "conditions": "name: a\nconditions: [" + "{name: a}," * 6000 + "]", "keys": "? [a]\n: b\n? {c: d}\n: e",
        "checkpoints": "checkpoints:\n" + "".join(f"  m{n}: {{}}\n" for n in range(9000)), "surrogate": 'a: "\\ud800"',
        "uri": 'checkpoints: {a: {weights: {uri: "a\\0b", sha256: null}}}',
        "directive": "%YAML 99999999999999999.1\n---\na",
    }  # fmt: skip
    for name, text in texts.items():
        content = text if isinstance(text, bytes) else text.encode()
        yield f"yaml-{name}", "yaml", lambda path, c=content: path.write_bytes(c) and None  # type: ignore[misc]
    yield "yaml-pipe", "yaml", os.mkfifo
    yield "yaml-device", "yaml", lambda path: path.symlink_to("/dev/zero")


# --- images ---


def png_of(width: int, height: int, rows: bytes = b"", *chunks: tuple[bytes, bytes]) -> bytes:
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        *chunks,
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def encoded(kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (32, 32)).save(file, kind, **options)
    return file.getvalue()


def images(chance: random.Random) -> Iterator[Made]:
    bomb = zlib.compress(bytes(50_000_000))
    contents = {
        "huge-png": png_of(2**31 - 1, 2**31 - 1), "wide-png": png_of(10**9, 1), "large-png": png_of(30_000, 30_000),
        "short-png": png_of(32, 32, b"x"), "icc-bomb": png_of(8, 8, bytes(200), (b"iCCP", b"a\0\0" + bomb)),
        "text-bomb": png_of(8, 8, bytes(200), (b"zTXt", b"a\0\0" + bomb)), "empty": b"", "zeros": bytes(1000),
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(%pipe%touch executed) (w) file\n",
        "exif": encoded("JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08" + b"\xff" * 60),
        "icc": encoded("JPEG", icc_profile=b"x" * 500),
        "animated": encoded("GIF", save_all=True, append_images=[Image.new("RGB", (32, 32), "red")] * 200),
        "ppm": b"P6 1000000000 1000000000 255\n", "pgm": b"P5 -5 -5 255\n", "bmp": b"BM" + b"\xff" * 100,
    }  # fmt: skip
    for name, content in contents.items():
        yield f"image-{name}", "image", lambda path, c=content: path.write_bytes(c) and None  # type: ignore[misc]
    for number, kind in itertools.product(range(6), ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")):
        content = bytearray(encoded(kind))
        for _ in range(number + 1):
            content[chance.randrange(len(content))] = chance.randrange(256)
        cut = bytes(content[: len(content) - (number % 2) * chance.randrange(len(content))])
        yield f"image-garbled-{kind}-{number}", "image", lambda path, c=cut: path.write_bytes(c) and None  # type: ignore[misc]
    yield "image-pipe", "image", os.mkfifo
    yield "image-device", "image", lambda path: path.symlink_to("/dev/zero")


# --- what reads them ---


def read(kind: str, path: Path) -> None:
    """Hand a file to the place in robench that reads its kind."""
    from robench.datasets.decoding import decode
    from robench.datasets.image_verification import examined
    from robench.datasets.preparing import unpack
    from robench.datasets.published import PUBLISHED_SETS
    from robench.declarations.preprocessing import ImagePreprocessing
    from robench.declare import validate_file
    from robench.models.layouts import LAYOUTS
    from robench.models.lmtool_layout import load_module
    from robench.models.state_files import load_state

    if kind == "weights":
        errors = []
        try:
            load_module(path)
        except RobenchError as error:
            errors.append(error)
        for layout in LAYOUTS:
            try:
                load_state(path, layout)
            except RobenchError as error:
                errors.append(error)
        if errors:
            raise errors[0]
    elif kind == "archive":
        unpack(path, PUBLISHED_SETS["imagenet-a"], path.parent / "data")
    elif kind == "yaml":
        validate_file(path)
    else:
        examined(path)
        decode(path, ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, resize=32, crop=32))


def attempt(kind: str, path: Path) -> str:
    """Return how reading a file ended: ``ok``, ``refused``, or a traceback."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # Unlike a clock of the test's own, this also ends a reader that is waiting in a system call.
    signal.alarm(SECONDS_EACH)
    try:
        read(kind, path)
    except RobenchError as error:
        return "refused" if str(error) and len(str(error)) < 40_000 else f"wordless or endless: {str(error)[:100]}"
    except BaseException:  # whatever it is, the test says so
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    return "ok"


def made(marker: Path) -> list[Made]:
    """Every file: those of each family in turn, as many as there should be, pickles filling up."""
    chance = random.Random(0)
    others = [*archives(chance), *safetensors(), *yamls(marker), *images(chance)]
    return [*others, *pickles(marker, chance)]


def test_hostile_files_do_no_harm(tmp_path: Path) -> None:
    marker = tmp_path / "marker" / MARKER
    marker.parent.mkdir()
    files = made(marker)
    assert len(files) >= NUM_FILES
    assert {code.name for code in pickletools.opcodes} <= {
        name.split("-")[1].upper() for name, *_ in files if "opcode" in name
    }
    work = []
    for number, (name, kind, write) in enumerate(files):
        folder = tmp_path / "files" / str(number)
        folder.mkdir(parents=True)
        path = folder / f"x.{ {'yaml': 'yaml', 'image': 'JPEG', 'archive': 'tar', 'weights': 'pth'}[kind] }"
        write(path)
        work.append((name, kind, path))
    outcomes = run_all(work)
    wrong = {name: outcomes[name] for name, *_ in work if outcomes[name] not in ("ok", "refused")}
    assert wrong == {}
    assert list(marker.parent.iterdir()) == []
    assert escaped(tmp_path) == []
    assert sum(outcome == "refused" for outcome in outcomes.values()) > NUM_FILES * 2 // 3


def run_all(work: list[tuple[str, str, Path]]) -> dict[str, str]:
    """Read every file, several to a process; a process that was killed names what it was reading when it ended."""
    context = multiprocessing.get_context("spawn")
    outcomes: dict[str, str] = {}
    todo = list(work)
    while todo:
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=read_in_turn, args=(todo, sending))
        process.start()
        sending.close()
        done = 0
        try:
            while receiving.poll(2 * SECONDS_EACH):
                name, outcome = receiving.recv()
                outcomes[name] = outcome
                done += 1
        except EOFError:
            pass
        process.kill()
        process.join()
        if done < len(todo):
            outcomes[todo[done][0]] = f"hung or crashed (exit code {process.exitcode})"
        todo = todo[done + 1 :]
    return outcomes


def read_in_turn(work: list[tuple[str, str, Path]], sending: Any) -> None:
    for name, kind, path in work:
        sending.send((name, attempt(kind, path)))


def escaped(folder: Path) -> list[Path]:
    """What lies where no archive may write: beside the data of each, in /tmp, or in a file system's root."""
    beside = [
        path
        for each in (folder / "files").iterdir()
        for path in each.iterdir()
        if path.name != "data" and not path.name.startswith("x.")
    ]
    links = [path for path in (folder / "files").rglob("data/**/*") if path.is_symlink()]
    return [*beside, *links, *(path for path in (Path("/tmp/escaped.jpg"), folder / "escaped.jpg") if path.exists())]


@pytest.mark.parametrize("program", ["os-global-reduce", "os-inst", "os-obj"])
def test_the_payloads_would_execute_if_anybody_let_them(tmp_path: Path, program: str) -> None:
    marker = tmp_path / MARKER
    payload = dict(pickle_payloads(marker))[program]
    pickle.loads(b"\x80\x02" + payload)  # the point of the test: the payload is a real one
    assert marker.exists()
