"""Fields that follow from an attack's backend: left out in files, they have the only value that it has."""

from fractions import Fraction
from typing import Any

import pytest

from robench.attacks.backends.served import SERVED
from robench.attacks.cw import Cw
from robench.attacks.pgd import Pgd
from robench.attacks.square import Square
from robench.core.errors import DeclarationError
from robench.core.identity import to_plain
from robench.declare import parse_suite

PGD = {"kind": "pgd", "epsilon": "8/255", "step_size": "2/255", "num_steps": 3}


def read(perturbation: dict[str, object]) -> Any:
    conditions = [{"name": "clean"}, {"name": "attacked", "perturbation": perturbation}]
    suite = {"name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 8, "conditions": conditions}
    return parse_suite({**suite, "metrics": ["top1_accuracy"]}).conditions[1].perturbation


def problem(perturbation: dict[str, object]) -> str:
    with pytest.raises(DeclarationError) as caught:
        read(perturbation)
    return str(caught.value)


def test_pgd_returns_the_last_point_where_the_library_has_no_other() -> None:
    stated = Pgd(
        epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=3, backend="torchattacks", returns="last"
    )
    assert read(PGD | {"backend": "torchattacks"}) == stated
    assert read(PGD | {"backend": "torchattacks"}) == read(PGD | {"backend": "torchattacks", "returns": "last"})
    assert read(PGD).returns == "best"


def test_required_fields_and_norms_follow_too() -> None:
    cw = read({"kind": "cw", "backend": "torchattacks", "num_steps": 5, "initial_c": 1, "learning_rate": 0.01})
    assert cw == Cw(num_steps=5, num_search_steps=1, initial_c=1.0, learning_rate=0.01, backend="torchattacks")
    sparse = {"kind": "sparse-l1", "epsilon": 5, "step_size": 1, "num_steps": 3, "backend": "foolbox"}
    assert read(sparse | {"sparsity": 0.9}).projection == "exact"


def test_a_field_with_several_values_is_left_at_its_default() -> None:
    square = read({"kind": "square", "epsilon": "8/255", "num_queries": 5, "p_init": 0.8, "backend": "torchattacks"})
    assert isinstance(square, Square)
    assert (square.stop, square.trials, square.loss) == ("at_success", "as_drawn", "margin")


def test_what_is_stated_is_not_replaced() -> None:
    wrong = problem(PGD | {"backend": "torchattacks", "returns": "best"})
    assert "perturbation.returns: must be last with backend torchattacks, which has no other, got best" in wrong


@pytest.mark.parametrize("backend", ["torchatacks", 3, None, ["torchattacks"]])
def test_a_backend_that_is_none_is_one_problem(backend: object) -> None:
    assert problem(PGD | {"backend": backend}).count("\n") == 1


def test_every_budget_of_a_sweep_has_them() -> None:
    fgsm = {"kind": "pgd", "relative_step": "1/4", "num_steps": 3, "epsilons": ["2/255", "8/255"]}
    sweep = read(fgsm | {"backend": "torchattacks"})
    assert [attack.returns for attack in sweep.at_budgets] == ["last", "last"]


@pytest.mark.parametrize("backend", SERVED)
@pytest.mark.parametrize("kind", ["fgsm", "pgd"])
def test_the_shortest_entry_of_each_backend_reads_like_the_whole_one(backend: str, kind: str) -> None:
    if kind not in SERVED[backend]:
        pytest.skip("the library has no such attack")
    short = {"fgsm": {"kind": "fgsm", "epsilon": "8/255"}, "pgd": PGD}[kind] | {"backend": backend}
    read_short = read(short)
    plain = to_plain(read_short)
    assert isinstance(plain, dict)
    for name, values in SERVED[backend][kind].fixed.items():
        assert getattr(read_short, name) in values
