"""Function of ``import robench`` that looks at attention inside models."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from robench.analyses import ANALYSES
from robench.analyses.results import Analysed
from robench.api.arguments import data_root_of, registries_of, suite_of
from robench.core.errors import UnknownNameError, UsageError
from robench.core.suite import Suite
from robench.declare.schema import assigned
from robench.runs.analyses import AnalysisRequest, examples_of
from robench.runs.analyses import analyse as analysed
from robench.runs.chosen_models import Keys, Models, choose_models


def analyse(
    analysis: str,
    models: Models = (),
    *,
    dataset: str | None = None,
    suite: str | Path | Suite | None = None,
    conditions: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    count: int = 100,
    seed: int | None = None,
    device: str = "auto",
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    data_root: str | Path | None = None,
    key: Keys | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Analysed]:
    """Analyse attention inside models, and return a result for each model and condition.

    Examples are the first ``count`` of ``dataset``, or of ``suite``, clean and under its ``conditions``. ``settings``
    are fields of the analysis. Models and ``key`` are as in ``run``; analyses of formulas have none. With ``results``,
    the numbers are kept in its folder ``analyses`` too.

    Raises:
        RobenchError: see ``core.errors``; a model whose attention layers cannot be seen is refused by DeclarationError.
    """
    if analysis not in ANALYSES:
        raise UnknownNameError("analysis", analysis, ANALYSES)
    fields = [f"{name}={value}" for name, value in (settings or {}).items()]
    declared = assigned(ANALYSES[analysis], fields, "settings", "analysis")
    registries = registries_of(registry)
    is_formula = declared.subject == "formula"
    if is_formula is bool(models):
        needed = "is of formulas alone: leave out models" if is_formula else "is of models: name some"
        raise UsageError(f"analysis {analysis} {needed}")
    loaded = None if suite is None else suite_of(suite, registries, dataset)
    examples = {} if is_formula else examples_of(loaded, conditions, dataset, registries)
    chosen = choose_models(models, registries, key, loaded)
    request = AnalysisRequest(
        analysis=declared,
        count=count,
        seed=seed,
        device=device,
        data_root=data_root_of(data_root),
        results=None if results is None else Path(results).absolute(),
        modules=chosen.modules,
        **examples,
    )
    found = [
        each for checkpoint in chosen.checkpoints or (None,) for each in analysed(request, checkpoint, on_progress)
    ]
    return [result for result, _ in found]
