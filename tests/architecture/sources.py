"""Syntax trees of sources, parsed once for all tests of this folder."""

import ast
from functools import lru_cache


@lru_cache(maxsize=2000)
def parsed(source: str) -> ast.Module:
    return ast.parse(source)
