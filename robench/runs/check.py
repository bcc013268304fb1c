"""Suites of a check, and the run that measures the results it lacks."""

from collections.abc import Sequence
from pathlib import Path

from robench.comparison.baseline import check_protocol
from robench.core.errors import UsageError
from robench.core.suite import Suite
from robench.declare import find_checkpoints, find_suites
from robench.runs.request import RunRequest
from robench.store.baseline import Baseline


def suites_to_check(
    baseline: Baseline,
    names: Sequence[str],
    registries: Sequence[Path] = (),
    dataset: str | None = None,
    *,
    all_examples: bool = False,
) -> tuple[Suite, ...]:
    """Return suites of a baseline as they are declared now.

    Without names these are all suites of the baseline, which must then be shipped; without ``dataset``, suites that
    name none have the one of the baseline.

    Raises:
        UsageError: there is no such file; or a dataset is given, and a suite names its own.
        UnknownNameError: no such suite is shipped.
        DeclarationError: all that is wrong with a file.
    """
    given = {protocol.suite: protocol.dataset for protocol in baseline.protocols}
    datasets = {each for each in given.values() if each is not None}
    only = datasets.pop() if len(datasets) == 1 and None not in given.values() else None
    dataset_of = {name: given.get(name, only) if dataset is None else dataset for name in names or given}
    return tuple(
        suite
        for name, each in dataset_of.items()
        for suite in find_suites([name], registries, each, all_examples=all_examples)
    )


def check_request(
    baseline: Baseline,
    suites: tuple[Suite, ...],
    models: Sequence[str],
    registries: Sequence[Path] = (),
    *,
    seed: int | None = None,
    device: str = "auto",
    workers: int | None = None,
    data_root: Path | None = None,
) -> RunRequest:
    """Return the run that measures as much of a baseline's models as the baseline has; arguments as of ``RunRequest``.

    Raises:
        UsageError: the suites of the baseline were limited differently.
        UnknownNameError: no registry file has a model.
        IncomparableError: a suite is another one than the baseline's, see ``comparison.baseline.check_protocol``.
    """
    protocols = {protocol.suite: protocol for protocol in baseline.protocols}
    for suite in suites:
        # Refused now, since measuring may take hours.
        if suite.name in protocols:
            check_protocol(protocols[suite.name], suite, suite.seed if seed is None else seed)
    names = dict.fromkeys(models or (model for protocol in baseline.protocols for model in protocol.models))
    limits = {protocol.limit for protocol in baseline.protocols}
    if len(limits) != 1:
        raise UsageError("the suites of the baseline have different limits; check one of them at a time")
    return RunRequest(
        suites=suites,
        checkpoints=tuple(find_checkpoints(list(names), registries)),
        limit=limits.pop(),
        seed=seed,
        device=device,
        workers=workers,
        data_root=data_root,
        audit=False,
    )
