"""Which attacks are compared with which libraries, at which settings, and where they may differ and why."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from robench.attacks.apgd import Apgd
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.attacks.base import Attack, Norm

MODELS = ("digits-vit", "digits-symvit", "digits-rpc-symvit")
# About half of the digits stand against gradients within these.
RADII: Mapping[Norm, Fraction] = {"linf": Fraction(6, 255), "l2": Fraction(7, 8), "l1": Fraction(8)}
# And about half against attacks without gradients within these.
BLIND_RADII: Mapping[Norm, Fraction] = {"linf": Fraction(16, 255), "l2": Fraction(5, 2), "l1": Fraction(30)}
NUM_EXAMPLES = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One attack of robench and the libraries that have it at the very same settings.

    Attributes:
        libraries: backends, and ``art``, which robench has no backend for.
        is_deterministic: no random numbers, so that every single verdict should be the same.
        num_examples: at most so many, for attacks that take long.
        radius: of an attack without a budget, within which a found point counts.
    """

    name: str
    declared: Attack
    libraries: tuple[str, ...]
    is_deterministic: bool = False
    num_examples: int = NUM_EXAMPLES
    radius: Fraction | None = None

    @property
    def norm(self) -> Norm:
        """In which budget and distance are meant."""
        return getattr(self.declared, "norm", "l2")


def pgd(norm: Norm, *, random_start: bool) -> Pgd:
    """Return 20 steps of a quarter of the budget."""
    return Pgd(
        norm=norm, epsilon=RADII[norm], relative_step=Fraction(1, 4), num_steps=20, random_start=random_start,
        returns="last",
    )  # fmt: skip


def apgd(norm: Norm, **changes: Any) -> Apgd:
    """Return 100 steps of Auto-PGD; ``changes`` are its other fields."""
    return Apgd(norm=norm, epsilon=RADII[norm], num_steps=100, stop="at_success", **changes)


def fab(norm: Norm) -> Fab:
    """Return 20 steps for each of three targets, for what is within the budget."""
    return Fab(
        norm=norm, epsilon=RADII[norm], num_steps=20, num_targets=3, num_final_steps=0, stop="at_success"
    )  # fmt: skip


def square(norm: Norm) -> Square:
    """Return 300 queries of random search."""
    return Square(norm=norm, epsilon=BLIND_RADII[norm], num_queries=300, p_init=0.8, stop="at_success")


def spsa(**changes: Any) -> Spsa:
    """Return 10 steps of 32 pairs of samples."""
    return Spsa(
        epsilon=BLIND_RADII["linf"], num_steps=10, num_samples=32, learning_rate=Fraction(1, 100),
        delta=Fraction(1, 100), returns="last", **changes,
    )  # fmt: skip


def sparse_l1(projection: Any) -> SparseL1:
    """Return 20 steps of an eighth of the budget along a twentieth of the values."""
    return SparseL1(
        epsilon=2 * RADII["l1"],
        num_steps=20,
        step_size=Fraction(2),
        sparsity=0.95,
        projection=projection,
        returns="last",
    )


# With few steps the ten checks of a search come before it has begun to move. robench makes them for each example, which
# it then leaves; the libraries make them for the batch, which carries such examples along.
def cw(**changes: Any) -> Cw:
    """Return Carlini and Wagner's attack in three searches of 200 steps."""
    fields: dict[str, Any] = {"num_steps": 200, "num_search_steps": 3, "initial_c": 1.0, "learning_rate": 0.01}
    return Cw(**fields | changes)


L2 = RADII["l2"]
COMPARISONS = (
    Comparison(
        name="fgsm linf",
        declared=Fgsm(epsilon=RADII["linf"]),
        libraries=("torchattacks", "foolbox", "cleverhans", "art"),
        is_deterministic=True,
    ),
    Comparison(
        name="fgsm l2",
        declared=Fgsm(norm="l2", epsilon=L2),
        libraries=("foolbox", "cleverhans", "art"),
        is_deterministic=True,
    ),
    Comparison(
        name="pgd linf from the clean image",
        declared=pgd("linf", random_start=False),
        libraries=("torchattacks", "foolbox", "cleverhans", "art"),
        is_deterministic=True,
    ),
    Comparison(
        name="pgd linf",
        declared=pgd("linf", random_start=True),
        libraries=("torchattacks", "foolbox", "cleverhans", "art"),
    ),
    Comparison(
        name="pgd l2 from the clean image",
        declared=pgd("l2", random_start=False),
        libraries=("torchattacks", "foolbox", "cleverhans", "art"),
        is_deterministic=True,
    ),
    Comparison(
        name="pgd l2",
        declared=pgd("l2", random_start=True),
        libraries=("torchattacks", "foolbox", "cleverhans", "art"),
    ),
    Comparison(
        name="pgd l1 from the clean image",
        declared=pgd("l1", random_start=False),
        libraries=("foolbox",),
        is_deterministic=True,
    ),
    Comparison(name="apgd-ce linf", declared=apgd("linf"), libraries=("torchattacks", "autoattack", "art")),
    Comparison(name="apgd-dlr linf", declared=apgd("linf", loss="dlr"), libraries=("torchattacks", "autoattack")),
    Comparison(
        name="apgd-t linf",
        declared=apgd("linf", loss="dlr-targeted", num_restarts=3),
        libraries=("torchattacks", "autoattack"),
        num_examples=100,
    ),
    Comparison(name="apgd-ce l2", declared=apgd("l2"), libraries=("torchattacks", "autoattack", "art")),
    Comparison(name="apgd-ce l1", declared=apgd("l1", radii="shrinking"), libraries=("autoattack",)),
    Comparison(
        name="fab-t linf",
        declared=fab("linf"),
        libraries=("torchattacks", "autoattack"),
        is_deterministic=True,
        num_examples=100,
        radius=RADII["linf"],
    ),
    Comparison(
        name="fab-t l2",
        declared=fab("l2"),
        libraries=("torchattacks", "autoattack"),
        is_deterministic=True,
        num_examples=100,
        radius=L2,
    ),
    Comparison(
        name="fab-t l1",
        declared=fab("l1"),
        libraries=("autoattack",),
        is_deterministic=True,
        num_examples=100,
        radius=RADII["l1"],
    ),
    Comparison(
        name="square linf",
        declared=square("linf"),
        libraries=("torchattacks", "autoattack", "art"),
        num_examples=100,
    ),
    Comparison(name="square l2", declared=square("l2"), libraries=("torchattacks", "autoattack"), num_examples=100),
    Comparison(name="square l1", declared=square("l1"), libraries=("autoattack",), num_examples=100),
    Comparison(
        name="spsa linf from the clean image",
        declared=spsa(random_start=False),
        libraries=("torchattacks",),
        num_examples=100,
    ),
    Comparison(
        name="spsa linf as released",
        declared=spsa(formula="released"),
        libraries=("cleverhans",),
        num_examples=100,
    ),
    Comparison(name="sparse-l1 exact", declared=sparse_l1("exact"), libraries=("foolbox",), is_deterministic=True),
    Comparison(
        name="sparse-l1 rescaled", declared=sparse_l1("rescale"), libraries=("cleverhans",), is_deterministic=True
    ),
    Comparison(
        name="cw with one c",
        declared=cw(num_search_steps=1),
        libraries=("torchattacks", "art"),
        is_deterministic=True,
        num_examples=50,
        radius=L2,
    ),
    Comparison(name="cw", declared=cw(), libraries=("foolbox",), is_deterministic=True, num_examples=50, radius=L2),
    Comparison(
        name="cw that goes on",
        declared=cw(stops_early=False, continues=True),
        libraries=("cleverhans",),
        is_deterministic=True,
        num_examples=50,
        radius=L2,
    ),
)

# Where a library's attack of the same name is another one, so that verdicts differ; by comparison and library.
GRADIENT_ITSELF = (
    "steps along the gradient itself, which moves all pixels a little, where robench moves the largest hundredth"
)
BALL_THEN_BOX = (
    "projects onto the ball and then the box, which leaves a part of the budget unused, where robench takes the "
    "nearest point of both"
)
LINE_SEARCH = "searches for the length of each step by up to five halvings and five doublings: another optimiser"
EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("pgd l1 from the clean image", "foolbox"): GRADIENT_ITSELF,
    ("sparse-l1 exact", "foolbox"): BALL_THEN_BOX,
    ("cw with one c", "art"): LINE_SEARCH,
}

# What is compared by no line above, since no library has it or has something else under its name.
NOT_COMPARED: Mapping[str, str] = {
    "AutoAttack of torchattacks": "makes 10 steps of APGD, and is not AutoAttack",
    "fgsm l1 of foolbox, cleverhans and ART": "one step along the gradient (foolbox) or along its one largest "
    "coordinate (cleverhans, ART), where robench moves the largest hundredth of the coordinates",
    "square l2 of ART": "divides by zero on grey images, and shows the victim NaN",
    "fab l1 of torchattacks": "fails on a name that it never sets",
}

SHORT = {"num_steps": 5, "num_queries": 40, "num_samples": 16, "num_search_steps": 2}


def shortened(comparison: Comparison) -> Comparison:
    """Return a comparison with few steps, for a quick look: searches as long as robench's tests can wait for."""
    declared: Any = comparison.declared
    names = {field.name for field in fields(declared)}
    shorter = {name: min(most, getattr(declared, name)) for name, most in SHORT.items() if name in names}
    return replace(comparison, declared=replace(declared, **shorter))
