"""Costs of models: parameters and multiply-adds, which are exact, and times and memory, which belong to a device.

Counts and their rules (``rules.py``) and the protocols of measurement (``protocols.py``) need no torch; ``counting.py``
counts, and ``measuring.py`` measures.
"""

from robench.costs.protocols import PROTOCOLS, Protocol
from robench.costs.rules import RULES, Counts, Rule

__all__ = ["PROTOCOLS", "RULES", "Counts", "Protocol", "Rule"]
