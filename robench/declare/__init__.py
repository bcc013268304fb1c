"""Declarations read from YAML or mappings into the frozen values of core, with all problems reported at once."""

from robench.declare.lookup import (
    find_checkpoints,
    find_datasets,
    find_suite,
    find_suites,
    read_registries,
    seeds_of_models,
    validate_file,
)
from robench.declare.published import load_published, published_tables, read_published
from robench.declare.registry import merge, read_registry
from robench.declare.rewriting import add_seed, set_weights
from robench.declare.schema import assigned, parse_architecture, parse_preprocessing
from robench.declare.shipped import is_clone, shipped_folder, shipped_registry, shipped_suites
from robench.declare.suites import parse_suite, read_suite

__all__ = [
    "add_seed",
    "assigned",
    "find_checkpoints",
    "find_datasets",
    "find_suite",
    "find_suites",
    "is_clone",
    "load_published",
    "merge",
    "parse_architecture",
    "parse_preprocessing",
    "parse_suite",
    "published_tables",
    "read_published",
    "read_registries",
    "read_registry",
    "read_suite",
    "seeds_of_models",
    "set_weights",
    "shipped_folder",
    "shipped_registry",
    "shipped_suites",
    "validate_file",
]
