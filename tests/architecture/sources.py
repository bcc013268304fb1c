"""Syntax trees of sources, parsed once for all tests of this folder."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=2000)
def parsed(source: str) -> ast.Module:
    return ast.parse(source)
