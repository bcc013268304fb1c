"""Tests of readers with robench's fixture."""

from pathlib import Path

from test_compare_and_check import (
    PytestProject,
    _no_step_summary,
    copy_with,
    kept,
    wrong,
)

__all__ = ["_no_step_summary", "kept"]


class TestPytestPlugin(PytestProject):
    def test_a_good_model_passes_and_measures_what_is_missing(self, project: Path) -> None:
        (project / "results").unlink()
        test = (
            "def test_published(robench):\n"
            '    check = robench.check("./fast.yaml", model="digits-vit", baseline="digits.parquet")\n'
            "    assert len(check.cells) == 3\n"
        )
        ended = self.run(project, test)
        assert ended.returncode == 0, ended.stdout
        assert (project / "results" / "records").is_dir()

    def test_a_worse_model_fails_with_the_table_alone(self, project: Path, kept: Path) -> None:
        copy_with(kept, project / "worse", wrong)
        test = 'def test_it(robench):\n    robench.check("./fast.yaml", results="worse", run=False)\n'
        ended = self.run(project, test)
        assert ended.returncode == 1
        assert "failed: 2 worse, of 6 cells" in ended.stdout
        assert "pytest_plugin.py" not in ended.stdout
