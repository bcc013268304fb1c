"""Audit of attention: attacks that know it beside others, on examples that are right when clean."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import fsum

from torch import Tensor

from robench.attacks.local import AttentionTerm, LocalAscent
from robench.attacks.patch_fool import PatchFool
from robench.attacks.pgd import Pgd
from robench.core.flags import Flag
from robench.core.protocols import Model
from robench.declarations.supports import Patches
from robench.evaluation.probe import QUARTER, Probe
from robench.metrics.sanity import KNOWS_ATTENTION, beaten

# Step in a patch, as a fraction of all values.
STEP = Fraction(1, 32)
MOVING = AttentionTerm(loss="distance", weight=0.001)


def check_attention(model: Model, inputs: Tensor) -> None:
    """Refuse a model whose attention does not show itself, on some inputs (B, ...); raises ContractError."""
    Pgd(epsilon=Fraction(0), relative_step=QUARTER, num_steps=1, attention=MOVING).check_model(model, inputs)


def attention_comparisons(probe: Probe) -> list[Flag]:
    """Return comparisons of attacks that know attention with PGD, in l-infinity and on images in one patch.

    The patch has an eighth of the image's side, at the place by gradient in all attacks, and any values.
    """
    plain = Pgd(epsilon=probe.epsilon, relative_step=QUARTER, num_steps=20)
    knowing: dict[str, LocalAscent] = {"PGD that moves attention": replace(plain, attention=MOVING)}
    if getattr(probe.model, "gradient_modes", ()):
        knowing["PGD through the mechanism"] = replace(plain, gradients="mechanism")
    flags = [_compared(probe, "PGD of 20 steps", plain, knowing)]
    if probe.domain.axes != PatchFool.needed_axes:
        return flags
    patches = Patches(size=max(1, min(probe.batch.inputs.shape[-2:]) // 8))
    free = 2 * probe.half_range
    alone = Pgd(epsilon=free, patches=patches, relative_step=STEP, num_steps=50, momentum=0.9)
    in_patch: dict[str, LocalAscent] = {
        "Attention-Fool": replace(alone, attention=AttentionTerm(loss="products")),
        "Patch-Fool": PatchFool(
            epsilon=free, patches=patches, place="gradient", num_steps=50, step_size=alone.step_length
        ),
    }
    return [*flags, _compared(probe, f"PGD in {patches}", alone, in_patch)]


def _compared(probe: Probe, name: str, other: LocalAscent, attacks: Mapping[str, LocalAscent]) -> Flag:
    """Return the comparison of the strongest of some attacks with another one."""
    survives = {title: probe.survives(each) for title, each in attacks.items()}
    best = min(survives, key=lambda title: fsum(survives[title]))
    what = f"{best} against {name}"
    return beaten(KNOWS_ATTENTION, probe.survives(other), survives[best], what, num_tests=len(attacks))
