"""Keys change when, and only when, something changes that decides outcomes."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from examples import ARCHITECTURE, CHECKPOINT, MEASUREMENT, PGD, SHARD
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attention.rpc import Rpc
from robench.attention.symmetric import Symmetric
from robench.core.budgets import Spelled, ThreatModel
from robench.core.checkpoint import Weights
from robench.core.identity import key_of, to_plain
from robench.core.shard import Shard, shard_key
from robench.declarations.preprocessing import ImagePreprocessing


def with_measurement(**changes: Any) -> Shard:
    return replace(SHARD, measurement=replace(MEASUREMENT, **changes))


@pytest.mark.parametrize(
    "shard",
    [
        with_measurement(
            checkpoint=replace(CHECKPOINT, name="other", licence="GPL", source="there", expected={"a": 1.0})
        ),
        with_measurement(checkpoint=replace(CHECKPOINT, coupled=True)),
        with_measurement(checkpoint=replace(CHECKPOINT, weights=Weights(uri="moved.safetensors", sha256="0" * 64))),
        with_measurement(checkpoint=replace(CHECKPOINT, weights=replace(CHECKPOINT.weights, layout="plain"))),
        with_measurement(
            checkpoint=replace(
                CHECKPOINT, weights=replace(CHECKPOINT.weights, by="authors", source="there"), belongs_to="entry"
            )
        ),
        with_measurement(tensors_digest="e" * 64),
        with_measurement(condition=replace(MEASUREMENT.condition, name="renamed", num_examples=200)),
        with_measurement(condition=replace(MEASUREMENT.condition, perturbation=replace(PGD, num_restarts=1))),
        with_measurement(dataset=replace(MEASUREMENT.dataset, num_examples=500)),
        with_measurement(adversarial_dtype="float32"),
    ],
    ids=["names", "coupled", "uri", "layout", "by", "tensors", "condition", "default-spelled-out", "size", "exact"],
)
def test_what_decides_no_outcome_changes_no_key(shard: Shard) -> None:
    assert shard.key == SHARD.key


@pytest.mark.parametrize(
    "shard",
    [
        with_measurement(weights_digest="1" * 64),
        with_measurement(
            checkpoint=replace(CHECKPOINT, architecture=replace(ARCHITECTURE, attention=Rpc(formula="released")))
        ),
        with_measurement(checkpoint=replace(CHECKPOINT, architecture=replace(ARCHITECTURE, attention=Symmetric()))),
        with_measurement(
            checkpoint=replace(CHECKPOINT, preprocessing=ImagePreprocessing(mean=(0.3, 0.3, 0.3), std=(0.5, 0.4, 0.4)))
        ),
        with_measurement(checkpoint=replace(CHECKPOINT, weights=replace(CHECKPOINT.weights, layout="deit"))),
        with_measurement(condition=replace(MEASUREMENT.condition, perturbation=replace(PGD, num_steps=21))),
        with_measurement(condition=replace(MEASUREMENT.condition, perturbation=Fgsm(epsilon=Fraction(8, 255)))),
        with_measurement(dataset=replace(MEASUREMENT.dataset, fingerprint="g")),
        with_measurement(seed=1),
        with_measurement(batch_size=50),
        with_measurement(dtype="bfloat16"),
        with_measurement(adversarial_dtype="float16"),
        replace(SHARD, start=100, stop=200),
        replace(SHARD, stop=200),
    ],
    ids=[
        "weights",
        "formula",
        "attention",
        "std",
        "layout",
        "steps",
        "kind",
        "data",
        "seed",
        "batch",
        "dtype",
        "adversarial dtype",
        "start",
        "stop",
    ],
)
def test_what_decides_outcomes_changes_the_key(shard: Shard) -> None:
    assert shard.key != SHARD.key


def test_two_models_of_one_file_have_two_keys() -> None:
    keys = {
        with_measurement(checkpoint=replace(CHECKPOINT, weights=replace(CHECKPOINT.weights, **form))).key
        for form in (
            *({"layout": each} for each in ("plain", "deit", "deit-ema", "timm", "timm-ema")),
            {"key": "a"},
            {"prefix": "a"},
            {"key": "a", "prefix": "a."},
        )
    }
    assert len(keys) == 8


def test_a_new_field_at_its_default_and_version_one_orphan_nothing() -> None:
    @dataclass(frozen=True)
    class Before:
        kind: ClassVar[str] = "thing"
        version: ClassVar[int] = 1
        size: int

    @dataclass(frozen=True)
    class After:
        kind: ClassVar[str] = "thing"
        version: ClassVar[int] = 1
        size: int
        carry: bool = False
        names: tuple[str, ...] = field(default_factory=tuple)

    assert key_of(Before(size=3)) == key_of(After(size=3)) != key_of(After(size=3, carry=True))


def test_a_new_version_of_an_implementation_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SHARD.key
    monkeypatch.setattr(Pgd, "version", 1 + Pgd.version)
    changed = replace(SHARD, measurement=replace(MEASUREMENT, seed=MEASUREMENT.seed))
    assert changed == SHARD
    assert changed.key != before
    # A measurement keeps the key that it had first.
    assert SHARD.key == before


def test_true_is_not_one() -> None:
    @dataclass(frozen=True)
    class Flag:
        on: int | bool = 1

    assert key_of(Flag(on=True)) != key_of(Flag(on=1))


def test_keys_are_pinned() -> None:
    """If this changes, every stored record becomes unreachable."""
    assert to_plain(PGD) == {"kind": "pgd", "version": 3, "epsilon": "8/255", "step_size": "2/255", "num_steps": 20}
    assert key_of(PGD) == "46b46d88094200e62fdc40194bc9eedf"
    assert SHARD.key == "4dfbfbb92f74108a3a315d8bdd6e159d"


def test_a_shard_is_known_by_the_key_of_its_measurement_and_its_place() -> None:
    assert shard_key(MEASUREMENT.key, SHARD.start, SHARD.stop) == SHARD.key


@pytest.mark.parametrize("measurement_key", [MEASUREMENT.key, "", 'quoted " \\', "\u00e9", "\ud800"])
def test_the_key_of_a_shard_is_that_of_the_list_of_its_bounds(measurement_key: str) -> None:
    assert shard_key(measurement_key, 0, 1_000_000) == key_of([measurement_key, 0, 1_000_000])


def test_what_has_no_identity_is_refused() -> None:
    with pytest.raises(TypeError, match="no stable identity"):
        to_plain({"f": print})


def test_the_header_names_the_shard_and_its_identities() -> None:
    header = SHARD.header
    assert header.title == "m / pgd / examples 0-99"
    assert header.key == SHARD.key
    assert header.measurement_key == MEASUREMENT.key
    assert header.perturbation_key == key_of(PGD)
    assert not header.coupled


def test_the_header_of_a_coupled_model_says_so_and_differs_in_nothing_else() -> None:
    header = with_measurement(checkpoint=replace(CHECKPOINT, coupled=True)).header
    assert header == replace(SHARD.header, coupled=True)


@pytest.mark.parametrize(
    ("norm", "epsilon", "text"),
    [
        ("linf", Fraction(8, 255), "linf-8/255"),
        ("linf", Fraction(10, 255), "linf-10/255"),
        ("linf", Fraction(1, 510), "linf-1/510"),
        ("linf", Fraction(0), "linf-0"),
        ("linf", Fraction(1), "linf-1"),
        ("linf", Fraction(3, 100), "linf-3/100"),
        # A length is no number of grey levels.
        ("l2", Fraction(1), "l2-1"),
        ("l2", Fraction(128, 255), "l2-128/255"),
        ("l1", Fraction(12), "l1-12"),
        ("l2", Spelled("0.5"), "l2-0.5"),
        ("linf", Spelled("10/255"), "linf-10/255"),
    ],
)
def test_threat_models_are_named_in_grey_levels_where_they_are_whole(norm: str, epsilon: Fraction, text: str) -> None:
    assert str(ThreatModel(norm=norm, epsilon=epsilon)) == text


@pytest.mark.parametrize(("asked", "expected"), [(None, 600), (200, 200), (1000, 600)])
def test_a_condition_never_has_more_examples_than_its_data(asked: int | None, expected: int) -> None:
    condition = replace(MEASUREMENT.condition, num_examples=asked)
    assert replace(MEASUREMENT, condition=condition).num_examples == expected
