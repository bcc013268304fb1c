"""Arguments of the functions of ``import robench``: names, paths, or one or several of them."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from robench.core.errors import UsageError
from robench.core.files import absolute
from robench.core.suite import Suite
from robench.declare import find_checkpoints, find_suites
from robench.store import FolderStore

DEFAULT_RESULTS = "results"


def or_default(results: str | Path | None) -> str | Path:
    """Return the results folder, the default one if None is given."""
    return DEFAULT_RESULTS if results is None else results


def kept_in(results: str | Path | None) -> FolderStore:
    """Return the store of a results folder, to be read.

    Raises:
        UsageError: it is a file, such as an archive.
    """
    store = FolderStore(or_default(results))
    if store.path.is_file():
        raise UsageError(
            f"results must be a folder, got the file {store.path}; unpack an archive first: tar -xJf FILE -C FOLDER"
        )
    return store


def folder_store(results: str | Path | None, folder: str = "") -> FolderStore:
    """Return the store of a results folder, or of a folder in it.

    Raises:
        StoreUnwritableError: the folder cannot be written.
    """
    store = FolderStore(or_default(results))
    store = FolderStore(store.path / folder) if folder else store
    store.check_writable()
    return store


def suite_of(
    suite: str | Path | Suite, registries: Sequence[Path], dataset: str | None, *, all_examples: bool = False
) -> Suite:
    """Return a suite by its name, or as it is given; with ``all_examples`` on whole datasets.

    Raises:
        UsageError: a dataset is given beside a loaded suite.
    """
    if isinstance(suite, (str, PathLike)):
        (found,) = find_suites([str(suite)], registries, dataset, all_examples=all_examples)
        return found
    if dataset is not None:
        raise UsageError("dataset must be left out beside a loaded suite; give it to load_suite")
    return suite.whole() if all_examples else suite


def listed_suites(suite: str | Path | Suite | Sequence[str | Path | Suite]) -> list[str | Path | Suite]:
    """Return one suite or several as a list."""
    return list(suite) if isinstance(suite, (list, tuple)) else [suite]  # type: ignore[list-item]  # no sequence itself


def suites_of(
    suite: str | Path | Suite | Sequence[str | Path | Suite],
    registries: Sequence[Path],
    dataset: str | None,
    *,
    all_examples: bool = False,
) -> list[Suite]:
    """Return suites by their names, or as they are given; see ``suite_of``."""
    return [suite_of(each, registries, dataset, all_examples=all_examples) for each in listed_suites(suite)]


def models_of(models: str | Sequence[str], registries: Sequence[Path] = (), *, all_seeds: bool = False) -> list[str]:
    """Return one name of a model or several as a list, with those of all their training seeds if asked for."""
    names = [models] if isinstance(models, str) else list(models)
    return [each.name for each in find_checkpoints(names, registries, all_seeds=True)] if all_seeds else names


def registries_of(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return one path of a registry or several as absolute paths."""
    given = [paths] if isinstance(paths, str | Path) else paths
    return [absolute(path, "registry") for path in given]


def data_root_of(path: str | Path | None) -> Path | None:
    """Return the folder of datasets as an absolute path."""
    return None if path is None else absolute(path, "data_root")
