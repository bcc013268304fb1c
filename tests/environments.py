"""Environments of Python for packages that robench's own has not, and robench's wheel."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def python_with(folder: Path, *packages: str, is_beside: bool = True) -> Path:
    """Return the Python of a new environment with packages, ``is_beside`` those of this one, or skip the test."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if is_beside:
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "robench.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")))
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", *packages]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"{', '.join(packages)} cannot be installed here: {installed.stderr[-300:]}")
    return python


def built_wheel(folder: Path) -> Path:
    """Return robench's wheel, built into a folder."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, str(folder), str(ROOT)], check=True, capture_output=True)
    (wheel,) = folder.glob("robench-*.whl")
    return wheel
