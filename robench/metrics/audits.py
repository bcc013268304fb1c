"""Rules of an audit: from what checks observed of single examples to flags, without model or torch.

The indicators are described in ``evaluation.probe``, AutoAttack's checks in ``evaluation.model_checks``, comparisons of
attacks in ``metrics.sanity``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from math import fsum

from robench.core.flags import COUPLED_ROWS, NOTHING_TO_ATTACK, RANDOM_VICTIM, Flag, Observations
from robench.metrics.sanity import (
    ANY_DISTANCE,
    LEAST_COMPARED,
    MORE_STEPS,
    RANDOM_SEARCH,
    SINGLE_STEP,
    SMALLER_BUDGET,
    SOURCE,
    beaten,
    right_at_any_distance,
)

Bools = Sequence[bool]
Floats = Sequence[float]
AUTO_ATTACK = "auto-attack, checks.py"
INDICATORS = "Pintor et al. 2022"
CHOSEN = "attacks chosen by the audit"
# Titles of what chosen attacks begin with.
BY_GRADIENTS, WITHOUT_GRADIENTS = "APGD", "without gradients"
RANDOM = 1e-4
# Tolerance of the sum of a row of probabilities, from AutoAttack's code (checks.py).
SIMPLEX = 1e-5
# From so many values on, logits hardly all lie in [0, 1] by chance; of sigmoids the largest is hardly below this one.
ENOUGH_VALUES, LEAST_SIGMOID = 8, 0.5
PROBABILITIES = "probabilities"
UNSTABLE = 0.10
INCOMPLETE = 0.05
COUPLED_ADVICE = (
    "use evaluation-mode statistics, so that each row depends on itself alone; if the mechanism needs its batch, say "
    "`coupled: true` in the registry entry and compare numbers at equal batch sizes only"
)


def judged(observed: Iterable[Observations]) -> list[Flag]:
    """Return the flags of an audit from the observations of its shards, whose examples count as those of one shard.

    Shards choose attacks by their own flags; their results are left out where no check of all examples is raised.
    """
    by_check: dict[str, list[Observations]] = {}
    for each in observed:
        by_check.setdefault(each.check, []).append(each)
    if len(by_check) > 1:
        by_check.pop(NOTHING_TO_ATTACK, None)
    flags = [flag_of(*by_check[check]) for check in RULES if check in by_check]
    is_doubted = any(flag.is_raised and flag.name not in (COUPLED_ROWS, CHOSEN) for flag in flags)
    return [flag for flag in flags if is_doubted or flag.name != CHOSEN]


def flag_of(*parts: Observations) -> Flag:
    """Return the flag of one check from its observations in each shard."""
    columns = [tuple(chain(*pieces)) for pieces in zip(*(part.columns for part in parts), strict=True)]
    return RULES[parts[0].check](*columns, *parts[0].settings)


def in_place_of_logits(least: float, highest: float, off_one: float, num_values: float) -> str:
    """Name outputs that are not logits: probabilities, or all in [0, 1]; "" for all others.

    ``off_one`` is the largest deviation from one of a sum over the classes, ``num_values`` the number of outputs.
    """
    if not -SIMPLEX < least <= highest < 1 + SIMPLEX:
        return ""
    if off_one < SIMPLEX:
        return PROBABILITIES
    is_clear = num_values >= ENOUGH_VALUES and highest >= LEAST_SIGMOID
    return "outputs that all lie in [0, 1]" if is_clear else ""


def _nothing_to_attack(num_examples: Floats) -> Flag:
    count = sum(num_examples)
    finding = f"the model is right about none of {count} clean examples"
    advice = "check its weights, its preprocessing and the order of its classes"
    # An honest model may be wrong about a few.
    is_raised = count >= LEAST_COMPARED
    return _flag(NOTHING_TO_ATTACK, "robench", 0.0, 0.0, finding, advice, is_raised=is_raised)


def _random_victim(distances: Floats, num_answers: Floats, *num_right: Floats) -> Flag:
    value, counts, total = max(distances), {sum(each) for each in num_right}, sum(num_answers)
    finding = f"{len(num_right)} repeated predictions are equal"
    if value > 0 or len(counts) > 1:
        right = f"{min(counts)} to {max(counts)} of {total}" if len(counts) > 1 else "equally many"
        finding = f"{len(num_right)} repeated predictions differ by at most {value:.2g}; {right} are correct"
    advice = "average gradients over draws (num_draws), and report several predictions"
    is_raised = value > RANDOM or len(counts) > 1
    return _flag(RANDOM_VICTIM, AUTO_ATTACK, value, RANDOM, finding, advice, is_raised=is_raised)


def _probabilities(least: Floats, highest: Floats, off_one: Floats, num_values: Floats) -> Flag:
    found = in_place_of_logits(min(least), max(highest), max(off_one), sum(num_values))
    finding = "the outputs are not probabilities"
    if found:
        finding = "the outputs are probabilities" if found == PROBABILITIES else f"the model gives {found}"
    advice = "return logits: a softmax flattens the gradients, and attacks look weak"
    name = "probabilities for logits"
    return _flag(name, AUTO_ATTACK, max(off_one), SIMPLEX, finding, advice, is_raised=bool(found))


def _zero_gradients(is_zero: Bools, without_gradients: str) -> Flag:
    finding = f"{_mean(is_zero):.0%} of the examples have a gradient of exactly zero"
    advice = f"attack without gradients{without_gradients}, or through a differentiable stand-in (BPDA)"
    return _flag("zero gradients", AUTO_ATTACK, _mean(is_zero), 0.0, finding, advice)


def _coupled_rows(excess: Floats, findings: Sequence[str]) -> Flag:
    """Return the flag of the shard whose rows differ most; of shards of a single row nothing was measured."""
    worst = max(range(len(excess)), key=lambda place: excess[place], default=None)
    value, finding = (None, "not measured on a single example") if worst is None else (excess[worst], findings[worst])
    is_raised, limit = value is not None and value > 1, None if value is None else 1.0
    return _flag(COUPLED_ROWS, "robench", value, limit, finding, COUPLED_ADVICE, is_raised=is_raised)


def _unavailable_gradients(is_missing: Bools, is_zero: Bools, errors: Sequence[str]) -> Flag:
    flag = partial(_flag, "unavailable gradients", INDICATORS)
    stand_in = "attack through a differentiable stand-in (BPDA)"
    if all(errors):
        return flag(1.0, 0.0, f"the backward pass fails: {errors[0]}", stand_in)
    missing, zero = _mean(is_missing), _mean(is_zero)
    finding, advice = f"{missing:.0%} of the examples have no gradient at all", stand_in
    if zero > missing:
        finding += (
            f"; {zero - missing:.0%} have one, but their cross-entropy is saturated: float32 rounds its gradient to 0, "
            "which robench's attacks rescale and other libraries' may not"
        )
        remedy = "attack saturated examples with a margin or DLR loss"
        advice = f"{advice}, and {remedy}" if missing else remedy
    return flag(zero, 0.0, finding, advice)


def _unstable_predictions(unexplained: Floats, margins: Floats, within: str) -> Flag:
    value = fsum(unexplained) / max(fsum(margins), 1e-12)
    finding = f"margins change by {value:.1%} more than gradients explain within {within}"
    advice = "average gradients over noise or draws (num_draws)"
    # A single example may be near the boundary, where nothing of its margin is left.
    is_raised = value > UNSTABLE and len(margins) > 1
    return _flag("unstable predictions", INDICATORS, value, UNSTABLE, finding, advice, is_raised=is_raised)


def _silent_success(is_silent: Bools) -> Flag:
    finding = f"{_mean(is_silent):.0%} of the examples were fooled during the search, but not at the returned point"
    advice = "return the best point (returns: best), average over draws"
    return _flag("silent success", INDICATORS, _mean(is_silent), 0.0, finding, advice)


def _incomplete_optimisation(late_rises: Floats, last_steps: float, num_steps: float) -> Flag:
    """Return the flag of how much of its rise each surviving example's loss made in the last steps."""
    flag, value = partial(_flag, "incomplete optimisation", INDICATORS), _mean(late_rises)
    if not late_rises:
        return flag(0.0, INCOMPLETE, "no example survives", "")
    finding = f"{value:.1%} of the rise of the loss came in the last {last_steps} of {num_steps} steps"
    return flag(value, INCOMPLETE, finding, "take more steps, or longer ones")


def _transfer_failure(has_failed: Bools) -> Flag:
    finding = f"{_mean(has_failed):.0%} of the examples are fooled in the attack's passes and not in the prediction"
    advice = "attack the predicting model: average over its draws (num_draws)"
    return _flag("transfer failure", INDICATORS, _mean(has_failed), 0.0, finding, advice)


def _unconstrained_failure(survives: Floats, by_another: Floats, noun: str) -> Flag:
    value, limit, losses = _mean(survives), _mean(by_another), "margin, dlr"
    finding = f"{value:.0%} of the {noun} survive without any constraint"
    if noun == "answers":
        finding, losses = f"{finding}; {limit:.0%} do in the best other example's place", "masked-ce, js"
    advice = f"try another loss ({losses}) or a black-box attack"
    return _flag("unconstrained attack failure", INDICATORS, value, limit, finding, advice)


def _chosen_attacks(titles: Sequence[str], num_attacked: Floats, num_fooled: Floats) -> Flag:
    """Return the flag of attacks that shards chose, from how many examples each attacked and fooled there."""
    counts: dict[str, list[float]] = {}
    for title, attacked, fooled in zip(titles, num_attacked, num_fooled, strict=True):
        of_title = counts.setdefault(title, [0, 0])
        of_title[0], of_title[1] = of_title[0] + attacked, of_title[1] + fooled
    first = [counts.pop(title) for title in (BY_GRADIENTS, WITHOUT_GRADIENTS) if title in counts]
    total = sum(attacked for attacked, _ in first)
    begun, broken = total - sum(fooled for _, fooled in first), sum(fooled for _, fooled in counts.values())
    before, after = begun / total, (begun - broken) / total
    by = WITHOUT_GRADIENTS if titles[0] == WITHOUT_GRADIENTS else BY_GRADIENTS
    what = f"{before:.0%} of the examples survive {by}"
    found = [f"{title} fools {fooled} of {attacked}" for title, (attacked, fooled) in counts.items()]
    if not begun:
        what, found = f"no example survives {by}", []
    elif not broken:
        what = f"{what}, and the audit could not break them"
    finding = "; ".join([what, *found, *([f"{after:.0%} survive all"] if begun else [])])
    advice = "report the number under the strongest of all attacks, and write one that knows the defence"
    return _flag(CHOSEN, SOURCE, after, before, finding, advice, is_raised=bool(begun))


def _mean(values: Floats) -> float:
    return fsum(values) / max(1, len(values))


def _flag(
    name: str,
    source: str,
    value: float | None,
    limit: float | None,
    finding: str,
    advice: str,
    *,
    is_raised: bool | None = None,
) -> Flag:
    if is_raised is None:
        is_raised = value is not None and limit is not None and value > limit
    return Flag(name=name, source=source, value=value, limit=limit, is_raised=is_raised, finding=finding, advice=advice)


# In the order of flags.
RULES: Mapping[str, Callable[..., Flag]] = {
    NOTHING_TO_ATTACK: _nothing_to_attack,
    RANDOM_VICTIM: _random_victim,
    "probabilities for logits": _probabilities,
    "zero gradients": _zero_gradients,
    COUPLED_ROWS: _coupled_rows,
    "unavailable gradients": _unavailable_gradients,
    "unstable predictions": _unstable_predictions,
    "silent success": _silent_success,
    "incomplete optimisation": _incomplete_optimisation,
    "transfer failure": _transfer_failure,
    "unconstrained attack failure": _unconstrained_failure,
    **{each.name: partial(beaten, each) for each in (SINGLE_STEP, RANDOM_SEARCH, SMALLER_BUDGET, MORE_STEPS)},
    ANY_DISTANCE.name: right_at_any_distance,
    CHOSEN: _chosen_attacks,
}
