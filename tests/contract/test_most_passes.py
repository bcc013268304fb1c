"""What a declaration says of an attack's passes is what the attack takes, but for a few that it makes once a search."""

from fractions import Fraction

import pytest
from attack_examples import SmoothVictim, around_the_middle, attacked
from presence import present

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack
from robench.attacks.cw import Cw
from robench.attacks.ddn import Ddn
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.fmn import Fmn
from robench.attacks.pdpgd import Pdpgd
from robench.attacks.pgd import Pgd
from robench.attacks.rays import Rays
from robench.attacks.sea import Sea
from robench.attacks.sigma_zero import SigmaZero
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.sparse_rs import SparseRs
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.attacks.transfer_pgd import TransferPgd
from robench.declarations.supports import L0
from robench.perturbations.sweep import Sweep

EPSILON = Fraction(1, 255)
SEARCH = {"num_steps": 6, "num_restarts": 2, "num_draws": 3}
# Too small a budget to fool anything, so that nobody leaves early; and how many searches there are.
EXACT = [
    (Fgsm(epsilon=EPSILON, num_draws=3), (3, 3), 1),
    (Pgd(epsilon=EPSILON, relative_step=Fraction(1, 4), random_start=True, **SEARCH), (36, 36), 2),
    (TransferPgd(epsilon=EPSILON, relative_step=Fraction(1, 4), num_steps=3, scale_copies=4), (12, 12), 1),
    (Apgd(epsilon=EPSILON, **SEARCH), (36, 36), 2),
    (SparseL1(epsilon=EPSILON, step_size=EPSILON / 4, sparsity=0.5, random_start=True, **SEARCH), (36, 36), 2),
    (
        Spsa(epsilon=EPSILON, num_steps=3, learning_rate=Fraction(1, 100), delta=Fraction(1, 100), num_samples=4),
        (24, 0),
        1,
    ),
    (Square(epsilon=EPSILON, num_queries=20, p_init=0.8, num_restarts=2), (40, 0), 2),
    (SparseRs(epsilon=EPSILON, l0=L0(count=2), num_queries=20, num_restarts=2), (40, 0), 2),
    (Rays(num_queries=20), (20, 0), 1),
    (Apgd(epsilon=EPSILON, radii="shrinking", **SEARCH), (36, 36), 2),
    (Sea(epsilon=EPSILON, num_steps=5, num_draws=2), (30, 30), 3),
    (Cw(num_steps=5, num_search_steps=3, initial_c=0.1, learning_rate=0.01, stops_early=False), (15, 15), 3),
    (Ddn(num_steps=6), (6, 6), 1),
    (Fmn(num_steps=5, norm="l0", num_restarts=2), (10, 10), 2),
    (SigmaZero(num_steps=6), (6, 6), 1),
    (Pdpgd(num_steps=5, num_restarts=2), (10, 10), 2),
]
AT_MOST = [
    Fab(num_steps=5, num_targets=3, num_restarts=2, epsilon=Fraction(1)),
    AutoAttack(epsilon=Fraction(8, 255), variant="custom", members=(Apgd(epsilon=Fraction(8, 255), num_steps=4),)),
]


@pytest.mark.parametrize(("attack", "passes", "num_searches"), EXACT, ids=lambda each: getattr(each, "kind", ""))
def test_an_attack_takes_what_it_declares(attack: Attack, passes: tuple[int, int], num_searches: int) -> None:
    assert attack.most_passes == passes
    victim = SmoothVictim()
    result = attacked(attack, around_the_middle(victim, 4), victim)
    forward, backward = passes
    # A start, a look at the labels and a final prediction, a search; APGD takes their gradients too, of each draw.
    few = 4 * num_searches * getattr(attack, "num_draws", 1)
    assert forward <= int(present(result.num_queries).max()) <= forward + few
    assert backward <= int(present(result.num_gradients).max()) <= backward + (few if backward else 0)


@pytest.mark.parametrize("attack", AT_MOST, ids=lambda each: each.kind)
def test_one_that_leaves_early_takes_at_most_that(attack: Attack) -> None:
    forward, backward = present(attack.most_passes)
    assert min(forward, backward) > 0
    victim = SmoothVictim()
    result = attacked(attack, around_the_middle(victim, 4), victim)
    assert 0 < int(present(result.num_queries).max()) <= forward + 8
    assert 0 < int(present(result.num_gradients).max()) <= backward + 8


def test_ensembles_take_what_their_attacks_take_together() -> None:
    standard = AutoAttack(epsilon=EPSILON, variant="standard")
    # APGD 100 steps, nine targets of 100 steps, FAB's nine of 100 steps with a prediction a step, 5,000 queries.
    assert standard.most_passes == (100 + 900 + 2 * 900 + 5000, 100 + 900 + 900)
    without_targets = AutoAttack(
        epsilon=EPSILON, variant="custom", members=(Fab(num_steps=5, epsilon=EPSILON), Fgsm(epsilon=EPSILON))
    )
    assert without_targets.most_passes is None


def test_sweeps_take_what_their_budgets_take_together() -> None:
    attacks = tuple(
        Pgd(epsilon=EPSILON * each, relative_step=Fraction(1, 4), num_steps=5, random_start=True) for each in (1, 2, 4)
    )
    assert Sweep(attacks=attacks).most_passes == (15, 15)
