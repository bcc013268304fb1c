"""Audit of a model's robustness: all checks, on examples that it classifies correctly when clean."""

import time
from dataclasses import replace
from fractions import Fraction

from robench.core.flags import NOTHING_TO_ATTACK, Flag, Observations
from robench.core.protocols import AdversarialStore, Batch, Dataset, Model
from robench.core.records import Record
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.core.shard import DatasetIdentity, Shard
from robench.domains import domain_of
from robench.evaluation.actions import Audit
from robench.evaluation.arithmetic import arithmetic_for
from robench.evaluation.attention_audit import attention_comparisons
from robench.evaluation.chosen_attacks import chosen_attacks
from robench.evaluation.evaluate import evaluate, provenance
from robench.evaluation.model_checks import model_checks
from robench.evaluation.probe import Probe, clean_correct, comparisons, indicators
from robench.metrics.audits import judged
from robench.metrics.sanity import LEAST_COMPARED
from robench.perturbations.draws import ExampleDraws, predict
from robench.tasks import task_of
from robench.tasks.base import ManyAnswers

BATCH_SIZE = 100
# Numbers of the outputs of one pass: 1 GB of float32.
MOST_VALUES = 1 << 28


def audit_shard(
    shard: Shard, model: Model, dataset: Dataset, *, limit: int | None = None, kept: AdversarialStore | None = None
) -> Record:
    """Return the record of an audited shard: outcomes of its clean examples, and the flags of the model."""
    started = time.perf_counter()
    record = evaluate(shard, model, dataset, limit=limit)
    declaration = shard.measurement.condition.action
    assert isinstance(declaration, Audit)  # this function is its implementation
    batch = replace(dataset.batch(shard.start, shard.stop), task=shard.measurement.checkpoint.task)
    with arithmetic_for(model):
        probe = _probe(model, batch, dataset.identity, declaration.epsilon, shard.measurement.seed)
        seen = _observations(probe, len(batch.ids), compares=declaration.compares)
    whole = replace(provenance(model.device, started, limit), versions=record.provenance.versions)
    return replace(record, flags=tuple(judged(seen)), observations=tuple(seen), provenance=whole)


def audit(
    model: Model, batch: Batch, dataset: DatasetIdentity, epsilon: Fraction, *, seed: int = 0, attention: bool = False
) -> list[Flag]:
    """Return every check of a model at a budget in l-infinity, in units of the inputs, on a batch of the dataset.

    The model's task has a verdict on each example, or examples of many answers (``tasks.base.ManyAnswers``). With
    ``attention``, attacks that know attention are compared with others.

    Raises:
        ContractError: the dataset or the model broke its contract.
    """
    with arithmetic_for(model):
        probe = _probe(model, batch, dataset, epsilon, seed)
        flags = judged(_observations(probe, len(batch.ids)))
        return [*flags, *attention_comparisons(probe)] if attention and len(probe) else flags


def _probe(model: Model, batch: Batch, dataset: DatasetIdentity, epsilon: Fraction, seed: int) -> Probe:
    domain_of(batch).rules.check_clean(batch.inputs, dataset.name)
    seeds = [example_seed(seed, dataset.fingerprint, Audit.kind, each) for each in batch.ids]
    prediction = Stream(purpose="prediction")
    of_prediction = [example_seed(seed, dataset.fingerprint, "prediction", each) for each in batch.ids]
    batch = replace(batch, inputs=batch.inputs.to(model.device), targets=batch.targets.to(model.device))
    draws = ExampleDraws(seeds, model.device, [stream_seed(each, prediction) for each in of_prediction])
    return clean_correct(model, batch, draws, epsilon, _rows_at_once(model, batch, draws))


def _observations(probe: Probe, num_examples: int, *, compares: bool = True) -> list[Observations]:
    if not len(probe):
        return [Observations(check=NOTHING_TO_ATTACK, columns=((num_examples,),))]
    # All rows of a pass: a model with batch statistics may not accept a single one.
    outputs = predict(probe.model, probe.batch.inputs, probe.draws.prediction_seeds, probe.batch_size)
    task_of(probe.batch).rules.check_outputs(outputs, len(probe), "audited")
    seen = [*model_checks(probe), *indicators(probe), *comparisons(probe, outputs.shape[1], compares=compares)]
    return [*seen, *chosen_attacks(probe, judged(seen))]


def _rows_at_once(model: Model, batch: Batch, draws: ExampleDraws) -> int:
    """Return the number of rows of a pass: fewer of few examples, and where many answers make outputs large."""
    num_examples = len(batch.ids)
    if not isinstance(task_of(batch).rules, ManyAnswers):
        # Passes have four rows or more, unless the batch size is smaller.
        return BATCH_SIZE if num_examples >= LEAST_COMPARED else num_examples
    outputs = predict(model, batch.inputs[:1], draws.prediction_seeds[:1], 1)
    return min(BATCH_SIZE, max(1, MOST_VALUES // outputs.numel()))
