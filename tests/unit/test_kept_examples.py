"""Kept adversarial examples: a shard is done once both are kept, and damage to words is what two passes find."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from examples import CHECKPOINT, HEADER, MEASUREMENT, NEXT_HEADER, everything, failure_of, readings, record_of
from robench.attacks.cw import Cw
from robench.attacks.fgsm import Fgsm
from robench.core.columns import Outcomes
from robench.core.errors import ContractError, UsageError
from robench.core.shard import Shard, ShardHeader
from robench.core.suite import Condition, Suite
from robench.datasets import DATASETS
from robench.datasets.digits import DIGITS
from robench.datasets.texts import Texts
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare import find_suite
from robench.domains.code_points import CONTEXT_END, decoded, encoded, encoded_batch
from robench.evaluation.evaluate import evaluate
from robench.metrics import METRICS
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.word_transformer import Language
from robench.perturbations.clean import Clean
from robench.perturbations.draws import predict
from robench.perturbations.sweep import Sweep
from robench.perturbations.word_swap import WordSwap
from robench.runs import RunRequest
from robench.runs.fit import check_fit
from robench.runs.prepare import RunResults, folder_of, prepare
from robench.runs.request import KeptDtype
from robench.scheduling.estimates import passes_of
from robench.store import AdversarialExamples, FolderStore, MemoryStore
from robench.store.adversarial import ONE_BUDGET
from robench.tasks.language_modeling import LANGUAGE_MODELING

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
    with pytest.raises(UsageError, match=r"'cut' of suite 'digits-adv' cuts its inputs to \[0, 1\] after norm"):
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


SMALL = Language(vocabulary_size=12, depth=2, dim=8, num_heads=2, feedforward=16, context=5, stride=2)
WORDS = ("people", "of", "union", ",", "congress")
LINES = ["we people , of <unk> congress", "union people union", "", "of congress people <unk> union constitute"]
TEXTS = Texts("sotu", [(f"a/{place}", "\n".join(LINES[place:] * 3)) for place in range(3)])
WITH_CONTEXT = Texts("sotu", [("a", f"{TEXTS.texts[0]}\n{CONTEXT_END}{TEXTS.texts[1]}"), ("b", "people\n")])
HALF = WordSwap(rate=Fraction(1, 2), replacement="union")


class Seen(LoadedModel):
    """Small language model that keeps the texts, the seeds and the outputs of its passes."""

    def __init__(self, words: Sequence[str] = WORDS) -> None:
        torch.manual_seed(0)
        module = build(SMALL)
        for parameter in module.parameters():
            parameter.data += 0.5 * torch.randn_like(parameter)
        module.set_vocabulary(["\n", "<unk>", *words])
        super().__init__(module, NoPreprocessing(inputs="texts"), task=LANGUAGE_MODELING)
        self.passes: list[tuple[list[str], list[int], Tensor]] = []

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None, targets: Tensor | None = None) -> Tensor:
        found = super().outputs(inputs, seeds, targets)
        self.passes.append((decoded(inputs), [*(seeds or ())], found))
        return found


def outcomes_of(model: Seen, perturbation: WordSwap, texts: Texts = TEXTS, batch_size: int = 1) -> Outcomes:
    condition = Condition(name="swap", dataset=DATASETS["sotu"], perturbation=perturbation)
    checkpoint = replace(CHECKPOINT, task="language-modeling")
    measurement = replace(
        MEASUREMENT, checkpoint=checkpoint, condition=condition, dataset=texts.identity, batch_size=batch_size
    )
    return evaluate(Shard(measurement=measurement, start=0, stop=len(texts)), model, texts).outcomes


def scored(text: str) -> list[str]:
    """Tokens that are scored, by a loop over the characters."""
    tokens, word = [], ""
    for sign in text.rpartition(CONTEXT_END)[2].removesuffix("\n") + "\n":
        if sign in " \n":
            tokens += [word] * bool(word) + ["\n"] * (sign == "\n")
            word = ""
        else:
            word += sign
    return tokens


@pytest.mark.parametrize("texts", [TEXTS, WITH_CONTEXT])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_it_is_that_of_two_passes_and_a_loop_over_the_tokens(texts: Texts, batch_size: int) -> None:
    model = Seen()
    found = METRICS["kept_damage"].compute(readings([*outcomes_of(model, HALF, texts, batch_size)]))
    gap, num_kept = 0.0, 0
    alone = Seen()
    for shown, seeds, _ in model.passes[::2]:
        for text, seed in dict(zip(shown, seeds, strict=True)).items():
            (clean,) = (each for each in texts.texts if len(scored(each)) == len(scored(text)))
            losses, clean_losses = (alone.outputs(encoded(each)[None], [seed])[0].tolist() for each in (text, clean))
            for place, (word, wanted) in enumerate(zip(scored(text), scored(clean), strict=True)):
                if word == wanted:
                    gap += losses[place] - clean_losses[place]
                    num_kept += 1
    assert found.value == pytest.approx(100 * (exp(gap / num_kept) - 1), rel=1e-9)
    assert abs(found.value) > 0.1
    assert (found.unit, found.low) == ("%", None)


def test_the_clean_pass_has_the_rows_and_the_seeds_of_the_other() -> None:
    model = Seen()
    outcomes_of(model, HALF, batch_size=2)
    assert len(model.passes) == 4
    for (shown, seeds, _), (clean, clean_seeds, _) in zip(model.passes[::2], model.passes[1::2], strict=True):
        assert clean_seeds == seeds
        assert shown != clean
        assert {*clean} <= {*TEXTS.texts}


def test_it_is_exactly_0_where_nothing_is_swapped() -> None:
    model = Seen()
    outcomes = outcomes_of(model, replace(HALF, rate=Fraction(0), count="share"), batch_size=2)
    assert METRICS["kept_damage"].compute(readings([*outcomes])).value == 0.0
    assert outcomes.column("clean_kept_loss_nats").tolist() == outcomes.column("kept_loss_nats").tolist()
    # Of passes with a changed text alone.
    assert len(model.passes) == 2


def test_a_text_without_changes_beside_a_changed_one_has_equal_losses() -> None:
    stop_words = Texts("sotu", [("a", "we people\n"), ("b", "the of and\n")])
    outcomes = outcomes_of(Seen(), replace(HALF, rate=Fraction(1)), stop_words, batch_size=2)
    gaps = outcomes.column("kept_loss_nats") - outcomes.column("clean_kept_loss_nats")
    assert gaps[1] == 0.0
    assert gaps[0] != 0.0


def test_kept_and_changed_words_are_of_the_text_whatever_the_vocabulary() -> None:
    first, second = (outcomes_of(Seen(words), HALF) for words in (WORDS, ("we", "constitute", "AAA")))
    for name in ("num_tokens", "num_kept", "num_unknown", "num_changed"):
        assert first.values(name).array.tolist() == second.values(name).array.tolist()
    assert first.column("kept_loss_nats").tolist() != second.column("kept_loss_nats").tolist()
    swapped = first.column("num_tokens") - first.column("num_kept") - first.values("num_unknown").array
    assert swapped.tolist() == first.column("num_changed").tolist()
    assert min(swapped.tolist()) > 0
    assert first.values("num_unknown").array.sum() > 0


def test_a_higher_rate_swaps_the_same_words_and_more() -> None:
    rates = [Fraction(each, 10) for each in (0, 1, 3, 6, 10)]
    counts = [outcomes_of(Seen(), replace(HALF, rate=rate)).column("num_kept").sum() for rate in rates]
    assert counts == sorted(counts, reverse=True)
    assert len({*counts}) == len(counts)


class TestCleanTargets:
    CLEAN = replace(HALF, targets="clean")

    def test_kept_words_have_the_losses_of_swapped_targets_and_swapped_ones_others(self) -> None:
        swapped, clean = (outcomes_of(Seen(), each) for each in (HALF, self.CLEAN))
        for name in ("kept_loss_nats", "clean_kept_loss_nats", "num_kept", "num_changed"):
            assert swapped.column(name).tolist() == clean.column(name).tolist()
        assert swapped.column("loss_nats").tolist() != clean.column("loss_nats").tolist()

    def test_they_have_keys_of_their_own(self) -> None:
        assert not HALF.scores_clean_targets
        assert self.CLEAN.scores_clean_targets
        conditions = [Condition(name="a", dataset=DATASETS["sotu"], perturbation=each) for each in (HALF, self.CLEAN)]
        plain = [condition.identity["perturbation"] for condition in conditions]
        assert plain[1] == plain[0] | {"targets": "clean"}

    @pytest.mark.parametrize("replacement", ["", "two words", "a\n"])
    def test_a_replacement_that_moves_the_words_after_it_is_refused(self, replacement: str) -> None:
        with pytest.raises(ValueError, match="must be a single word without white space with targets clean"):
            replace(self.CLEAN, replacement=replacement)
        assert replace(HALF, replacement=replacement).replacement == replacement

    def test_classifiers_have_none(self) -> None:
        assert not HALF.problems_on(DATASETS["sotu-eras"])
        told = "must be left out for dataset sotu-eras, where models do not predict words"
        assert self.CLEAN.problems_on(DATASETS["sotu-eras"]) == [("targets", told)]
        assert not self.CLEAN.problems_on(DATASETS["sotu"])

    def test_a_model_that_takes_none_is_refused_before_anything_is_measured(self) -> None:
        model = Seen()
        conditions = [Condition(name="asks", dataset=DATASETS["sotu"], perturbation=self.CLEAN)]
        checkpoint = replace(CHECKPOINT, task="language-modeling")
        check_fit(checkpoint, {DATASETS["sotu"]: TEXTS}, model, conditions)
        model.takes_targets = False
        check_fit(checkpoint, {DATASETS["sotu"]: TEXTS}, model, [])
        num_passes = len(model.passes)
        with pytest.raises(UsageError, match=r"'m' cannot be scored on the clean targets .* condition 'asks' asks"):
            check_fit(checkpoint, {DATASETS["sotu"]: TEXTS}, model, conditions)
        assert len(model.passes) == num_passes
        points = encoded_batch(["we people\n"])
        with pytest.raises(ContractError, match="the model takes no targets"):
            predict(model, points, [0], 1, points)


def test_the_clean_pass_counts_as_a_pass() -> None:
    swap = Condition(name="swap", dataset=DATASETS["sotu"], perturbation=HALF)
    assert passes_of(swap) == (1, 2, 0, True)
    assert passes_of(replace(swap, perturbation=Clean())) == (1, 1, 0, True)
    assert passes_of(replace(swap, dataset=DATASETS["sotu-eras"])) == (1, 1, 0, True)
