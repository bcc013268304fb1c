"""Suites, models and datasets by name: shipped with robench (in a checkout or a wheel), or in files of users."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from robench.core.checkpoint import Checkpoint, entry_name
from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.core.files import absolute, is_file_name
from robench.core.plugins import Claim, claims
from robench.core.suite import Suite
from robench.datasets import DATASETS
from robench.declare.boards import leaderboard_entry
from robench.declare.document import Document, Place
from robench.declare.importing import import_problems
from robench.declare.registry import Registry, merge, registry_of, sound_part_of, without
from robench.declare.shipped import shipped_registry, shipped_suites
from robench.declare.suites import read_suite, suite_of
from robench.declare.yaml_source import read_yaml
from robench.metrics import METRICS

_LOG = logging.getLogger(__name__)


def find_suite(
    name_or_path: str | Path, datasets: Mapping[str, DatasetDeclaration] = DATASETS, dataset: str | None = None
) -> Suite:
    """Return a shipped suite by name, or the suite of a file: a path that ends in .yaml or .yml or has a slash.

    ``dataset`` names the dataset, of ``datasets``, for a suite that names none; None gives it a stand-in.

    Raises:
        UsageError: there is no such file; or a dataset is given and the suite names its own.
        UnknownNameError: no suite of this name is shipped.
        DeclarationError: all problems of the file.
    """
    if isinstance(name_or_path, Path) or is_file_name(name_or_path):
        return read_suite(absolute(name_or_path, "suite"), datasets, dataset)
    shipped = shipped_suites()
    if name_or_path not in shipped:
        raise UnknownNameError("suite", name_or_path, shipped, "Or give the path of a YAML file.")
    return read_suite(shipped[name_or_path], datasets, dataset)


def find_suites(
    names: Sequence[str],
    registry_files: Sequence[Path] = (),
    dataset: str | None = None,
    *,
    all_examples: bool = False,
) -> tuple[Suite, ...]:
    """Return suites to measure or report, each once, with every dataset known.

    With ``all_examples`` every condition covers its whole dataset.

    Raises:
        UsageError: one names no dataset and none is given, or see ``find_suite``.
        UnknownNameError: there is no such suite or dataset.
        DeclarationError: all problems of a file.
    """
    datasets = find_datasets(registry_files)
    suites = tuple(find_suite(name, datasets, dataset) for name in dict.fromkeys(names))
    for suite in suites:
        suite.check_dataset()
    return tuple(suite.whole() for suite in suites) if all_examples else suites


def find_datasets(registry_files: Sequence[Path] = ()) -> Mapping[str, DatasetDeclaration]:
    """Return robench's datasets, those of other distributions, and those of registry files, by name.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all problems of a file; or two files declare the same name.
    """
    if not registry_files:
        return DATASETS
    registries = _read([absolute(path, "registry") for path in registry_files])
    own = merge({path: each.datasets for path, each in registries.items()}, "dataset")
    broken = _broken(registries, "datasets")
    _warn_of(broken)
    return _Joined(own, DATASETS, broken)


def find_checkpoints(
    names: Sequence[str], registry_files: Sequence[Path] = (), *, all_seeds: bool = False
) -> list[Checkpoint]:
    """Return checkpoints by name, each once, from the shipped registry and further files.

    Names are of entries, or of one of their seeds, such as ``digits-vit@1``. With ``all_seeds`` the checkpoints of all
    seeds of an entry follow its own.

    Raises:
        UsageError: there is no such file.
        UnknownNameError: no registry declares one of the names.
        DeclarationError: all problems of an entry that is asked for, or of a whole file; or two files declare the same
            name. Broken entries that are not asked for are left out with a warning.
    """
    declared, broken = _checkpoints(registry_files, only={entry_name(name) for name in names})
    if not declared.keys() >= set(names):
        # For advice in the message.
        declared, broken = _checkpoints(registry_files)
    for name in names:
        # The name of a further seed is that of its entry, and more.
        if name not in declared and (error := broken.get(entry_name(name))):
            raise error
    _warn_of(broken)
    for name in names:
        if name not in declared:
            raise UnknownNameError("model", name, declared, "Others can be added with a registry file (--registry).")
    wanted = dict.fromkeys(names)
    if all_seeds:
        of_entry = {name: [each.name for each in declared.values() if each.seed_of == name] for name in wanted}
        wanted = dict.fromkeys(each for name in wanted for each in (name, *of_entry[name]))
    return [declared[name] for name in wanted]


def seeds_of_models(
    names: Sequence[str], registry_files: Sequence[Path] = (), seeds: Collection[int] | None = None
) -> list[dict[str, int | None]]:
    """Return the checkpoints of all training seeds of each model, with their seeds; raises like ``find_checkpoints``.

    A seed is None where no recipe says it. ``seeds`` are the wanted ones: UsageError if a model has none of them, and a
    warning if it lacks some.
    """
    found = []
    for name in names:
        checkpoints = find_checkpoints([name], registry_files, all_seeds=True)
        known = {each.name: None if each.training is None else each.training.seed for each in checkpoints}
        chosen = {each: seed for each, seed in known.items() if seeds is None or seed in seeds}
        if not chosen:
            have = ", ".join(str(seed) for seed in known.values() if seed is not None) or "none that is known"
            raise UsageError(f"{name} has none of the wanted training seeds; it has {have}")
        if lacking := sorted(set(seeds or ()) - set(known.values())):
            _LOG.warning("%s lacks the wanted training seeds %s", name, ", ".join(map(str, lacking)))
        found.append(chosen)
    return found


def read_registries(registry_files: Sequence[Path] = ()) -> dict[str, Checkpoint]:
    """Return every checkpoint of the shipped registry and further files, by name.

    Broken entries are left out with a warning.

    Raises:
        UsageError: there is no such file.
        DeclarationError: a problem of a file that is of no single entry; or two files declare the same name.
    """
    declared, broken = _checkpoints(registry_files)
    _warn_of(broken)
    return declared


def validate_file(
    path: Path, datasets: Mapping[str, DatasetDeclaration] = DATASETS
) -> Literal["suite", "registry", "leaderboard"]:
    """Validate a file, and return the kind of its declaration.

    A file with ``checkpoints`` or ``datasets`` at its top is a registry, one with ``leaderboard`` a leaderboard, any
    other a suite. Names of datasets are resolved in ``datasets``, and in a registry's own; names of a leaderboard's
    columns are not checked. Code of others that a registry or suite names is imported.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all problems of the file, each with its line.
    """
    document = read_yaml(path)
    named: dict[Place, object]
    if not document.mapping_at().keys().isdisjoint(("checkpoints", "datasets")):
        registry = registry_of(document, path.absolute().parent, datasets)
        named = {("checkpoints", name): registry.checkpoints[name] for name in document.mapping_at("checkpoints")}
        named |= {("datasets", name): declared for name, declared in registry.datasets.items()}
        document.settle(registry, import_problems(document, named))
        return "registry"
    if "leaderboard" in document.mapping_at():
        leaderboard_entry(document)
        return "leaderboard"
    suite = suite_of(document, datasets)
    named = {("conditions",): suite.conditions, ("metrics",): tuple(METRICS[name] for name in suite.metrics)}
    document.settle(suite, import_problems(document, named))
    return "suite"


def _checkpoints(
    registry_files: Sequence[Path], only: Collection[str] | None = None
) -> tuple[dict[str, Checkpoint], dict[str, DeclarationError]]:
    """Return the checkpoints by name, and the errors of broken entries.

    With ``only`` no other entries of the shipped registry are read, which takes a second.
    """
    files = (shipped_registry(), *(absolute(path, "registry") for path in registry_files))
    registries = _read(files, only)
    declared = merge({path: registry.checkpoints for path, registry in registries.items()})
    return declared, _broken(registries, "checkpoints")


def _broken(registries: Mapping[Path, Registry], section: str) -> dict[str, DeclarationError]:
    return {
        name: error
        for registry in registries.values()
        for (found, name), error in registry.broken.items()
        if found == section
    }


def _warn_of(broken: Mapping[str, DeclarationError]) -> None:
    for name, error in broken.items():
        source, first = error.lines[0].rpartition(": ")[0], error.lines[1].strip()
        _LOG.warning("broken entry %r is left out: %s: %s ('robench validate' lists all)", name, source, first)


class _Joined(Mapping[str, "DatasetDeclaration"]):
    """Datasets of registries together with a family of plug-ins, whose members are imported on use.

    A broken entry is a member whose look-up raises its error, but is left out of iterations; one that has the name of a
    member of the family hides none.
    """

    def __init__(
        self,
        own: Mapping[str, DatasetDeclaration],
        others: Mapping[str, DatasetDeclaration],
        broken: Mapping[str, DeclarationError],
    ) -> None:
        self._own, self._others, self._broken = own, others, broken

    def __getitem__(self, name: str) -> DatasetDeclaration:
        if name in self._broken and name not in self._others:
            raise self._broken[name]
        return self._own[name] if name in self._own else self._others[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._broken or name in self._others

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._others

    def __len__(self) -> int:
        return len(self._own) + len(self._others)


# Parts of the shipped registry, the newest last, each with its document, the names asked for (None for all), the known
# names of datasets, and the plug-ins.
_READ: list[tuple[tuple[Document, Collection[str] | None, set[str], tuple[Claim, ...]], Registry]] = []
_MOST_READ = 8


def _read(files: Sequence[Path], only: Collection[str] | None = None) -> dict[Path, Registry]:
    """Return the registries of files, of the shipped one with these checkpoints ``only``."""
    documents = {path: read_yaml(path) for path in files}
    known = {name for document in documents.values() for name in document.mapping_at("datasets")}
    shipped = documents.get(shipped_registry())
    return {
        path: _part_of_shipped(document, path.parent, known, only)
        if document is shipped
        else sound_part_of(document, path.parent, known)
        for path, document in documents.items()
    }


def _part_of_shipped(document: Document, folder: Path, known: set[str], only: Collection[str] | None) -> Registry:
    """Return the shipped registry with these checkpoints ``only``, read once a process."""
    key = (document, only, known, claims())
    for (read, *others), registry in _READ:
        # The reader of YAML returns the same document of the same content.
        if read is document and tuple(others) == key[1:]:
            return registry
    part = document
    if only is not None:
        rest = document.mapping_at("checkpoints").keys() - set(only)
        part = without(document, {("checkpoints", name) for name in rest})
    registry = sound_part_of(part, folder, known)
    _READ[:] = [*_READ[1 - _MOST_READ :], (key, registry)]
    return registry
