"""``robench transfer`` with workers and in another order: the same bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ended, Robench

MODELS = ("digits-vit", "digits-rpc-symvit")
TARGET = "digits-symvit"
SERIAL = ("--executor", "serial")


def options(names: tuple[str, ...], option: str = "--model") -> list[str]:
    return [each for name in names for each in (option, name)]


def kept(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (results / "adversarial").rglob("*.safetensors")}


@pytest.fixture
def transfer(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> Callable[..., Ended]:
    suite = small_suite(**{"num_examples: 150": "num_examples: 100"})

    def run(*further: object, models: tuple[str, ...] = MODELS, results: str = "r") -> Ended:
        asked = ("transfer", "--suite", suite, "--condition", "pgd", *options(models))
        return robench(*asked, "--results", tmp_path / results, *further)

    return run


def test_one_worker_and_two_give_the_same_bytes(transfer: Callable[..., Ended], tmp_path: Path) -> None:
    asked = ("--format", "csv", *options((MODELS[0], TARGET), "--target"), "--limit", 50)
    one = transfer(*asked, *SERIAL, models=MODELS[:1], results="one")
    two = transfer(*asked, "--workers", "2", models=MODELS[:1], results="two")
    assert one.code == two.code == 0
    assert one.stdout == two.stdout
    assert kept(tmp_path / "one") == kept(tmp_path / "two")
    assert len(kept(tmp_path / "one")) == 1


def test_the_order_of_the_models_changes_no_number(transfer: Callable[..., Ended]) -> None:
    lines = transfer("--format", "csv", *SERIAL, results="one").stdout.splitlines()
    turned = transfer("--format", "csv", *SERIAL, models=MODELS[::-1], results="turned").stdout.splitlines()
    assert turned != lines
    assert sorted(turned) == sorted(lines)
