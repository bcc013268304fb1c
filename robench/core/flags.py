"""Signs that a robustness number cannot be believed as it stands."""

from __future__ import annotations

from dataclasses import dataclass

# The one flag that a report looks for by name: its numbers hold at one batch size.
COUPLED_ROWS = "coupled rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One check of a model under attack, raised or not.

    Attributes:
        name: of the check; ``source``: where its rule is from.
        value: what was measured; ``limit``: from where on it is raised; None of both where nothing was measured.
        is_raised: whether the check failed.
        finding: what was met, in a sentence; ``advice``: what to do about it, for raised ones.
    """

    name: str
    source: str
    value: float | None
    limit: float | None
    is_raised: bool
    finding: str
    advice: str
