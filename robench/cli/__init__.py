"""Command line of robench. Tables and data go to stdout, everything else to stderr; only ``terminal`` prints.

Functions import torch, pyarrow, numpy, pydantic and rich themselves, so that help needs none of them and is fast.
"""
