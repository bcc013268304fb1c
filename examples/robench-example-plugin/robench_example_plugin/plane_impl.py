"""Rules of points of the plane: checks of inputs, and the limits of attacks."""

from __future__ import annotations

from robench.domains.real_valued import RealValued

PLANE_RULES = RealValued(lower=-1, upper=1)
