"""A library is asked only for what it has, in words that it understands: all else is refused by name."""

from dataclasses import fields
from fractions import Fraction
from typing import Any, get_args

import pytest

from robench.attacks.backends.served import SERVED, Backend
from robench.attacks.base import Attack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.core.identity import key_of, to_plain
from robench.declare import parse_suite
from robench.perturbations import PERTURBATIONS
from robench.perturbations.clean import Clean

EPSILON = Fraction(8, 255)
PGD: dict[str, Any] = {"epsilon": EPSILON, "step_size": Fraction(2, 255), "num_steps": 3, "returns": "last"}
SPSA: dict[str, Any] = {
    "epsilon": EPSILON, "num_steps": 2, "learning_rate": Fraction(1, 100), "delta": Fraction(1, 100),
    "num_samples": 8, "returns": "last",
}  # fmt: skip
CW: dict[str, Any] = {"num_steps": 5, "num_search_steps": 1, "initial_c": 1.0, "learning_rate": 0.01}
FAB: dict[str, Any] = {"num_steps": 3, "num_final_steps": 0}
SQUARE: dict[str, Any] = {
    "epsilon": EPSILON, "num_queries": 9, "p_init": 0.8, "stop": "at_success", "trials": "as_drawn"
}  # fmt: skip
SPARSE: dict[str, Any] = {
    "epsilon": Fraction(4), "num_steps": 3, "step_size": Fraction(1), "sparsity": 0.9, "returns": "last"
}  # fmt: skip


L2 = {"norm": "l2", "random_start": False}
NORMALISED = {"epsilon": EPSILON, "space": "normalised"}
UNCUT = {"stops_early": False, "continues": True, "clip": "none"}


REFUSED: list[tuple[type[Any], str, dict[str, Any], str]] = [
    (Spsa, "torchattacks", SPSA | L2, "backend torchattacks has no spsa in l2, only in linf"),
    (Pgd, "cleverhans", PGD | {"norm": "l1"}, "backend cleverhans has no pgd in l1, only in linf and l2"),
    (
        PERTURBATIONS["autoattack"],
        "torchattacks",
        {"epsilon": EPSILON, "variant": "standard"},
        "(its attack of that name makes 10 steps of APGD, and is not AutoAttack): take backend robench or autoattack",
    ),
    (Square, "torchattacks", SQUARE | {"trials": "changing"}, "trials must be as_drawn with backend torchattacks"),
    (Square, "cleverhans", SQUARE, "has no square: take backend robench or torchattacks or autoattack"),
    (UniformNoise, "foolbox", {"epsilon": EPSILON}, "backend foolbox has no uniform-noise: take backend robench"),
    (Pgd, "torchattacks", PGD | {"returns": "best"}, "returns must be last with backend torchattacks"),
    (Pgd, "foolbox", PGD | {"momentum": 0.5}, "momentum must be 0.0 with backend foolbox"),
    (Pgd, "foolbox", PGD | {"num_restarts": 2}, "num_restarts must be 1 with backend foolbox"),
    (Fgsm, "foolbox", {"epsilon": EPSILON, "loss": "dlr"}, "loss must be ce with backend foolbox"),
    (Fgsm, "cleverhans", {"epsilon": EPSILON, "num_draws": 2}, "num_draws must be 1 with backend cleverhans"),
    (Fgsm, "torchattacks", NORMALISED, "space must be input with backend torchattacks"),
    (Fgsm, "cleverhans", NORMALISED, "clip must be none with space normalised and backend cleverhans"),
    (Spsa, "cleverhans", SPSA, "formula must be released with backend cleverhans"),
    (Spsa, "torchattacks", SPSA, "random_start must be false with backend torchattacks"),
    (SparseL1, "cleverhans", SPARSE, "projection must be rescale with backend cleverhans"),
    (Square, "autoattack", SQUARE | {"stop": "never"}, "stop must be at_success with backend autoattack"),
    (Square, "autoattack", SQUARE | {"loss": "dlr"}, "loss must be margin or ce with backend autoattack"),
    (Cw, "torchattacks", CW | {"confidence": 1.0}, "confidence must be 0.0 with backend torchattacks"),
    (Cw, "cleverhans", CW | {"stops_early": False}, "continues must be true with backend cleverhans"),
    (Cw, "cleverhans", CW | UNCUT, "clip_min and clip_max must be given with clip none"),
    (Fab, "autoattack", FAB | {"num_targets": 3}, "must be at_success with backend autoattack and several searches"),
    (Fab, "torchattacks", FAB | {"num_final_steps": 3}, "num_final_steps must be 0 with backend torchattacks"),
    (Fab, "torchattacks", FAB | {"norm": "l1"}, "backend torchattacks has no fab in l1, only in linf and l2"),
    (Fgsm, "robench", {"epsilon": EPSILON, "exact": True}, "exact must be false with backend robench, whose examples"),
]


@pytest.mark.parametrize(("kind", "backend", "fields", "message"), REFUSED)
def test_what_a_library_has_not_is_refused_by_name(
    kind: type[Any], backend: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the whole text is compared
        kind(backend=backend, **fields)
    assert message in str(refused.value)
    assert ";" not in str(refused.value), "one mistake, one message"


def test_all_problems_with_a_library_are_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"has no pgd in l1.*; loss must be ce.*; returns must be last"):
        Pgd(**PGD | {"returns": "best"}, norm="l1", loss="dlr", backend="cleverhans")


def test_what_is_wrong_with_the_attack_itself_comes_first() -> None:
    with pytest.raises(ValueError, match=r"^a step must be at most epsilon 8/255 long, got 3/85$"):
        Pgd(**PGD | {"step_size": Fraction(9, 255), "returns": "best"}, backend="foolbox")


def test_the_table_speaks_of_kinds_and_fields_that_there_are() -> None:
    assert {"robench", *SERVED} == set(get_args(Backend))
    for kinds in SERVED.values():
        for kind, served in kinds.items():
            declared: Any = PERTURBATIONS[kind]
            names = {field.name for field in fields(declared)}
            assert served.fixed.keys() <= names, kind
            assert set(served.norms) <= set(getattr(declared, "norms", ("linf", "l2", "l1")))


def test_robench_itself_is_the_default_and_in_no_key() -> None:
    plain = Fgsm(epsilon=EPSILON)
    assert "backend" not in str(to_plain(plain))
    others = Fgsm(epsilon=EPSILON, backend="foolbox"), Fgsm(epsilon=EPSILON, backend="foolbox", exact=True)
    assert len({key_of(each) for each in (plain, *others)}) == 3


def test_only_a_library_that_meets_whole_batches_is_batch_dependent() -> None:
    assert Pgd(**PGD, backend="foolbox").batch_dependence == "pgd by foolbox"
    assert Pgd(**PGD, backend="foolbox", exact=True).batch_dependence == ""
    assert Pgd(**PGD).batch_dependence == ""
    assert Clean().batch_dependence == ""


def test_members_of_an_ensemble_run_in_robench() -> None:
    member = Pgd(**PGD, backend="foolbox")
    with pytest.raises(ValueError, match=r"members must have backend robench, as the ensemble, got foolbox in members"):
        PERTURBATIONS["autoattack"](epsilon=EPSILON, variant="custom", members=(member,))  # type: ignore[call-arg]  # any kind


def test_a_suite_names_the_backend() -> None:
    asked = {"kind": "pgd", "epsilon": "8/255", "step_size": "2/255", "num_steps": 3, "returns": "last"}
    suite = parse_suite(
        {
            "name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 50, "metrics": ["top1_accuracy"],
            "conditions": [{"name": "a", "perturbation": asked | {"backend": "torchattacks", "exact": True}}],
        }
    )  # fmt: skip
    (condition,) = suite.conditions
    assert isinstance(condition.perturbation, Attack)
    assert (condition.perturbation.backend, condition.perturbation.exact) == ("torchattacks", True)
