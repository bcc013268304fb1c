"""The page of the second edition of CIFAR-10: its tables are those of scipy, and no verdict comes early."""

import json
from pathlib import Path

import cifar10_second
import numpy as np
import pytest
from cifar10_second import MODELS, RATES, RPC, SYMMETRIC, Second, held, of_pair, of_rates, page
from scipy import stats

from robench.declare import read_registry


def test_rpc_is_compared_with_symmetric_by_welch_and_holm() -> None:
    rng = np.random.default_rng(1)
    columns = {name: rng.normal(0.6 + gap, 0.05, (len(MODELS), 6, 40)) for name, gap in (("a", 0.0), ("b", 0.1))}
    columns["b"][MODELS.index(RPC)] += 0.05
    lines = [*of_pair(columns)][2:]
    p_values = []
    for values, line in zip(columns.values(), lines, strict=True):
        rpc, symmetric = (100 * values[MODELS.index(name)].mean(axis=1) for name in (RPC, SYMMETRIC))
        p_values.append(stats.ttest_ind(rpc, symmetric, equal_var=False).pvalue)
        assert f"| {rpc.mean():.1f} | {symmetric.mean():.1f} | {rpc.mean() - symmetric.mean():+.1f} |" in line
    smallest, largest = sorted(p_values)
    corrected = {smallest: min(1, 2 * smallest), largest: max(min(1, 2 * smallest), largest)}
    assert [float(line.split("|")[-2]) for line in lines] == pytest.approx([corrected[p] for p in p_values], rel=0.05)


def test_verdicts_are_given_with_how_often_they_hold() -> None:
    values = np.random.default_rng(2).random((len(MODELS), 6, 200))
    values[1:3] += [[[0.3]], [[-0.3]]]
    (line,) = [*held({"clean": values})][2:]
    cells = line.split("|")[2:-1]
    assert [cell.strip() for cell in cells[:2]] == ["supported, 100 %", "contradicted, 100 %"]
    assert all(cell.strip().startswith("undecided, ") for cell in cells[2:])


def test_tests_are_made_with_all_seeds_alone(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    second = Second(tmp_path)
    second.__dict__["seeds"] = (0, 1, 2)
    assert [*page(second)][-1] == "Training seeds of all models so far: 3. Tests are made once there are 12."


def test_rates_are_those_of_the_example_registry() -> None:
    registry = cifar10_second.ROOT / "examples" / "cifar10-2" / "rates.yaml"
    names = {f"{model.removeprefix('cifar10-s-')}-rate-{rate}" for model in MODELS for rate in RATES}
    assert read_registry(registry).keys() == names


def test_rates_are_read_from_all_histories_or_none(tmp_path: Path) -> None:
    for place, model in enumerate(MODELS):
        for rate, right in zip(RATES, (0.5, 0.61, 0.6), strict=True):
            assert [*of_rates(tmp_path)] == []
            scores = [
                {"top1_accuracy": each, "loss_nats": 1.0, "num_examples": 5000} for each in (0.9, right + place / 1000)
            ]
            epochs = [{"epoch": each, "loss_nats": 1.5, "validation": of} for each, of in enumerate(scores, start=1)]
            path = tmp_path / f"{model.removeprefix('cifar10-s-')}-rate-{rate}.history.json"
            path.write_text(json.dumps({"checkpoint": model, "dataset": "cifar-10", "num_epochs": 2, "epochs": epochs}))
    assert [*of_rates(tmp_path)][2:5] == [
        "| vit | 50.0 | 61.0 | 60.0 | +0.0 |",
        "| symvit | 50.1 | 61.1 | 60.1 | +0.1 |",
        "| rpc-symvit | 50.2 | 61.2 | 60.2 | +0.2 |",
    ]


@pytest.mark.parametrize(("loss", "has_failed"), [("1.99", False), ("2.01", True), ("NaN", True)])
def test_a_failed_training_is_told_and_nothing_is_tested(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, loss: str, *, has_failed: bool
) -> None:
    monkeypatch.setattr(cifar10_second, "ROOT", tmp_path)
    (tmp_path / "checkpoints").mkdir()
    second = Second(tmp_path)
    second.__dict__.update(checkpoints=[{0: name} for name in MODELS], seeds=(0,))
    for name in MODELS:
        epoch = {"epoch": 1, "loss_nats": 1.5, "validation": None}
        head = {"checkpoint": name, "dataset": "cifar-10", "num_epochs": 1, "epochs": [epoch]}
        (tmp_path / f"checkpoints/{name}.history.json").write_text(
            json.dumps(head).replace("1.5", loss if name == RPC else "1.5")
        )
    assert second.failed == ([RPC] if has_failed else [])
    monkeypatch.setattr(cifar10_second, "NUM_SEEDS", 1)
    if has_failed:
        assert [*page(second)][-1] == f"Failed trainings, to be left out as the protocol says before any test: {RPC}."
