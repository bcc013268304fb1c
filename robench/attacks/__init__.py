"""Attacks: ``x.py`` declares an attack without torch, ``x_impl.py`` computes it.

All run in ``attack`` on a ``problem``, and most share the loop in ``search``.
"""

from robench.attacks.base import Attack
from robench.core.plugins import Plugins

_BUILTIN: dict[str, str] = {
    "uniform-noise": "robench.attacks.noise:UniformNoise",
    "gaussian-noise": "robench.attacks.noise:GaussianNoise",
    "fgsm": "robench.attacks.fgsm:Fgsm",
    "pgd": "robench.attacks.pgd:Pgd",
    "cw": "robench.attacks.cw:Cw",
    "fab": "robench.attacks.fab:Fab",
    "ddn": "robench.attacks.ddn:Ddn",
    "fmn": "robench.attacks.fmn:Fmn",
    "sigma-zero": "robench.attacks.sigma_zero:SigmaZero",
    "pdpgd": "robench.attacks.pdpgd:Pdpgd",
    "rays": "robench.attacks.rays:Rays",
    "hop-skip-jump": "robench.attacks.hop_skip_jump:HopSkipJump",
    "square": "robench.attacks.square:Square",
    "square-series": "robench.attacks.square_series:SquareSeries",
    "sparse-rs": "robench.attacks.sparse_rs:SparseRs",
    "spsa": "robench.attacks.spsa:Spsa",
    "sparse-l1": "robench.attacks.sparse_l1:SparseL1",
    "apgd": "robench.attacks.apgd:Apgd",
    "autoattack": "robench.attacks.autoattack:AutoAttack",
    "transfer-pgd": "robench.attacks.transfer_pgd:TransferPgd",
    "sea": "robench.attacks.sea:Sea",
    "patch-fool": "robench.attacks.patch_fool:PatchFool",
}
ATTACKS: Plugins[type[Attack]] = Plugins("attack", _BUILTIN, base=Attack)
