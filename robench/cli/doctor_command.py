"""``robench doctor`` and ``robench backends``: the installation, and libraries whose attacks robench can run."""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import click

from robench.attacks.backends.installed import LIBRARIES, RELEASES, check_installed, environment_of, install, release_of
from robench.cli.names import models_of_registry
from robench.cli.options import (
    data_root_option,
    device_option,
    json_option,
    model_option,
    precision_option,
    registry_option,
    results_option,
)
from robench.cli.terminal import out, out_entries, out_json, say
from robench.core.checkpoint import Checkpoint
from robench.core.errors import RobenchError, UnknownNameError, UsageError
from robench.datasets import DATASETS

PACKAGES = ("robench", "torch", "torchvision", "timm", "numpy", "safetensors", "pyarrow", "pydantic", "pandas")
_OF_DATASET = "dataset "


@click.command("doctor")
@model_option(required=False)
@registry_option
@device_option
@precision_option
@results_option
@data_root_option
@json_option
def command(
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    device: str,
    precision: str,
    results: Path,
    data_root: Path | None,
    as_json: bool,
) -> int:
    """Check this installation; say whether it is ready, then what works and what to do about the rest.

    With --model also the largest batch size, a power of two, whose forward and backward pass fits on --device.
    Exits with 1 if robench's own parts are broken.
    """
    named = models_of_registry(models, registries) if models else ()
    checks = [
        *_checks(registries, results, data_root),
        *(_batch_size(name, registries, device, precision, data_root) for name in named),
    ]
    if as_json:
        out_json([{"name": check.name, "state": check.state, "message": "\n".join(check.lines)} for check in checks])
    else:
        out(*_summary(checks), "")
        for check in checks:
            first, *others = check.lines
            out(f"{check.state:8} {check.name}: {first}", *others)
    return 1 if any(check.state == "broken" for check in checks) else 0


@dataclass(frozen=True, slots=True)
class _Check:
    """Finding about one part of the installation."""

    name: str
    state: str
    lines: tuple[str, ...]


def _summary(checks: Sequence[_Check]) -> list[str]:
    """Return whether robench is ready, and what is missing, in a line each."""
    broken, missing = ([each.name for each in checks if each.state == state] for state in ("broken", "missing"))
    lines = [f"Not ready: {', '.join(broken)} broken; see below." if broken else "Ready: all that robench ships works."]
    datasets = [name for name in missing if name.startswith(_OF_DATASET)]
    absent = [f"{len(datasets)} dataset{'s' * (len(datasets) != 1)}"] if datasets else []
    absent += [name for name in missing if name not in datasets]
    return [*lines, f"Missing, and needed only by commands that name them: {', '.join(absent)}."] if absent else lines


def _checks(registries: tuple[Path, ...], results: Path, data_root: Path | None) -> Iterator[_Check]:
    from robench.declare import is_clone, read_registries, shipped_suites

    yield _check("python", lambda: f"{platform.python_version()} at {sys.executable}")
    for name in PACKAGES:
        yield _check(name, _version, name)
    yield _check("devices", _devices)
    yield _check("results", _results, results)
    yield _check("suites", lambda: ", ".join(shipped_suites()))
    # Parts of a published set are in one folder, so they are present together.
    for name, declared in ((name, declared) for name, declared in DATASETS.loaded() if "/" not in name):
        # Embedded datasets must be present; all others are placed by the user, or third-party.
        is_own_part = declared.folder is None and name in DATASETS.builtin
        yield _check(f"{_OF_DATASET}{name}", _dataset, name, data_root, if_not="broken" if is_own_part else "missing")
    unplaced = []
    for checkpoint in read_registries(registries).values():
        check = _check(f"weights {checkpoint.name}", _weights, checkpoint)
        training = checkpoint.training
        # A clone has those of embedded data with a checksum; others are trained or placed by the user.
        is_embedded = training is not None and training.is_embedded and checkpoint.weights.sha256 is not None
        if check.state == "ok" or (is_embedded and is_clone()):
            yield check
        else:
            unplaced.append(checkpoint.name)
    if unplaced:
        message = (
            f"{', '.join(unplaced)}; 'robench show NAME' tells where to put a model's weights, and how to get them"
        )
        yield _Check(f"weights of {len(unplaced)} models", "missing", (message,))
    yield from _plugins()
    yield from _notes()


def _plugins() -> Iterator[_Check]:
    """Yield a check of each distribution that declares plug-ins, and a note on each broken plug-in."""
    from robench.cli.list_command import CATALOGUE
    from robench.core.plugins import claims

    owners: dict[str, list[str]] = {}
    for claim in claims():
        owners.setdefault(claim.owner, []).append(claim.name)
    for owner, names in owners.items():
        yield _Check(f"plug-ins of {owner}", "ok", (", ".join(names),))
    families = [list_of for name, list_of in CATALOGUE.items() if owners and name not in ("models", "suites")]
    broken = [str(entry["broken"]) for list_of in families for entry in list_of(()) if "broken" in entry]
    for message in dict.fromkeys(broken):
        yield _Check("plug-in", "note", (message,))


def _check(name: str, find: Callable[..., str], *arguments: object, if_not: str = "broken") -> _Check:
    try:
        return _Check(name, "ok", (find(*arguments),))
    except RobenchError as error:
        return _Check(name, if_not, error.lines)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError as error:
        raise RobenchError(f"not installed; install it with: pip install {name}") from error


def _devices() -> str:
    from robench.runs import choose_workers

    workers = choose_workers("auto", None, "auto")
    return f"{len(workers.devices)} workers by default, on {', '.join(dict.fromkeys(workers.devices))}"


def _results(results: Path) -> str:
    from robench.store import FolderStore

    try:
        if not results.exists():
            return f"{results} does not exist yet"
    except OSError as error:
        raise RobenchError(f"{results} cannot be read: {error.strerror}") from error
    FolderStore(results).check_writable()
    return f"{results} can be written"


def _dataset(name: str, data_root: Path | None) -> str:
    from robench.datasets import open_dataset

    identity = open_dataset(name, data_root=data_root, preprocessing=None).identity
    return f"{identity.num_examples} examples, fingerprint {identity.fingerprint[:12]}"


def _weights(checkpoint: Checkpoint) -> str:
    from robench.models.loading import resolve

    path, digest = resolve(checkpoint)
    return f"{path}, sha256 {digest[:12]}"


def _batch_size(
    model: str, registries: tuple[Path, ...], device: str, precision: str, data_root: Path | None
) -> _Check:
    from robench.runs.devices import batch_size_text

    arguments = model, registries, device, precision, data_root
    return _check(f"batch size of {model}", batch_size_text, *arguments, if_not="missing")


def _notes() -> Iterator[_Check]:
    for name in sorted(name for name in os.environ if name.startswith("ROBENCH_")):
        yield _Check(f"variable {name}", "note", (os.environ[name],))
    if find_spec("torchattacks") and find_spec("robustbench"):
        message = "torchattacks ships a stale copy of the package robustbench; do not import that one"
        yield _Check("robustbench", "note", (message,))


@click.group("backends")
def backends_command() -> None:
    """List libraries of attacks, and install the ones that need an environment of their own."""


@backends_command.command("list")
@json_option
def list_backends(as_json: bool) -> int:
    """List the libraries: package, installed version, and the command that installs it."""
    entries = [
        {"name": name, "package": package, "version": _version_of(name, package), "install": line}
        for name, (package, line) in LIBRARIES.items()
    ]
    rows = [[str(entry["name"]), entry["version"] or "not installed", str(entry["install"])] for entry in entries]
    out_entries(as_json, entries, ["backend", "version", "install"], rows)
    return 0


@backends_command.command("install")
@click.argument("name")
def install_backend(name: str) -> int:
    """Install backend NAME into an environment of its own, below ROBENCH_BACKENDS or ~/.cache/robench/backends.

    pip downloads its packages, by their digests; robench's own torch serves it. Exits with 2 if that fails.
    """
    if name not in LIBRARIES:
        raise UnknownNameError("backend", name, LIBRARIES)
    if name not in RELEASES:
        raise UsageError(f"backend {name} is installed beside robench: {LIBRARIES[name][1]}")
    say(f"installing {name} {RELEASES[name]} into {environment_of(name)}")
    out(f"{name} {RELEASES[name]} is in {install(name)}")
    return 0


def _version_of(name: str, package: str) -> str | None:
    try:
        check_installed(name)
    except UsageError:
        return None
    return release_of(name)[package]
