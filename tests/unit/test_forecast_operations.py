"""Operations of forecasts beside torch's counter on a real pass of the model that is measured, on the CPU."""

from dataclasses import replace

import pytest
import torch
from forecast_examples import counted_by_torch
from torch.utils.flop_counter import FlopCounterMode

from robench.declare import read_registry, shipped_registry
from robench.models.build import build
from robench.models.foreign import Python
from robench.papers.forecast import shipped_operations
from robench.reproduction.operations import counted_operations, operations_of, with_softmax

ENTRIES = read_registry(shipped_registry())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("deit-tiny-baseline-twicing", marks=pytest.mark.slow),
        "rpc-symvit",
        "twicing-deit-tiny",
        pytest.param("rpc-fan-tiny", marks=pytest.mark.slow),
        pytest.param("bilateral-deit-tiny", marks=pytest.mark.slow),
        # Its masks of subsets are counted by torch: 0.6 %.
        "mom-vit-tiny",
        pytest.param("wikitext-softmax-small", marks=pytest.mark.slow),
        # A short text has as many tokens as a long one.
        pytest.param("sst2-switch-medium", marks=pytest.mark.slow),
    ],
)
def test_shipped_operations_are_those_of_a_real_pass(name: str) -> None:
    found = shipped_operations(ENTRIES[name])
    assert found is not None
    assert found.inference == pytest.approx(counted_by_torch(ENTRIES[name]), rel=0.01)
    if with_softmax(ENTRIES[name]) != ENTRIES[name]:
        assert found.with_softmax == pytest.approx(counted_by_torch(with_softmax(ENTRIES[name])), rel=0.01)


@pytest.mark.slow
def test_training_counts_what_each_further_example_of_a_batch_takes() -> None:
    entry = ENTRIES["bilateral-deit-tiny"]
    module = build(entry.architecture).train()
    totals = []
    for size in (3, 4):
        with FlopCounterMode(display=False) as counter:
            module(torch.rand(size, 3, 224, 224))
        totals.append(counter.get_total_flops())
    found = shipped_operations(entry)
    assert found is not None
    assert 2 * found.training == totals[1] - totals[0]


@pytest.mark.parametrize(
    "name", ["bilateral-deit-tiny", pytest.param("deit-tiny-distilled-robust-kde", marks=pytest.mark.slow)]
)
def test_the_shipped_operations_are_what_the_script_counts(name: str) -> None:
    found = shipped_operations(ENTRIES[name])
    assert found is not None
    counted = counted_operations(ENTRIES[name])
    assert counted == replace(found, inference_ratio=None, training_ratio=None), "run scripts/operations.py"


@pytest.mark.slow
def test_models_of_no_table_are_counted_where_they_can_be() -> None:
    entry = ENTRIES["cifar10-rpc-symvit"]
    found = operations_of(entry)
    assert found is not None
    assert (found.inference, found.with_softmax) == (counted_by_torch(entry), counted_by_torch(with_softmax(entry)))
    assert found.inference != found.with_softmax
    assert operations_of(replace(ENTRIES["cifar10-vit"], architecture=Python(target="no_such_module:model"))) is None
