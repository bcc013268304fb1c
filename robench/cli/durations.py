"""Durations in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours, such as ``12 s``, ``5 min`` or ``3.4 h``."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"
