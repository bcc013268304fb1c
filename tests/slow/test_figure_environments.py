"""Figures have the same bytes under other clocks, displays, hash seeds and settings of matplotlib."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from shutil import which

from leaderboard_examples import fill, shift_suite
from test_figure_command import DRAWING, Robench, asked

from robench.figures import SUFFIXES
from robench.store import FolderStore

__all__ = ["asked"]

# PGF is measured by pdflatex.
DRAWN = [suffix for suffix in SUFFIXES if suffix != ".pgf" or which("pdflatex")]


class TestFiles:
    def test_no_display_clock_user_or_hash_seed_changes_it(
        self, robench: Robench, asked: list[object], tmp_path: Path
    ) -> None:
        settings = tmp_path / "matplotlibrc"
        settings.write_text("lines.linewidth: 9\ntext.usetex: True\nsvg.fonttype: none\n")
        environments = [
            {"PYTHONHASHSEED": "1", "TZ": "UTC", "DISPLAY": "", "MPLBACKEND": "tkagg"},
            {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1", "MATPLOTLIBRC": str(settings)},
        ]
        digests = []
        for place, changes in enumerate(environments):
            files = [tmp_path / f"{place}{suffix}" for suffix in DRAWN]
            commands = [["figure", "corruptions", *map(str, asked), "--output", str(path)] for path in files]
            environment = {key: value for key, value in os.environ.items() if key != "WAYLAND_DISPLAY"} | changes
            subprocess.run([sys.executable, "-c", DRAWING, repr(commands)], check=True, env=environment)
            digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
        assert digests[0] == digests[1]

    def test_what_is_not_drawn_is_said(self, robench: Robench, asked: list[object], tmp_path: Path) -> None:
        fill(FolderStore(tmp_path / "results"), shift_suite(), {f"m{n}": 0.1 for n in range(7)})
        ended = robench("figure", "budget", *asked, "--output", tmp_path / "a.svg")
        assert ended.code == 0
        assert ended.stderr.startswith("Not drawn: m")
        assert "Without --model the eight best are drawn" in ended.stderr
