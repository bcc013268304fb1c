"""Audits as part of a run by worker processes."""

from pathlib import Path

from test_flags import MODELS, Robench, audited, kept

__all__ = ["audited"]


def test_a_worker_keeps_the_same_flags_as_a_serial_run(robench: Robench, audited: Path, tmp_path: Path) -> None:
    options = (
        "--results",
        tmp_path,
        "--executor",
        "processes",
        "--workers",
        1,
        "--device",
        "cpu",
        "--registry",
        audited / "registry.yaml",
        "--audit",
        "full",
    )
    ended = robench("run", "--suite", audited / "small.yaml", *MODELS, *options)
    assert ended.code == 0, ended.stderr
    assert kept(tmp_path) == kept(audited / "results")
