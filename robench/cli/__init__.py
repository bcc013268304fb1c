"""The command line: the only place that prints. Tables and data go to stdout, everything else to stderr."""

from robench.cli.main import main

__all__ = ["main"]
