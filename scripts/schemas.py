"""Writes schemas/*.json, the JSON Schemas of suite and registry files (``make generated``); a test compares them."""

from __future__ import annotations

from pathlib import Path

from robench.core.inert import inert_json
from robench.declare.json_schema import FILES, json_schema

FOLDER = Path(__file__).parents[1] / "schemas"


def contents() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {f"{kind}.json": inert_json(json_schema(kind)) + "\n" for kind in FILES}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in contents().items():
        (FOLDER / name).write_text(content)
