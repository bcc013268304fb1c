"""Measures robench on a GPU in one call (``make gpu``) and writes reports/gpu.json and reports/gpu.md.

The minutes are divided over the parts by their weights; what a part leaves goes to the next. A measurement for which no
time is left, or whose library is not installed, is listed with that reason; so is one that failed. The files are
written after each measurement, so that an interrupted call leaves what it has. ``--tiny`` does everything at sizes of a
few seconds, on any device.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import torch
from gpu_further_parts import FURTHER_PARTS
from gpu_parts import PARTS, Setting

from robench.core.errors import described
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpu_parts import Part

PACKAGES = ("torchattacks", "pyautoattack", "imagecorruptions-imaug", "timm", "torchvision")
COMMAND = "python scripts/gpu_battery.py"


@dataclass(kw_only=True)
class Battery:
    """Parts that share a number of seconds, and the document of their results.

    Attributes:
        document: values of JSON, complete after each measurement.
        seconds: time for all parts.
        clock: function that returns the time in seconds.
        installed: function that returns whether a module can be imported.
        keep: function that is called whenever the document has changed.
    """

    document: dict[str, Any]
    seconds: float
    clock: Callable[[], float] = time.monotonic
    installed: Callable[[str], bool] = lambda name: find_spec(name) is not None
    keep: Callable[[dict[str, Any]], None] = lambda document: None

    def run(self, parts: Sequence[Part], setting: Setting) -> None:
        """Measure all parts in their order."""
        end = self.clock() + self.seconds
        self.document["parts"] = {part.name: {"title": part.title, "rows": []} for part in parts}
        for number, part in enumerate(parts):
            now = self.clock()
            fraction = part.weight / sum(each.weight for each in parts[number:])
            self._run(part, setting, now + fraction * (end - now))
            self.document["parts"][part.name]["seconds"] = round(self.clock() - now, 2)
            self.keep(self.document)

    def _run(self, part: Part, setting: Setting, end: float) -> None:
        rows = self.document["parts"][part.name]["rows"]
        if self.clock() >= end:
            rows.append({"name": "all", "skipped": "no time was left"})
            return
        try:
            tasks = list(part.tasks(setting))
        # Broad, here and below, because a device and libraries fail in any way, which is a result like others.
        except Exception as error:
            rows.append({"name": "all", "failed": described(error)})
            return
        for task in tasks:
            rows.append({"name": task.name} | self._measured(task.measure, task.requires, end))
            self.keep(self.document)

    def _measured(self, measure: Callable[[], dict[str, Any]], requires: Iterable[str], end: float) -> dict[str, Any]:
        if lacking := [name for name in requires if not self.installed(name)]:
            return {"skipped": f"{lacking[0]} is not installed"}
        if self.clock() >= end:
            return {"skipped": "no time was left in this part"}
        try:
            return measure()
        except Exception as error:
            return {"failed": described(error)}


def manifest(setting: Setting, minutes: float) -> dict[str, Any]:
    """Return what the numbers rest on."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"{COMMAND} --minutes {minutes:g}{' --tiny' if setting.is_tiny else ''}",
        "device": device_kind(setting.device),
        "model": setting.title,
        "versions": library_versions() | versions,
    }


def as_markdown(document: dict[str, Any]) -> str:
    """Return the document as a page with a table for each part."""
    about = document["manifest"]
    lines = ["# robench on a GPU", "", f"Written by `{about['command']}` on {about['date']}, on {about['device']}."]
    lines += [f"Model: {about['model']}.", ""]
    for part in document.get("parts", {}).values():
        lines += [f"## {part['title']}", ""]
        measured = [row for row in part["rows"] if not {"skipped", "failed"} & row.keys()]
        if measured:
            columns = list(dict.fromkeys(name for row in measured for name in row))
            lines += [f"| {' | '.join(name.replace('_', ' ') for name in columns)} |", "|---" * len(columns) + "|"]
            lines += [f"| {' | '.join(_cell(row.get(name)) for name in columns)} |" for row in measured] + [""]
        for word in ("skipped", "failed"):
            for reason in dict.fromkeys(row[word] for row in part["rows"] if word in row):
                names = [row["name"] for row in part["rows"] if row.get(word) == reason]
                lines += [f"{word.capitalize()}, since {reason}: {', '.join(names)}.", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|").replace("\n", " ")


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0), default=8.0, show_default=True, help="Time for all parts.")
@click.option("--tiny", is_flag=True, help="Sizes of a few seconds, on any device.")
@click.option("--device", default=None, help="Such as cuda:0; default: the first GPU.")
@click.option("--output", default=Path("reports"), type=click.Path(path_type=Path), help="Folder of the two files.")
def main(minutes: float, tiny: bool, device: str | None, output: Path) -> None:
    """Measure robench on a GPU, and write gpu.json and gpu.md."""
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cpu" and not tiny:
        raise click.UsageError("there is no GPU here: add --tiny to try the battery on a CPU")
    setting = Setting(chosen, is_tiny=tiny)
    output.mkdir(parents=True, exist_ok=True)

    def keep(document: dict[str, Any]) -> None:
        (output / "gpu.json").write_text(json.dumps(document, indent=1) + "\n")
        (output / "gpu.md").write_text(as_markdown(document))

    with fixed_arithmetic(chosen):
        Battery(document={"manifest": manifest(setting, minutes)}, seconds=60 * minutes, keep=keep).run(
            (*FURTHER_PARTS, *PARTS), setting
        )
    click.echo(f"wrote {output / 'gpu.json'} and {output / 'gpu.md'}")


if __name__ == "__main__":
    main()
