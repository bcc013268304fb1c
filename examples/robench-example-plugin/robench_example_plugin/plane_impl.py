"""Rules of points of the plane: what is checked of inputs, and the limits that attacks stay between."""

from __future__ import annotations

from robench.domains.real_valued import RealValued

PLANE_RULES = RealValued(lower=-1, upper=1)
