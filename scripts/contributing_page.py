"""Code blocks of CONTRIBUTING.md, from the files of the example.

A block that begins with a comment that names a file below ``examples/robench-example-plugin`` is that file.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "robench-example-plugin"
BLOCK = re.compile(r"^```(?P<language>\w+)\n# (?P<file>\S+\.(?:py|toml))\n.*?^```$", re.MULTILINE | re.DOTALL)


def page(text: str) -> str:
    """Return the page with each block as its file is now."""
    return BLOCK.sub(_block, text)


def files(text: str) -> list[str]:
    """Return the files that the page shows, in its order."""
    return [found["file"] for found in BLOCK.finditer(text)]


def _block(found: re.Match[str]) -> str:
    content = (EXAMPLE / found["file"]).read_text()
    return f"```{found['language']}\n# {found['file']}\n{content.rstrip()}\n```"
