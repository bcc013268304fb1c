"""Audit of a model's robustness: all checks, on examples that it classifies correctly when clean."""

import time
from dataclasses import replace
from fractions import Fraction

from robench.core.flags import Flag
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
from robench.evaluation.probe import clean_correct, comparisons, indicators
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
    flags = audit(model, batch, dataset.identity, declaration.epsilon, seed=shard.measurement.seed)
    whole = replace(provenance(model.device, started, limit), versions=record.provenance.versions)
    return replace(record, flags=tuple(flags), provenance=whole)


def audit(
    model: Model, batch: Batch, dataset: DatasetIdentity, epsilon: Fraction, *, seed: int = 0, attention: bool = False
) -> list[Flag]:
    """Return every check of a model at a budget in l-infinity, in units of the inputs, on a batch of the dataset.

    The model's task has a verdict on each example, or examples of many answers (``tasks.base.ManyAnswers``). With
    ``attention``, attacks that know attention are compared with others.

    Raises:
        ContractError: the dataset or the model broke its contract.
    """
    domain_of(batch).rules.check_clean(batch.inputs, dataset.name)
    seeds = [example_seed(seed, dataset.fingerprint, Audit.kind, each) for each in batch.ids]
    prediction = Stream(purpose="prediction")
    of_prediction = [example_seed(seed, dataset.fingerprint, "prediction", each) for each in batch.ids]
    with arithmetic_for(model):
        batch = replace(batch, inputs=batch.inputs.to(model.device), targets=batch.targets.to(model.device))
        draws = ExampleDraws(seeds, model.device, [stream_seed(each, prediction) for each in of_prediction])
        batch_size = _rows_at_once(model, batch, draws)
        probe = clean_correct(model, batch, draws, epsilon, batch_size)
        if not len(probe):
            return [_nothing_to_attack(len(batch.ids))]
        # All rows of a pass: a model with batch statistics may not accept a single one.
        outputs = predict(model, probe.batch.inputs, probe.draws.prediction_seeds, batch_size)
        task_of(batch).rules.check_outputs(outputs, len(probe), "audited")
        flags = [*model_checks(probe), *indicators(probe), *comparisons(probe, outputs.shape[1])]
        flags += chosen_attacks(probe, flags)
        return [*flags, *attention_comparisons(probe)] if attention else flags


def _rows_at_once(model: Model, batch: Batch, draws: ExampleDraws) -> int:
    """Return the number of rows of a pass: fewer where outputs have many answers and are large."""
    if not isinstance(task_of(batch).rules, ManyAnswers):
        return BATCH_SIZE
    outputs = predict(model, batch.inputs[:1], draws.prediction_seeds[:1], 1)
    return min(BATCH_SIZE, max(1, MOST_VALUES // outputs.numel()))


def _nothing_to_attack(num_examples: int) -> Flag:
    return Flag(
        name="nothing to attack",
        source="robench",
        value=0.0,
        limit=0.0,
        is_raised=True,
        finding=f"the model is right about none of {num_examples} clean examples",
        advice="check its weights, its preprocessing and the order of its classes",
    )
