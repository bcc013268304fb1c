"""Libraries of attacks: which are installed, and how to install missing ones.

Some run in an environment of their own, since their requirements contradict robench's. The environment is a virtual one
of the same Python: the packages of a lock file, and after them robench's own, for torch. It is below the folder of the
variable ``ROBENCH_BACKENDS``, by default ``~/.cache/robench/backends``.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from robench.core.errors import UsageError
from robench.core.providers import install_command

FOLDER_VARIABLE = "ROBENCH_BACKENDS"
# Release of each library; the packages of its environment are in the lock file of its name.
RELEASES: Mapping[str, str] = {"textattack": "0.3.11"}
_READY = "robench-ready"
_ROBENCH = "robench-packages.pth"


def environment_of(backend: str) -> Path:
    """Return the folder of a backend's environment, which may not exist."""
    parent = os.environ.get(FOLDER_VARIABLE)
    folder = Path(parent).expanduser() if parent else Path.home() / ".cache" / "robench" / "backends"
    return folder.absolute() / f"{backend}-{RELEASES[backend]}-python{sys.version_info.major}.{sys.version_info.minor}"


def is_ready(backend: str) -> bool:
    """Return whether the environment is complete, of this lock file and beside this installation of robench."""
    try:
        return (environment_of(backend) / _READY).read_text() == _wanted(backend)
    except OSError:
        return False


def python_of(backend: str) -> Path:
    """Return the Python of a backend's environment. Raises UsageError: it is not installed."""
    if not is_ready(backend):
        raise UsageError(
            f"backend {backend} needs its own environment, and {environment_of(backend)} is not it: "
            f"robench backends install {backend}"
        )
    return _python_in(environment_of(backend))


def install(backend: str) -> Path:
    """Make a backend's environment unless it is there, and return its folder; pip downloads the packages.

    Raises:
        UsageError: the folder cannot be written, or pip fails; the message has the end of pip's.
    """
    folder = environment_of(backend)
    if is_ready(backend):
        return folder
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        lock = Path(__file__).with_name(f"{backend}.lock")
        pip = [str(_python_in(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "--requirement", str(lock)])
        packages = sysconfig.get_path("purelib", "venv", vars={"base": str(folder), "platbase": str(folder)})
        (Path(packages) / _ROBENCH).write_text(f"{sysconfig.get_path('purelib')}\n")
        (folder / _READY).write_text(_wanted(backend))
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return folder


def _wanted(backend: str) -> str:
    """Return the content of the file that is written last: the lock's digest, and the packages that follow."""
    lock = Path(__file__).with_name(f"{backend}.lock").read_bytes()
    return f"{hashlib.sha256(lock).hexdigest()}\n{sysconfig.get_path('purelib')}\n"


def _run(command: list[str]) -> None:
    try:
        subprocess.check_output(command, text=True, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        lines = str(error.output).strip().splitlines()[-5:]
        raise UsageError("the environment cannot be made; the end of pip's message follows", *lines) from error


def _python_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


# Maps a backend to its package and the command that installs it: torchattacks pins a requests of 2021, cleverhans
# requires TensorFlow's, and neither imports them; the name autoattack is not taken on PyPI.
LIBRARIES: Mapping[str, tuple[str, str]] = {
    "torchattacks": ("torchattacks", "pip install --no-deps torchattacks==3.5.1"),
    "autoattack": ("pyautoattack", install_command("autoattack")),
    "foolbox": ("foolbox", install_command("foolbox")),
    "cleverhans": ("cleverhans", "pip install --no-deps cleverhans==4.0.0"),
    "textattack": ("textattack", "robench backends install textattack"),
}


def check_installed(backend: str) -> None:
    """Check that the backend's library is installed.

    Raises:
        UsageError: it is not; the message contains the command that installs it.
    """
    if backend not in LIBRARIES:
        return
    if backend in RELEASES:
        python_of(backend)
        return
    package, line = LIBRARIES[backend]
    if find_spec(package) is None:
        raise UsageError(f"backend {backend} needs the package {package}, which is not installed: {line}")


def release_of(backend: str) -> dict[str, str]:
    """Return the version of the backend's package by its name; empty for robench itself.

    Raises:
        UsageError: it is not installed.
    """
    if backend not in LIBRARIES:
        return {}
    check_installed(backend)
    package, _ = LIBRARIES[backend]
    return {package: RELEASES.get(backend) or version(package)}


def library(backend: str, module: str = "") -> Any:
    """Return the backend's package, or the named module in it; untyped, as all of these libraries are.

    Raises:
        UsageError: it is not installed.
    """
    check_installed(backend)
    package, _ = LIBRARIES[backend]
    return import_module(f"{package}.{module}" if module else package)
