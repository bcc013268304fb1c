"""Costs of models: parameters and multiply-adds, which are exact, and times and memory, which belong to a device.

Counts and their rules (``rules.py``), the protocols of measurement (``protocols.py``) and fits of growth
(``growth.py``) need no torch; ``counting.py`` counts, and ``measuring.py`` measures.
"""

from robench.costs.growth import TOKENS, Limits, fitted_exponent, larger_half
from robench.costs.protocols import PROTOCOLS, Protocol
from robench.costs.rules import DEFAULT_RULE, RULES, Counts, Rule

__all__ = [
    "DEFAULT_RULE",
    "PROTOCOLS",
    "RULES",
    "TOKENS",
    "Counts",
    "Limits",
    "Protocol",
    "Rule",
    "fitted_exponent",
    "larger_half",
]
