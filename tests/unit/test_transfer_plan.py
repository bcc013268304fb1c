"""Transfers before anything is measured: what is transferred between whom, attacked, scored and shown."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from examples import CHECKPOINT, PGD
from robench.attacks.fgsm import Fgsm
from robench.core.errors import UnknownNameError, UsageError
from robench.core.suite import Condition, Suite
from robench.datasets.digits import DIGITS
from robench.declarations.base import DeclarationBase
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints
from robench.evaluation.actions import Rescore
from robench.perturbations.clean import Clean
from robench.perturbations.sweep import Sweep
from robench.runs import PreparedTransfer, RunRequest, prepare_transfer
from robench.runs.transfer import check_same_pixels, choose

FGSM = Fgsm(epsilon=Fraction(8, 255))
SUITE = Suite(
    name="s",
    version=3,
    seed=5,
    task="classification",
    batch_size=50,
    conditions=(
        Condition(name="all", dataset=DIGITS, perturbation=Clean()),
        Condition(name="clean", dataset=DIGITS, perturbation=Clean(), num_examples=100),
        Condition(name="fgsm", dataset=DIGITS, perturbation=FGSM, num_examples=100),
        Condition(name="stronger", dataset=DIGITS, perturbation=replace(FGSM, epsilon=Fraction(1, 2))),
    ),
    metrics=("robust_accuracy",),
    columns=(),
)
SOURCES = ("digits-vit", "digits-symvit")
TARGETS = ("digits-fan", "digits-vit")


def planned(suite: Suite = SUITE, limit: int | None = None) -> PreparedTransfer:
    sources, targets = (tuple(find_checkpoints(list(names), ())) for names in (SOURCES, TARGETS))
    request = RunRequest(suites=(suite,), checkpoints=sources, limit=limit, executor="serial")
    return prepare_transfer(request, "fgsm", targets)


@pytest.fixture(scope="module")
def prepared() -> PreparedTransfer:
    return planned()


def test_sources_are_attacked_and_everyone_is_measured_clean(prepared: PreparedTransfer) -> None:
    asked = {(shard.measurement.checkpoint.name, shard.measurement.condition.name) for shard in prepared.attacks.shards}
    assert asked == {
        ("digits-vit", "clean"), ("digits-vit", "fgsm"), ("digits-symvit", "clean"), ("digits-symvit", "fgsm"),
        ("digits-fan", "clean"),
    }  # fmt: skip


def test_of_several_clean_conditions_that_of_as_many_examples_is_shown(prepared: PreparedTransfer) -> None:
    assert prepared.matrix.conditions[0].name == "clean"


def test_every_target_but_the_source_itself_is_scored_on_every_source(prepared: PreparedTransfer) -> None:
    asked = [
        (shard.measurement.checkpoint.name, shard.measurement.condition.name, shard.start)
        for shard in prepared.scores.shards
    ]
    assert asked == [
        (target, f"fgsm from {source}", start)
        for target, source in (
            ("digits-fan", "digits-vit"),
            ("digits-fan", "digits-symvit"),
            ("digits-vit", "digits-symvit"),
        )
        for start in (0, 50)
    ]


def test_what_is_transferred_names_source_attack_and_normalisation(prepared: PreparedTransfer) -> None:
    shard = prepared.scores.shards[0]
    condition = shard.measurement.condition
    transferred = condition.action
    assert isinstance(transferred, Rescore)
    (source,) = [
        each
        for each in prepared.attacks.measurements["s"]
        if (each.checkpoint.name, each.condition.name) == ("digits-vit", "fgsm")
    ]
    assert (transferred.source, condition.perturbation) == (source.key, FGSM)
    preprocessing = source.checkpoint.preprocessing
    assert isinstance(preprocessing, ImagePreprocessing)
    assert (transferred.mean, transferred.std) == (preprocessing.mean, preprocessing.std)


def test_scores_of_different_sources_targets_and_seeds_have_different_keys(prepared: PreparedTransfer) -> None:
    keys = [each.key for each in prepared.scores.measurements[prepared.matrix.name]]
    other = planned(replace(SUITE, seed=6)).scores.measurements[prepared.matrix.name]
    assert len({*keys, *(each.key for each in other)}) == 2 * 4


def test_the_attack_is_the_very_measurement_of_any_run(prepared: PreparedTransfer) -> None:
    from robench.runs import prepare

    request = replace(prepared.attacks.request, suites=(SUITE,), keep_adversarial=None)
    keys = {each.key for each in prepare(request).measurements["s"]}
    assert {shard.measurement.key for shard in prepared.attacks.shards} < keys


def test_only_a_source_that_is_a_target_has_a_place_on_the_diagonal(prepared: PreparedTransfer) -> None:
    assert [each.checkpoint.name for each in prepared.diagonal.values()] == ["digits-vit"]


def test_the_columns_are_clean_and_then_the_sources(prepared: PreparedTransfer) -> None:
    assert [column.label for column in prepared.matrix.columns] == ["clean", "from digits-vit", "from digits-symvit"]
    assert (prepared.matrix.name, prepared.matrix.version) == ("s: transfer of fgsm", 3)
    assert not prepared.matrix.audit


def test_a_limit_is_met_by_whole_shards_of_attacks_and_scores_alike() -> None:
    limited = planned(limit=10)
    for run in (limited.attacks, limited.scores):
        assert {(shard.start, shard.stop) for shard in run.shards} == {(0, 50)}


def test_models_of_another_task_are_refused() -> None:
    with pytest.raises(UsageError, match="is for language"):
        planned(replace(SUITE, task="language"))


SWEEP = Sweep(attacks=tuple(replace(PGD, epsilon=Fraction(k, 255)) for k in (2, 6, 12)))


def condition(name: str, perturbation: DeclarationBase) -> Condition:
    return Condition(name=name, dataset=DIGITS, perturbation=perturbation)


CHOSEN = Suite(
    name="s", version=1, seed=0, task="classification", batch_size=10,
    conditions=(condition("clean", Clean()), condition("pgd", PGD), condition("sweep", SWEEP)), metrics=(), columns=(),
)  # fmt: skip


def seen(name: str = "m", **changes: Any) -> Any:
    return replace(CHECKPOINT, name=name, preprocessing=replace(CHECKPOINT.preprocessing, **changes))  # type: ignore[type-var]


class TestChoose:
    def test_an_attack_is_meant_by_its_name(self) -> None:
        view = choose(CHOSEN, "pgd")
        assert (view.name, view.attack, view.epsilon) == ("pgd", PGD, None)

    def test_a_sweep_by_its_largest_budget(self) -> None:
        view = choose(CHOSEN, "sweep")
        assert (view.name, view.label, view.epsilon) == ("sweep@12/255", "sweep 12/255", "4/85")
        assert view.attack == replace(PGD, epsilon=Fraction(12, 255))

    @pytest.mark.parametrize("name", ["sweep@6/255", "sweep@2/85", "sweep@12/510"])
    def test_a_budget_by_its_value_however_it_is_written(self, name: str) -> None:
        assert choose(CHOSEN, name).epsilon == "2/85"

    @pytest.mark.parametrize("name", ["swep", "sweep@7/255", "pgd@8/255", "sweep@", "sweep@1/0", "@", ""])
    def test_an_unknown_one_is_refused_with_those_that_there_are(self, name: str) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown condition of suite 's'.*(pgd, sweep, sweep@12|'sweep)"):
            choose(CHOSEN, name)

    def test_what_attacks_nothing_is_refused_with_those_that_do(self) -> None:
        with pytest.raises(UsageError, match="nothing is transferred; choose an attack: pgd, sweep"):
            choose(CHOSEN, "clean")
        with pytest.raises(UsageError, match="this suite has none"):
            choose(replace(CHOSEN, conditions=CHOSEN.conditions[:1]), "clean")

    def test_a_name_may_have_an_at_in_it(self) -> None:
        suite = replace(CHOSEN, conditions=(condition("a@b", PGD), condition("a@2/4", PGD)))
        assert choose(suite, "a@b").name == "a@b"
        assert choose(suite, "a@2/4").name == "a@2/4"


class TestPixels:
    def test_mean_and_deviation_may_differ(self) -> None:
        check_same_pixels([seen("a"), seen("b", mean=(0.1, 0.2, 0.3), std=(0.9, 0.8, 0.7))])
        check_same_pixels([seen("a")])

    @pytest.mark.parametrize(
        ("changes", "shown"),
        [
            ({"resize": 248}, "resize 248, no crop, bicubic against no resize"),
            ({"crop": 224}, "no resize, crop 224, bicubic"),
            ({"interpolation": "bilinear"}, "no resize, no crop, bilinear against no resize, no crop, bicubic"),
        ],
    )
    def test_but_nothing_that_changes_pixels(self, changes: dict[str, Any], shown: str) -> None:
        with pytest.raises(UsageError, match=f"'c' sees other pixels than 'a' .*{shown}"):
            check_same_pixels([seen("a"), seen("b"), seen("c", **changes)])

    def test_inputs_of_another_kind_must_be_the_same_altogether(self) -> None:
        words = replace(CHECKPOINT, name="w", preprocessing=PGD)
        check_same_pixels([words, words])
        with pytest.raises(UsageError, match="pgd against no resize"):
            check_same_pixels([seen("a"), words])
