"""Lines of bash around robench, with streams that refuse."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
needs_dev_full = pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which $R is robench, and $GONE a pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "R": f"{sys.executable} -m robench", "GONE": str(writer), **variables}
    try:
        return subprocess.run(
            ["bash", "-c", line],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=environment,
            pass_fds=[writer],
        )
    finally:
        os.close(writer)
