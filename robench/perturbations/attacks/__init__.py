"""Attacks, one algorithm a file. All run in ``attack``, meet a ``problem``, and share the loop in ``search``."""
