"""Environments as datasets: entries of registries, and what their examples are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robench.core.errors import UsageError
from robench.datasets import open_dataset
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare import find_datasets
from robench.testing.dataset import check_dataset

REGISTRY = "datasets:\n  mine: {kind: environment, id: ID, num_episodes: 5, target_return: -20}\n"


def declared(folder: Path, environment: str) -> Any:
    (path := folder / "registry.yaml").write_text(REGISTRY.replace("ID", environment))
    return find_datasets([path])["mine"]


def opened(found: Any) -> Any:
    return open_dataset(found, data_root=None, preprocessing=NoPreprocessing(inputs="episodes"))


def test_examples_are_first_windows_with_their_seeds(tmp_path: Path) -> None:
    cart = declared(tmp_path, "CartPole-v1")
    check_dataset(cart)
    batch = opened(cart).batch(0, 5)
    assert sorted(batch.targets.tolist()) == [0, 1, 2, 3, 4]
    # Step, return to go, four observations, and scores of two actions.
    assert batch.inputs.shape == (5, 1, 8)
    assert (batch.inputs[:, 0, :2].numpy() == [0, -20]).all()
    assert (np.abs(batch.inputs[:, 0, 2:6].numpy()) > 0).all()
    assert not batch.inputs[:, 0, 6:].any()


def test_an_environment_that_is_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CartPole-v1"):
        opened(declared(tmp_path, "CartPol-v1"))
