"""Installed libraries of attacks, and how to install missing ones."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from robench.attacks.backends.apart import RELEASES, python_of
from robench.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Maps a backend to its package and the command that installs it: torchattacks pins a requests of 2021, cleverhans
# requires TensorFlow's, and neither imports them; the name autoattack is not taken on PyPI.
LIBRARIES: Mapping[str, tuple[str, str]] = {
    "torchattacks": ("torchattacks", "pip install --no-deps torchattacks==3.5.1"),
    "autoattack": ("pyautoattack", "pip install 'robench[autoattack]'"),
    "foolbox": ("foolbox", "pip install 'robench[foolbox]'"),
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
