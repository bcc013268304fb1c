"""A shard that is to leave its adversarial examples is done once both are kept, and nothing else changes."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from examples import CHECKPOINT, HEADER, NEXT_HEADER, everything, failure_of, record_of
from robench.attacks.cw import Cw
from robench.attacks.fgsm import Fgsm
from robench.core.errors import UsageError
from robench.core.shard import ShardHeader
from robench.core.suite import Condition, Suite
from robench.datasets.digits import DIGITS
from robench.declare import find_suite
from robench.perturbations.sweep import Sweep
from robench.runs import RunRequest
from robench.runs.prepare import RunResults, folder_of, prepare
from robench.runs.request import KeptDtype
from robench.store import AdversarialExamples, FolderStore, MemoryStore
from robench.store.adversarial import ONE_BUDGET

SUITE: Suite = find_suite("digits-adv")


def examples_of(header: ShardHeader) -> AdversarialExamples:
    points = {ONE_BUDGET: np.zeros((1, 2), np.float32)}
    return AdversarialExamples(shard=header, ids=("a",), points=points, found={})


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path)
    store.put(record_of(HEADER))
    return store


def demanding(store: FolderStore, *headers: ShardHeader) -> RunResults:
    suites = {header.measurement_key: "digits-adv" for header in (HEADER, NEXT_HEADER)}
    return RunResults(store, suites, store.adversarial, frozenset(header.key for header in headers))


def test_a_record_counts_once_its_examples_are_there(store: FolderStore) -> None:
    assert demanding(store, HEADER).keys() == set()
    store.adversarial.put(examples_of(HEADER))
    assert demanding(store, HEADER).keys() == {HEADER.key}


def test_examples_without_a_record_count_for_nothing(store: FolderStore) -> None:
    store.adversarial.put(examples_of(NEXT_HEADER))
    assert demanding(store, NEXT_HEADER).keys() == {HEADER.key}


def test_of_other_shards_none_are_wanted(store: FolderStore) -> None:
    assert demanding(store, NEXT_HEADER).keys() == {HEADER.key}


def test_results_are_put_into_the_store_itself(store: FolderStore) -> None:
    demanding(store, HEADER).put(failure_of(NEXT_HEADER))
    (failure,) = store.failures()
    assert (failure.shard, failure.provenance.suite) == (NEXT_HEADER, "digits-adv")
    assert everything(store) == [record_of(HEADER)]


def test_a_store_without_files_has_no_place_for_them() -> None:
    for store in (MemoryStore(), None):
        with pytest.raises(UsageError, match="kept in a results folder"):
            folder_of(store)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", ""])
def test_an_unknown_format_is_refused(dtype: KeptDtype) -> None:
    with pytest.raises(UsageError, match=f"must be one of float32, float16, uint8, got '{dtype}'"):
        RunRequest(suites=(SUITE,), checkpoints=(CHECKPOINT,), keep_adversarial=dtype)


def test_a_search_for_the_nearest_is_not_rounded_across_the_boundary() -> None:
    cw = Cw(num_steps=2, num_search_steps=1, initial_c=1.0, learning_rate=0.01)
    suite = replace(SUITE, conditions=(Condition(name="nearest", dataset=DIGITS, perturbation=cw),))
    RunRequest(suites=(suite,), checkpoints=(CHECKPOINT,), keep_adversarial="float32")
    with pytest.raises(UsageError, match=r"condition 'nearest' of suite 'digits-adv' \(cw\) is minimum-norm"):
        RunRequest(suites=(suite,), checkpoints=(CHECKPOINT,), keep_adversarial="float16")


@pytest.mark.parametrize("several", [False, True])
def test_what_is_cut_in_normalised_space_is_not_rounded_out_of_it(several: bool) -> None:
    attack = Fgsm(epsilon=Fraction(1, 255), space="normalised", clip="unit")
    perturbation = Sweep(attacks=(attack, replace(attack, epsilon=Fraction(2, 255)))) if several else attack
    suite = replace(SUITE, conditions=(Condition(name="cut", dataset=DIGITS, perturbation=perturbation),))
    RunRequest(suites=(suite,), checkpoints=(CHECKPOINT,), keep_adversarial="float32")
    with pytest.raises(
        UsageError, match=r"condition 'cut' of suite 'digits-adv' cuts its inputs to \[0, 1\] after norm"
    ):
        RunRequest(suites=(suite,), checkpoints=(CHECKPOINT,), keep_adversarial="float16")


def test_only_what_makes_images_is_rounded_and_only_float16_changes_a_key() -> None:
    from robench.declare import find_checkpoints

    checkpoints = tuple(find_checkpoints(["digits-vit"], ()))
    keys = {}
    for dtype in (None, "float32", "float16"):
        request = RunRequest(suites=(SUITE,), checkpoints=checkpoints, audit=False, keep_adversarial=dtype)  # type: ignore[arg-type]
        measurements = prepare(request).measurements[SUITE.name]
        keys[dtype] = {each.condition.name: each.key for each in measurements}
    assert keys[None] == keys["float32"]
    changed = {name for name in keys[None] if keys[None][name] != keys["float16"][name]}
    assert changed == keys[None].keys() - {"clean"}
