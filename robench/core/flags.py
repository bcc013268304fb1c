"""Flags: signs that a robustness number is unreliable."""

from dataclasses import dataclass

# Flags that other code looks up by name: numbers that hold at one batch size, and gradients that must be averaged.
COUPLED_ROWS = "coupled rows"
RANDOM_VICTIM = "random victim"
NOTHING_TO_ATTACK = "nothing to attack"
CONTRADICTED = "contradicted certificates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Result of one check of a model under attack, raised or not.

    Attributes:
        name: of the check; ``source``: reference of its rule.
        value: measured value; ``limit``: threshold from which the flag is raised; both None if nothing was measured.
        is_raised: whether the check failed.
        finding: the observation, in a sentence; ``advice``: what to do about it, for raised flags.
    """

    name: str
    source: str
    value: float | None
    limit: float | None
    is_raised: bool
    finding: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Observations of one check of an audit in a shard, from which a rule (``metrics.audits``) makes its flag.

    Observations of several shards are joined row by row, so that the flag is that of one shard of all their examples.

    Attributes:
        check: name of the flag.
        columns: equally many values each: of the examples that the check is about, or of what else it counts.
        settings: further arguments of the rule, the same in all shards of an audit.
    """

    check: str
    columns: tuple[tuple[bool | float | str, ...], ...]
    settings: tuple[float | str, ...] = ()


# Of checks of the model itself; all others say how far a number under attack can be trusted.
_OF_EVERY_NUMBER = frozenset({COUPLED_ROWS, NOTHING_TO_ATTACK, CONTRADICTED, "clean accuracy", RANDOM_VICTIM})


def concerns(flag: Flag, *, is_attacked: bool) -> bool:
    """Return whether a flag concerns a number that is, or is not, measured under attack."""
    # A suite with several audits names each in its flags.
    return is_attacked or flag.name.partition(" (")[0] in _OF_EVERY_NUMBER
