"""Attacks: ``x.py`` declares an attack without torch, ``x_impl.py`` computes it.

All run in ``attack`` on a ``problem``, and most share the loop in ``search``.
"""

from __future__ import annotations

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import GaussianNoise, UniformNoise
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.core.plugins import Plugins

_BUILTIN: dict[str, type[Attack]] = {
    "uniform-noise": UniformNoise,
    "gaussian-noise": GaussianNoise,
    "fgsm": Fgsm,
    "pgd": Pgd,
    "cw": Cw,
    "fab": Fab,
    "square": Square,
    "spsa": Spsa,
    "sparse-l1": SparseL1,
    "apgd": Apgd,
    "autoattack": AutoAttack,
}
ATTACKS = Plugins("attack", _BUILTIN, base=Attack)
