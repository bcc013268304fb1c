"""Texts of the suites that repeat what the papers' code does.

What each repository calls is a matter of fact, documented in docs/protocols.md with its source; here it is data.
Budgets, steps and deltas are in normalised units, labels are the victim's own predictions, and nothing is cut to the
range of pixels, because cleverhans is called so. The digits twins have the same calls with budgets that move accuracy
on the digits checkpoints, whose images are divided by 0.35 (ImageNet's by 0.226), and fewer examples and steps where an
attack takes many passes.

A condition without a suffix is what code does; where the paper's text says otherwise, ``-paper`` is beside it: the call
of the code with the numbers of the text, or, where the authors published no call, the text alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BUDGETS = (1, 2, 3, 4, 5, 6)
# Four times the budget moves the digits' accuracy about as far as the papers' moves ImageNet's.
DIGITS_SCALE = 4
IN_PIXELS = "labels: predicted, clip: none"
UNCLIPPED = f"space: normalised, {IN_PIXELS}"
# What the vendored AutoAttack does with inputs that are normalised already: it cuts them to the range of images.
CUT = "space: normalised, clip: unit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What one repository's attack scripts call.

    Attributes:
        source: where that was read, or what it was inferred from.
        budgets: of FGSM and PGD, in 255ths; ``budget_of_text``: as the paper's text has it, in pixels, None where this
            is not measured.
        spsa: updates and budget of SPSA as it is called; ``spsa_of_text``: as the paper's text has them, None where
            they are the same.
        ensemble: budget of AutoAttack and of Square; ``cw``: its other fields. None where they are not called.
    """

    name: str
    title: str
    source: str
    budgets: tuple[int, ...] = BUDGETS
    budget_of_text: int | None = None
    spsa: tuple[int, Fraction] | None = None
    spsa_of_text: tuple[int, Fraction] | None = None
    ensemble: Fraction | None = None
    has_sparse_l1: bool = False
    has_noise: bool = False
    cw: str | None = None


TENTH, LEVEL = Fraction(1, 10), Fraction(1, 255)
CONFIDENT = "num_steps: {steps}, num_search_steps: 5, initial_c: 0.01, learning_rate: 0.005, confidence: {confidence}"
OWN_TARGET = "num_steps: 10, num_search_steps: 5, initial_c: 0.01, learning_rate: 0.1, confidence: 10, target: own"
PROTOCOLS = (
    Protocol(
        name="rpc",
        title="RPC-Attention",
        source="rachtsy/KPCA_code, Attack/engine.py lines 77-115 and its scripts",
        spsa=(10, TENTH),
        spsa_of_text=(40, TENTH),
        ensemble=LEVEL,
        has_sparse_l1=True,
        has_noise=True,
        cw=CONFIDENT,
    ),
    Protocol(
        name="rkde",
        title="robust KDE",
        source="aaronhan223/robust_transformer, imagenet/engine.py lines 88-105 and its scripts",
        budget_of_text=1,
        spsa=(40, TENTH),
        # The text gives the budget of all attacks, and no number of updates.
        spsa_of_text=(40, LEVEL),
        has_sparse_l1=True,
        has_noise=True,
        cw=CONFIDENT,
    ),
    Protocol(
        name="elliptical",
        title="Elliptical attention",
        source="stefvk/Elliptical-Attention, ImageAttack/engine.py lines 95-140",
        spsa=(40, TENTH),
        has_sparse_l1=True,
        cw=OWN_TARGET,
    ),
    Protocol(
        name="twicing",
        title="Twicing attention",
        source="inferred: no attack code is published; FGSM and PGD at 4/255 match this in normalised space",
        budgets=(4,),
        spsa=(40, LEVEL),
    ),
    Protocol(
        name="boost",
        title="Bilateral and Boost",
        source="inferred: no code is published; FGSM and PGD at 1/255 match this in normalised space",
        budgets=(1,),
    ),
)


def texts() -> dict[str, str]:
    """Return the suites by file name."""
    return {
        f"{family}-adv-{protocol.name}.yaml": "\n".join(_lines(family, protocol)) + "\n"
        for family in ("imagenet", "digits")
        for protocol in PROTOCOLS
    }


def _lines(family: str, protocol: Protocol) -> Iterator[str]:
    digits = family == "digits"
    shown = "digits twin of the attacks" if digits else "attacks"
    mark = ", inferred" if protocol.source.startswith("inferred") else ""
    yield "# yaml-language-server: $schema=../schemas/suite.json"
    yield "# Written by `make suites` from scripts/paper_suites.py."
    yield f"# Source: {protocol.source}."
    yield f"name: {family}-adv-{protocol.name}"
    yield "version: 1"
    yield f"description: The {shown} behind the tables of {protocol.title}, as its code calls them{mark}"
    yield "seed: 0"
    yield f"dataset: {'digits' if digits else 'imagenet-1k'}"
    yield f"batch_size: {20 if digits else 48}"
    yield "conditions:"
    yield "  - {name: clean}"
    scale = DIGITS_SCALE if digits else 1
    for budget in protocol.budgets:
        yield from _gradients(str(budget), scale * budget, UNCLIPPED)
    if protocol.budget_of_text is not None:
        yield from _gradients("paper", scale * protocol.budget_of_text, IN_PIXELS)
    yield from _many_passes(protocol, digits=digits)
    yield "metrics: [top1_accuracy, top5_accuracy]"


def _gradients(suffix: str, budget: int, limits: str) -> Iterator[str]:
    epsilon = f"{budget}/255"
    yield f"  - {{name: fgsm-{suffix}, perturbation: {{kind: fgsm, epsilon: {epsilon}, {limits}}}}}"
    yield f"  - name: pgd-{suffix}"
    yield "    perturbation:"
    yield f"      {{kind: pgd, epsilon: {epsilon}, relative_step: 0.15, num_steps: 20, returns: last,"
    yield f"       {limits}}}"


def _many_passes(protocol: Protocol, *, digits: bool) -> Iterator[str]:
    for name, spsa in (("spsa", protocol.spsa), ("spsa-paper", protocol.spsa_of_text)):
        if spsa is not None:
            yield from _named(name, "20" if digits else None)
            yield f"      {{kind: spsa, epsilon: {_budget(spsa[1], digits=digits)}, num_steps: {spsa[0]},"
            yield "       learning_rate: 0.01, delta: 0.01, num_samples: 128, formula: released, returns: last,"
            yield f"       {UNCLIPPED}}}"
    if protocol.has_sparse_l1:
        yield "  # Whatever budget the scripts name: cleverhans' default is what is run."
        yield from _named("sld")
        yield "      {kind: sparse-l1, epsilon: 10, step_size: 1, num_steps: 20, sparsity: 0.99, projection: rescale,"
        yield f"       returns: last, {UNCLIPPED}}}"
    if protocol.cw is not None:
        fields = protocol.cw.format(steps=100 if digits else 1000, confidence=0.1)
        yield "  # cleverhans cuts normalised images to [0, 1], which changes them before any attack."
        yield from _named("cw", "20" if digits else None)
        yield f"      {{kind: cw, {fields},"
        yield f"       continues: true, stops_early: false, clip_min: 0, clip_max: 1, {UNCLIPPED}}}"
    if protocol.has_noise:
        yield f"  - {{name: noise, perturbation: {{kind: uniform-noise, epsilon: 0.3, {UNCLIPPED}}}}}"
    if protocol.ensemble is not None:
        yield from _ensembles(_budget(protocol.ensemble, digits=digits), digits=digits)


def _ensembles(epsilon: str, *, digits: bool) -> Iterator[str]:
    yield "  # No call is published: as by the AutoAttack that is copied into stefvk/Elliptical-Attention, the"
    yield "  # budget in normalised units, points cut to [0, 1] there; -paper is the text, both in pixels."
    for suffix, limits in (("", f", {CUT}"), ("-paper", "")):
        yield from _named(f"autoattack{suffix}", "20" if digits else None)
        if digits:
            yield from _few_steps(epsilon, limits)
        else:
            yield f"      {{kind: autoattack, variant: standard, epsilon: {epsilon}, returns: published{limits}}}"
    for suffix, limits in (("", f", {CUT}"), ("-paper", "")):
        yield from _named(f"square{suffix}", "20" if digits else None)
        num_queries = 200 if digits else 5000
        yield f"      {{kind: square, epsilon: {epsilon}, num_queries: {num_queries}, p_init: 0.8,"
        yield f"       schedule: fixed, trials: as_drawn, stop: at_success, returns: published{limits}}}"


def _few_steps(epsilon: str, limits: str) -> Iterator[str]:
    """Yield the standard ensemble with a tenth of the steps, a third of the targets and 200 queries."""
    shared = f"epsilon: {epsilon}{limits}"
    yield f"      kind: autoattack\n      variant: custom\n      epsilon: {epsilon}\n      returns: published"
    yield from (f"      {limit}" for limit in limits.split(", ") if limit)
    yield "      members:"
    for fields in (
        "kind: apgd, num_steps: 10, returns: published",
        "kind: apgd, num_steps: 10, loss: dlr-targeted, num_restarts: 3, returns: published",
        "kind: fab, num_steps: 10, num_targets: 3, num_final_steps: 0, stop: at_success",
        "kind: square, num_queries: 200, p_init: 0.8, schedule: fixed, trials: as_drawn, stop: at_success,\n"
        "           returns: published",
    ):
        yield f"        - {{{fields},\n           {shared}}}"


def _budget(epsilon: Fraction, *, digits: bool) -> str:
    """Return a budget as YAML has it: a decimal where it is one, else in 255ths."""
    scaled = DIGITS_SCALE * epsilon if digits else epsilon
    decimal = str(float(scaled))
    return decimal if Fraction(decimal) == scaled else f"{255 * scaled}/255"


def _named(name: str, num_examples: str | None = None) -> Iterator[str]:
    yield f"  - name: {name}"
    if num_examples is not None:
        yield f"    num_examples: {num_examples}"
    yield "    perturbation:"
