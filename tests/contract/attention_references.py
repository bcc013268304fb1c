"""All slow references, by kind of attention, of the files ``reference_*.py`` beside; a new mechanism brings one."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from reference_base import Reference

REFERENCES: Mapping[str, Reference] = {
    kind: reference
    for path in sorted(Path(__file__).parent.glob("reference_*.py"))
    for kind, reference in getattr(import_module(path.stem), "REFERENCES", {}).items()
}
