"""What was kept is not attacked again; what is lost or damaged is."""

from collections.abc import Callable
from pathlib import Path

from conftest import Ended, Robench
from test_transfer import MODELS, SERIAL, SHORT, TARGET, options, transfer

__all__ = ["transfer"]


def test_what_a_run_has_kept_is_not_attacked_again(
    robench: Robench, small_suite: Callable[..., Path], transfer: Callable[..., Ended], tmp_path: Path
) -> None:
    run = ("run", "--suite", small_suite(**SHORT), *options(MODELS), *SERIAL, "--no-audit", "--results", tmp_path / "r")
    assert robench(*run, "--keep-adversarial", "float32").code == 0
    ended = transfer(*SERIAL)
    assert ended.code == 0
    assert "8 of 8 shards" in ended.stderr.split("scoring")[0]
    assert "0 of 8" not in ended.stderr


def test_images_that_are_lost_are_made_anew(transfer: Callable[..., Ended], tmp_path: Path) -> None:
    first = transfer(*SERIAL)
    next((tmp_path / "r" / "adversarial").rglob("*.safetensors")).unlink()
    again = transfer(*SERIAL)
    assert (again.code, again.stdout) == (0, first.stdout)
    assert len(list((tmp_path / "r" / "adversarial").rglob("*.safetensors"))) == 4


def test_damaged_images_are_set_aside_and_the_same_command_heals_it(
    transfer: Callable[..., Ended], tmp_path: Path
) -> None:
    assert transfer(*SERIAL, models=MODELS[:1]).code == 0
    for path in (tmp_path / "r" / "adversarial").rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    broken = transfer(*SERIAL, "--target", TARGET, models=MODELS[:1])
    assert broken.code == 1
    assert "set aside" in broken.stderr
    assert "100 of 100 missing" in broken.stdout
    healed = transfer(*SERIAL, "--target", TARGET, models=MODELS[:1])
    assert (healed.code, "missing" in healed.stdout) == (0, False)
