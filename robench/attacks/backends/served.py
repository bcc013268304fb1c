"""Attacks supported by each library, and the fixed values of the options that it lacks.

A library's attack is requested by the same declaration as robench's own. Options that a library lacks must equal its
fixed behaviour, so that no number is mislabelled. The table follows the code of torchattacks 3.5.1, pyautoattack 0.2.0,
foolbox 3.3.4 and cleverhans 4.0.0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from robench.declarations.base import FieldProblem

Backend = Literal["robench", "torchattacks", "autoattack", "foolbox", "cleverhans"]
Fixed = dict[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Support of a library for one kind of attack.

    Attributes:
        norms: supported norms.
        fixed: allowed values by field; other fields are not restricted.
    """

    norms: tuple[str, ...]
    fixed: Fixed = field(default_factory=dict)


# Both always clamp to [0, 1].
IMAGES: Fixed = {"space": ("input",), "clip": ("box",)}
PLAIN_GRADIENT: Fixed = {"loss": ("ce",), "num_draws": (1,)}
LAST_OF_ONE: Fixed = {"num_restarts": (1,), "returns": ("last",), "stop": ("never",)}
# They stop early, and return the clean image if they fail.
AT_SUCCESS: Fixed = {"returns": ("best",), "stop": ("at_success",)}
PGD: Fixed = {**PLAIN_GRADIENT, **LAST_OF_ONE, "momentum": (0.0,)}
SPSA: Fixed = {**LAST_OF_ONE, "loss": ("margin",)}
SQUARE: Fixed = {**IMAGES, **AT_SUCCESS, "loss": ("margin", "ce"), "trials": ("as_drawn",)}
FAB: Fixed = {**IMAGES, "num_final_steps": (0,)}
ONE_SEARCH: Fixed = {"num_restarts": (1,), "unit": ("values",)}
FMN: Fixed = {**ONE_SEARCH, "gamma_final": (0.001,), "overshoot": (0.0,)}
ONE_CW: Fixed = {"target": ("other",), "clip_min": (None,), "clip_max": (None,), "continues": (False,)}

SERVED: Mapping[str, Mapping[str, Served]] = {
    "torchattacks": {
        "fgsm": Served(norms=("linf",), fixed=IMAGES | PLAIN_GRADIENT),
        "pgd": Served(norms=("linf", "l2"), fixed=IMAGES | PGD),
        "apgd": Served(norms=("linf", "l2"), fixed={**IMAGES, **AT_SUCCESS, "loss": ("ce", "dlr", "dlr-targeted")}),
        "fab": Served(norms=("linf", "l2"), fixed=FAB),
        "square": Served(norms=("linf", "l2"), fixed=SQUARE),
        "spsa": Served(norms=("linf",), fixed={**IMAGES, **SPSA, "random_start": (False,), "formula": ("paper",)}),
        # Its loss requires the margin ``confidence``, but the points that it keeps need not have it.
        "cw": Served(
            norms=("l2",),
            fixed={**IMAGES, **ONE_CW, "num_search_steps": (1,), "confidence": (0.0,), "stops_early": (True,)},
        ),
    },
    "autoattack": {
        "apgd": Served(
            norms=("linf", "l2", "l1"), fixed={**IMAGES, **AT_SUCCESS, "loss": ("ce", "dlr", "dlr-targeted")}
        ),
        "fab": Served(norms=("linf", "l2", "l1"), fixed=FAB),
        "square": Served(norms=("linf", "l2", "l1"), fixed=SQUARE),
        "autoattack": Served(norms=("linf", "l2", "l1"), fixed={**IMAGES, "variant": ("standard", "plus", "rand")}),
    },
    "foolbox": {
        "fgsm": Served(norms=("linf", "l2", "l1"), fixed=PLAIN_GRADIENT),
        "pgd": Served(norms=("linf", "l2", "l1"), fixed=PGD),
        "sparse-l1": Served(norms=("l1",), fixed={**PLAIN_GRADIENT, **LAST_OF_ONE, "projection": ("exact",)}),
        "cw": Served(norms=("l2",), fixed={**ONE_CW, "clip": ("box",)}),
        "ddn": Served(norms=("l2",), fixed=ONE_SEARCH),
        # In l2 it does not project, so that no radius has any effect.
        "fmn": Served(norms=("linf", "l1", "l0"), fixed=FMN),
    },
    "cleverhans": {
        "fgsm": Served(norms=("linf", "l2", "l1"), fixed=PLAIN_GRADIENT),
        "pgd": Served(norms=("linf", "l2"), fixed=PGD),
        "spsa": Served(norms=("linf", "l2"), fixed={**SPSA, "random_start": (True,), "formula": ("released",)}),
        # Its random start is lost if there are limits, and is not centred otherwise.
        "sparse-l1": Served(
            norms=("l1",), fixed={**PLAIN_GRADIENT, **LAST_OF_ONE, "projection": ("rescale",), "random_start": (False,)}
        ),
        "cw": Served(norms=("l2",), fixed={"stops_early": (False,), "continues": (True,)}),
    },
}
REASONS = {("torchattacks", "autoattack"): " (its attack of that name makes 10 steps of APGD, and is not AutoAttack)"}


def only_values(backend: object, kind: str) -> dict[str, object]:
    """Return the fields of an attack for which a backend has one value alone; nothing for unknown ones."""
    served = SERVED.get(backend, {}).get(kind) if isinstance(backend, str) else None
    fixed = {} if served is None else served.fixed | ({"norm": served.norms} if len(served.norms) == 1 else {})
    return {name: values[0] for name, values in fixed.items() if len(values) == 1}


# Any: these read fields of known kinds, whose base class imports this module.
def backend_problems(attack: Any) -> list[FieldProblem]:
    """Return why a declared attack cannot run on its backend, one sentence each."""
    backend = attack.backend
    if backend == "robench":
        wanted = "must be false with backend robench, whose examples never affect each other, got true"
        return [("exact", wanted)] if attack.exact else []
    served = SERVED[backend].get(attack.kind)
    if served is None:
        able = ["robench", *(name for name, kinds in SERVED.items() if attack.kind in kinds)]
        reason = REASONS.get((backend, attack.kind), "")
        return [("", f"backend {backend} has no {attack.kind}{reason}: take backend {' or '.join(able)}")]
    norm = attack.search_norm or attack.budget[0]
    problems: list[FieldProblem] = []
    if norm not in served.norms:
        problems.append(("", f"backend {backend} has no {attack.kind} in {norm}, only in {' and '.join(served.norms)}"))
    problems += [
        (
            name,
            f"must be {' or '.join(map(_text, wanted))} with backend {backend}, which has no other, got {_text(value)}",
        )
        for name, wanted in served.fixed.items()
        if (value := getattr(attack, name)) not in wanted
    ]
    return [*problems, *_relations(attack)]


def _text(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _relations(attack: Any) -> Iterator[FieldProblem]:
    backend, fixed = attack.backend, SERVED[attack.backend][attack.kind].fixed
    if "space" not in fixed and (attack.space, attack.clip) == ("normalised", "box"):
        wanted = f"must be none with space normalised and backend {backend}"
        yield "clip", f"{wanted}, which has the same limits in all channels, got box"
    if "clip" not in fixed and attack.clip == "unit":
        yield "clip", f"must be box or none with backend {backend}, got unit"
    if attack.kind == "fab" and attack.stop != "at_success" and (attack.num_targets, attack.num_restarts) != (None, 1):
        wanted = f"must be at_success with backend {backend} and several searches"
        yield "stop", f"{wanted}, since it attacks what one of them fooled no further, got never"
    # It parametrises points between two limits by their tangent.
    if (backend, attack.kind) == ("cleverhans", "cw") and attack.clip != "box" and attack.clip_min is None:
        wanted = "clip_min and clip_max must be given with clip none and backend cleverhans"
        yield "", f"{wanted}, which has no cw without limits"
