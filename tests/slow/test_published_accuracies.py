"""Every published digits checkpoint has its accuracy, and PGD with a random start is as strong as torchattacks'."""

import pytest
import torch
import torchattacks
from test_published_checkpoints import (
    CHECKPOINTS,
    DEMO,
    EVERYTHING,
    AsModule,
    TestPublishedCheckpoint,
    _one_thread,
    attacked_by_robench,
)

__all__ = ["TestPublishedCheckpoint", "_one_thread"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.cls is TestPublishedCheckpoint:
        metafunc.parametrize("name", CHECKPOINTS)


@pytest.mark.parametrize("name", DEMO[-1:])
class TestAttacked:
    def test_pgd_agrees_with_torchattacks_within_one_point(self, name: str) -> None:
        module = AsModule(name)
        torch.manual_seed(0)
        theirs = torchattacks.PGD(module, eps=8 / 255, alpha=2 / 255, steps=20, random_start=True)
        accuracies = []
        for attacked in (theirs(EVERYTHING.inputs, EVERYTHING.targets), attacked_by_robench(module, EVERYTHING)):
            with torch.no_grad():
                accuracies.append(float((module(attacked).argmax(1) == EVERYTHING.targets).double().mean()))
        assert 0.1 < accuracies[1] < 0.9
        assert abs(accuracies[0] - accuracies[1]) <= 0.01
