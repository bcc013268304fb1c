"""Attacks, one algorithm a file; what all of them share stands in ``ball`` and ``gradient``."""
