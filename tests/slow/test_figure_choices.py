"""Figures of chosen panels, models and seeds."""

from pathlib import Path

from test_figure_command import Robench, asked

__all__ = ["asked"]


class TestFiles:
    def test_panels_and_models_are_chosen(self, robench: Robench, asked: list[object], tmp_path: Path) -> None:
        sizes = {}
        for name, options in {
            "all": (),
            "one": ("--panel", "contrast"),
            "model": ("--panel", "contrast", "--model", "digits-vit"),
        }.items():
            path = tmp_path / f"{name}.svg"
            assert robench("figure", "corruptions", *asked, *options, "--output", path).code == 0
            sizes[name] = len(path.read_bytes())
        assert sizes["model"] < sizes["one"] < sizes["all"]

    def test_seeds_become_one_line(self, robench: Robench, asked: list[object], tmp_path: Path) -> None:
        for name, options in {"single": (), "mean": ("--all-seeds",)}.items():
            ended = robench("figure", "budget", *asked, *options, "--output", tmp_path / f"{name}.svg")
            assert ended.code == 0
        single, mean = ((tmp_path / f"{name}.svg").read_text() for name in ("single", "mean"))
        assert "<!-- digits-vit@1 -->" in single
        assert "<!-- digits-vit@1 -->" not in mean
        assert "<!-- digits-vit -->" in mean
