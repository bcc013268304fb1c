"""Transfer of adversarial examples between models: a matrix of targets and sources.

Missing attacks are measured like in any run, and their examples are stored; then every source's examples are scored on
every other target (``evaluation.actions.Rescore``). These scores are records like all others, so that they are measured
only once. The diagonal is the attack's own record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from robench.core.checkpoint import Checkpoint
from robench.core.declared import Declaration, PerturbationDeclaration
from robench.core.errors import UnknownNameError, UsageError
from robench.core.protocols import Store
from robench.core.records import Failure, Record
from robench.core.report import Report
from robench.core.shard import EXACT_DTYPE, Measurement, Shard, into_shards, shard_key
from robench.core.suite import Column, Condition, Suite, View, views_of
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare.columns import perturbation_problems
from robench.evaluation.actions import Rescore
from robench.reports import build_report
from robench.runs.prepare import PreparedRun, folder_of, prepare
from robench.runs.request import RunRequest
from robench.scheduling import Watch
from robench.tasks import TASKS

Result = TypeVar("Result", Record, Failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransfer:
    """Transfer whose weights and data have been verified.

    Attributes:
        matrix: suite of the table: the clean condition, if the suite has one, and one condition per source.
        view: the attack, at one budget of a sweep.
        attacks: the run that makes the adversarial examples, and measures clean accuracy.
        scores: the run that scores them: its measurements include all targets and sources, its shards exclude the
            diagonal.
        coupled_sources: sources whose rows influence each other, with the batch size at which their examples were made.
        diagonal: place in the matrix of each source's own outcomes, by the key of its measurement.
    """

    matrix: Suite
    view: View
    attacks: PreparedRun
    scores: PreparedRun
    diagonal: Mapping[str, Measurement]
    coupled_sources: tuple[str, ...] = ()

    def scorable(self, store: Store) -> PreparedRun:
        """Return the run of scores without adversarial examples that are missing because their attack failed."""
        kept = folder_of(store).keys()
        return replace(self.scores, shards=tuple(shard for shard in self.scores.shards if _source_key(shard) in kept))

    def fill(self, store: Store, watch: Watch) -> None:
        """Attack, then score, what ``store`` lacks."""
        self.attacks.fill(store, watch, f"attacking: {self.view.label}")
        if not watch.is_stopped:
            self.scorable(store).fill(store, watch, "scoring the adversarial examples")

    def gone(self, store: Store) -> list[Shard]:
        """Return the shards of attacks and scores that have neither a record nor a failure in ``store``."""
        return [*self.attacks.gone(store), *self.scorable(store).gone(store)]

    def report(self, store: Store) -> Report:
        """Return the matrix, a row per target and a column per source, from the results in ``store``."""
        keys: dict[str, set[str]] = {}
        for run in (self.attacks, self.scores):
            for measurement in (each for of_suite in run.measurements.values() for each in of_suite):
                keys.setdefault(measurement.checkpoint.name, set()).add(measurement.key)
        wanted = set().union(*keys.values())
        records = store.records(lambda shard: shard.measurement_key in wanted)
        request = self.scores.request
        report = build_report(
            self.matrix,
            [self._in_matrix(record) for record in records],
            [self._in_matrix(failure) for failure in store.failures() if failure.shard.measurement_key in wanted],
            models=[checkpoint.name for checkpoint in request.checkpoints],
            limit=request.limit,
            measurements=keys,
            seed=request.seed,
            coupled=request.coupled,
        )
        if not self.coupled_sources:
            return report
        # Not every format contains the columns' labels.
        sources = {"coupled sources": ", ".join(self.coupled_sources)}
        return replace(report, provenance={**report.provenance, **sources})

    def _in_matrix(self, result: Result) -> Result:
        """Return a result of the attack itself as one of the diagonal, and all others unchanged."""
        measurement = self.diagonal.get(result.shard.measurement_key)
        if measurement is None:
            return result
        header = Shard(measurement=measurement, start=result.shard.start, stop=result.shard.stop).header
        if isinstance(result, Failure):
            return replace(result, shard=header)
        return replace(
            result, shard=header, outcomes=result.outcomes.at_budget(self.view.epsilon).replaced(epsilon=None)
        )


def prepare_transfer(request: RunRequest, condition: str, targets: Sequence[Checkpoint] = ()) -> PreparedTransfer:
    """Find and check the data and the weights of every model, and divide attacks and scores into shards.

    The request has one suite, and the sources: the models whose adversarial examples are scored on the targets, by
    default on each other. Of a sweep the largest budget is used, or the one after an ``@``, such as ``pgd@4/255``.

    Raises:
        UnknownNameError: the suite has no such condition.
        UsageError: the condition is not an attack, models have different resize or crop, the task has no metric of
            clean examples, or see ``prepare``.
        RobenchError: see ``prepare``.
    """
    (suite,) = request.suites
    view = choose(suite, condition)
    _metric(suite)
    sources, targets = request.checkpoints, tuple(targets) or request.checkpoints
    everyone = tuple({checkpoint.name: checkpoint for checkpoint in (*targets, *sources)}.values())
    check_same_pixels(everyone)
    clean = _clean_beside(suite, view.condition)
    asked = replace(suite, conditions=(*clean, view.condition), columns=(), audit=False)
    attacks = prepare(
        replace(request, suites=(asked,), checkpoints=everyone, audit=False, keep_adversarial=EXACT_DTYPE)
    )
    named = {each.name for each in sources}
    # Of models that are targets alone, only clean examples are asked for.
    shards = [(shard, shard.measurement) for shard in attacks.shards]
    wanted = [shard for shard, each in shards if each.condition.perturbation.is_clean or each.checkpoint.name in named]
    attacks = replace(attacks, shards=tuple(wanted))
    measured = {(each.checkpoint.name, each.condition.name): each for each in attacks.measurements[suite.name]}
    conditions = {each.name: _transferred(view, measured[each.name, view.condition.name]) for each in sources}
    batch_size = suite.batch_size_of(view.condition)
    matrix = _matrix(suite, view, clean, [(each, conditions[each.name]) for each in sources])
    scores = {
        (target.name, source): replace(
            measured[target.name, view.condition.name], condition=condition, adversarial_dtype=EXACT_DTYPE
        )
        for target in targets
        for source, condition in conditions.items()
    }
    transferred = [each for (target, source), each in scores.items() if target != source]
    return PreparedTransfer(
        matrix=matrix,
        view=view,
        attacks=attacks,
        scores=replace(
            attacks,
            request=replace(attacks.request, suites=(matrix,), checkpoints=targets),
            measurements={matrix.name: tuple(scores.values())},
            shards=tuple(into_shards(transferred, suite.batches_per_shard, request.limit)),
            seconds_per_example={},
            loaded={},
        ),
        diagonal={
            measured[source, view.condition.name].key: scores[source, source]
            for source in conditions
            if (source, source) in scores
        },
        coupled_sources=tuple(_marked(each, batch_size) for each in sources if each.coupled),
    )


def with_attack(suite: Suite, attack: PerturbationDeclaration) -> tuple[Suite, str]:
    """Return a suite with a condition of an attack, on data and number of examples of its clean one, and its name.

    Raises:
        UsageError: the suite has no clean condition, or its dataset cannot be attacked so.
    """
    clean = next((each for each in suite.conditions if each.perturbation.is_clean), None)
    if clean is None:
        raise UsageError(f"suite {suite.name!r} has no clean condition, whose examples an attack of its own would get")
    # No name in a suite has a space.
    condition = replace(clean, name=f"own {attack.kind}", perturbation=attack)
    if problems := perturbation_problems(condition):
        raise UsageError(f"the attack does not fit suite {suite.name!r}: {' '.join(problems[0]).strip()}")
    return replace(suite, conditions=(*suite.conditions, condition)), condition.name


def _clean_beside(suite: Suite, attack: Condition) -> tuple[Condition, ...]:
    """Return the clean condition on the attack's dataset, with as many examples if there are several."""
    clean = [
        each for each in suite.conditions if each.dataset.name == attack.dataset.name and each.perturbation.is_clean
    ]
    return tuple(sorted(clean, key=lambda each: each.num_examples != attack.num_examples)[:1])


def _transferred(view: View, source: Measurement) -> Condition:
    mean, std = source.checkpoint.preprocessing.normalisation
    action = Rescore(source=source.key, mean=mean, std=std, budget=view.epsilon)
    name = f"{view.name} from {_marked(source.checkpoint, source.batch_size)}"
    return replace(view.condition, name=name, perturbation=view.attack, action=action, distances=())


def _marked(source: Checkpoint, batch_size: int) -> str:
    """Return the name of a source, with the batch size at which its examples were made if its rows are coupled."""
    return f"{source.name} (batch size {batch_size})" if source.coupled else source.name


def _metric(suite: Suite) -> str:
    """Return the metric of the matrix, that of clean examples; refuse a task without one."""
    metric = TASKS[suite.task].metric
    if metric is None:
        raise UsageError(f"task {suite.task!r} has no metric of clean examples to measure a transfer with")
    return metric


def _matrix(
    suite: Suite, view: View, clean: Sequence[Condition], sources: Sequence[tuple[Checkpoint, Condition]]
) -> Suite:
    metric = _metric(suite)
    of_clean = [
        Column(key=f"clean/{metric}", label="clean", metric=metric, conditions=(condition.name,)) for condition in clean
    ]
    of_sources = [
        Column(
            key=f"from/{source.name}/{metric}",
            label=f"from {_marked(source, suite.batch_size_of(view.condition))}",
            metric=metric,
            conditions=(condition.name,),
        )
        for source, condition in sources
    ]
    return replace(
        suite,
        name=f"{suite.name}: transfer of {view.label}",
        conditions=(*clean, *(condition for _, condition in sources)),
        metrics=(metric,),
        columns=(*of_clean, *of_sources),
        audit=False,
    )


def _source_key(shard: Shard) -> str:
    declaration = shard.measurement.condition.action
    assert isinstance(declaration, Rescore)  # prepare_transfer plans no others
    return shard_key(declaration.source, shard.start, shard.stop)


def choose(suite: Suite, name: str) -> View:
    """Return the attack called ``name`` in a suite; the name of a sweep selects its largest budget.

    Budgets are compared as numbers, so that ``pgd@2/85`` is ``pgd@6/255``.

    Raises:
        UnknownNameError: the suite has no such condition.
        UsageError: the condition is not an attack.
    """
    views = {view.name: view for condition in suite.conditions for view in views_of(condition)}
    largest = {condition.name: views_of(condition)[-1] for condition in suite.conditions}
    named = views | largest
    by_value = {f"{view.condition.name}@{view.epsilon}": view for view in views.values() if view.epsilon is not None}
    found = named.get(name) or by_value.get(_with_reduced_budget(name))
    if found is None:
        raise UnknownNameError(f"condition of suite {suite.name!r}", name, named)
    if not found.attack.makes_inputs:
        attacks = [each.name for each in suite.conditions if each.perturbation.makes_inputs]
        raise UsageError(
            f"condition {name!r} of suite {suite.name!r} leaves images unchanged, so that nothing is transferred; "
            f"choose an attack: {', '.join(attacks) or 'this suite has none'}"
        )
    return found


def check_same_pixels(checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse models with different resize or crop; mean and std may differ.

    Raises:
        UsageError: two models resize or crop differently.
    """
    first, *others = checkpoints
    for other in others:
        if _pixels_of(other.preprocessing) != _pixels_of(first.preprocessing):
            raise UsageError(
                f"model {other.name!r} sees other pixels than {first.name!r} ({_shown(other)} against "
                f"{_shown(first)}); adversarial images are made after resize and crop, so that both "
                "must be the same; leave one out"
            )


def _with_reduced_budget(name: str) -> str:
    condition, at, budget = name.rpartition("@")
    try:
        return f"{condition}@{Fraction(budget)}" if at else name
    except (ValueError, ZeroDivisionError):
        return name


def _pixels_of(preprocessing: Declaration) -> Declaration:
    if not isinstance(preprocessing, ImagePreprocessing):
        return preprocessing
    return replace(preprocessing, mean=(), std=())


def _shown(checkpoint: Checkpoint) -> str:
    preprocessing = checkpoint.preprocessing
    if not isinstance(preprocessing, ImagePreprocessing):
        return preprocessing.kind
    sizes = [("resize", preprocessing.resize), ("crop", preprocessing.crop)]
    if preprocessing.longer_at_most is not None:
        sizes.append(("longer_at_most", preprocessing.longer_at_most))
    parts = [f"{name} {size}" if size is not None else f"no {name}" for name, size in sizes]
    return ", ".join([*parts, preprocessing.interpolation])
