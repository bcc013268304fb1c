"""Evaluation of one shard to a record."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import numpy as np
import torch

from robench.attacks.backends.installed import release_of
from robench.core.columns import Outcomes, Values
from robench.core.errors import ContractError
from robench.core.protocols import AdversarialStore, Batch, Dataset, Model, Perturbed
from robench.core.providers import releases_of
from robench.core.records import Provenance, Record
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.core.shard import Measurement, Shard, is_compiled
from robench.devices import to_device
from robench.domains import DOMAINS
from robench.evaluation.arithmetic import arithmetic_for, device_kind, library_versions
from robench.evaluation.certify import certified_columns
from robench.evaluation.coupling import LOGITS_LIMIT, answer, answer_difference
from robench.evaluation.keeping import Attacked, Source
from robench.models.loaded import LoadedModel
from robench.models.smoothed import SmoothedModel
from robench.perturbations.draws import ExampleDraws, predict
from robench.tasks import TASKS
from robench.tasks.base import ManyAnswers, Played, Scoring
from robench.tasks.consistency import contradiction_of

# Passes from which on a shard's first answer is compared with its last.
LONG = 20


def evaluate(
    shard: Shard,
    model: Model,
    dataset: Dataset,
    *,
    limit: int | None = None,
    kept: AdversarialStore | None = None,
    source: Source | None = None,
) -> Record:
    """Measure every example of ``shard`` as ``core.protocols.Measure`` says, without changing global state.

    ``source`` gives the scored inputs; None for the attacks.
    """
    started = time.perf_counter()
    # In smaller passes the seeds, and what an example is attacked with, stay the same.
    measurement = replace(shard.measurement, batch_size=shard.batch_size)
    attacked = Attacked(collects=kept is not None and measurement.condition.makes_inputs)
    outcomes: list[Outcomes] = []
    with arithmetic_for(model):
        before = None
        for start in range(shard.start, shard.stop, size := rows_at_once(shard)):
            batch = dataset.batch(start, min(start + size, shard.stop))
            if start == shard.start and source is None and _is_long(shard):
                before = _first_answer(measurement, batch, model)
            outcomes.append(_outcomes_of(measurement, batch, model, source or attacked))
        if before is not None:
            _require_same_answer(model, *before)
    condition, checkpoint = measurement.condition, measurement.checkpoint
    used = condition.perturbation, checkpoint.architecture, checkpoint.preprocessing, condition.dataset
    measured = provenance(model.device, started, limit, condition.perturbation.backend, used)
    measured = replace(measured, rows_per_pass=shard.rows_per_pass)
    record = Record(shard=shard.header, outcomes=Outcomes.joined(outcomes), provenance=measured)
    if problem := contradiction_of(TASKS[checkpoint.task], record.shard, record.outcomes):
        raise ContractError(f"the outcomes of {record.shard.title} contradict themselves: {problem}")
    if kept is not None and attacked.collects:
        # Before the record, so that no record exists without them when a run is killed.
        kept.put(attacked.examples(record.shard))
    return record


def _is_long(shard: Shard) -> bool:
    """Return whether a shard has so many passes that a few more rows cost nothing."""
    measurement = shard.measurement
    passes = measurement.condition.perturbation.most_passes
    num_batches = -(-(shard.stop - shard.start) // shard.batch_size)
    is_unknown = passes is None or TASKS[measurement.checkpoint.task].is_played
    is_long = is_unknown or num_batches * (measurement.checkpoint.passes_per_prediction + sum(passes or ())) >= LONG
    # Two rows would be compiled on their own.
    return is_long and not is_compiled(measurement.dtype)


def _first_answer(measurement: Measurement, batch: Batch, model: Model) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    """Return the first two inputs (B, ...) of a batch, their seeds, and the model's outputs (B, K)."""
    inputs = to_device(batch.inputs[:2], model.device)
    seeds = prediction_seeds(measurement, batch.ids[:2])[0]
    return inputs, seeds, answer(model, inputs, seeds)


def _require_same_answer(model: Model, inputs: torch.Tensor, seeds: list[int], before: torch.Tensor) -> None:
    """Refuse a model that has another answer now, and the same again at once: it draws no random numbers.

    Raises:
        ContractError: the message says by how much the answers differ.
    """
    now, again = (answer(model, inputs, seeds) for _ in range(2))
    found = answer_difference(before, now)
    if found > LOGITS_LIMIT >= answer_difference(now, again):
        raise ContractError(
            f"at the end of the shard the model answers the same examples otherwise than at its start, by up to "
            f"{found:.2%} of the range of outputs: it changes with its calls or with time, and no number of it is "
            "of one function"
        )


def answers(shard: Shard, inputs: torch.Tensor, model: Model, dataset: Dataset) -> torch.Tensor:
    """Return the model's own answers to inputs of a shard of one batch, as of the pass that scores the inputs.

    They are predictions (B,), or in a task whose rules are ``tasks.base.ManyAnswers`` (B, ...) where its targets count.
    """
    measurement = shard.measurement
    size, rules, condition = measurement.batch_size, TASKS[measurement.checkpoint.task].rules, measurement.condition
    batch = replace(dataset.batch(shard.start, shard.stop), inputs=inputs)
    whole = padded(batch, size, model.device)
    seeds, *_ = prediction_seeds(measurement, whole.ids)
    given = whole.targets if condition.perturbation.scores_clean_targets else None
    with arithmetic_for(model):
        if isinstance(model, SmoothedModel):
            found = certified_columns(model, whole.inputs, whole.targets, [seeds])["prediction"].array
            return torch.from_numpy(found[: len(batch.ids)])
        outputs = predict(model, whole.inputs, seeds, size, given)
    if isinstance(rules, ManyAnswers):
        return rules.own_labels(outputs, whole.targets)[: len(batch.ids)].cpu()
    scoring = Scoring(dataset=condition.dataset, keeps_scores=False)
    predictions = rules.columns([outputs], whole.targets, scoring)["prediction"].array
    return torch.from_numpy(predictions[: len(batch.ids)])


def provenance(
    device: torch.device, started: float, limit: int | None, backend: str = "robench", used: Sequence[object] = ()
) -> Provenance:
    """Return the provenance of a measurement that began at ``started`` (``time.perf_counter``).

    ``backend`` is the library whose attack was run, if any; ``used`` are declarations, whose distributions are
    included.
    """
    return Provenance(
        device=device_kind(device),
        versions=library_versions() | release_of(backend) | releases_of(*used),
        seconds=time.perf_counter() - started,
        finished_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        limit=limit,
    )


def rows_at_once(shard: Shard) -> int:
    """Return the number of examples per perturbation call; with early stopping, other examples fill the batches."""
    stops = shard.measurement.condition.perturbation.stops_at_success
    return shard.stop - shard.start if stops else shard.batch_size


def _outcomes_of(measurement: Measurement, batch: Batch, model: Model, source: Source) -> Outcomes:
    """Measure examples in anchored batches with exactly ``batch_size`` rows; budgets of an example are adjacent."""
    num_examples, condition = len(batch.ids), measurement.condition
    domain = DOMAINS[condition.dataset.domain].rules
    batch = padded(batch, num_examples + -num_examples % measurement.batch_size, model.device)
    batch = replace(batch, task=measurement.checkpoint.task, domain=condition.dataset.domain)
    domain.check_clean(batch.inputs, measurement.dataset.name)
    declaration = condition.perturbation
    seeds = prediction_seeds(measurement, batch.ids)
    draws = ExampleDraws(_seeds(measurement, declaration.drawn_as, batch.ids), model.device, seeds[0])
    by_budget = []
    for attack, perturbed in source(measurement, batch, model, draws):
        distances = domain.check_perturbed(perturbed.inputs, batch.inputs, attack, model)
        columns = _common_columns(batch, perturbed, distances) | _reading(model, perturbed.inputs)
        if attack is not declaration and attack.epsilon_name is not None:
            columns["epsilon"] = _texts((attack.epsilon_name,) * len(batch.ids))
        columns |= _scored(measurement, perturbed.inputs, batch, model, seeds)
        row_type = TASKS[measurement.checkpoint.task].outcome
        by_budget.append(Outcomes(row_type, columns, len(batch.ids)).take(slice(num_examples)))
    # From budget by budget to example by example.
    places = np.arange(len(by_budget) * num_examples).reshape(len(by_budget), num_examples).T.ravel()
    return Outcomes.joined(by_budget).take(places)


def _scored(
    measurement: Measurement, inputs: torch.Tensor, clean: Batch, model: Model, seeds: list[list[int]]
) -> dict[str, Values]:
    """Return the task's columns for inputs (B, ...), from successive passes of ``batch_size`` rows.

    The outputs of a pass are freed before the next: a language model's outputs for a whole shard would not fit into
    memory. A task that compares the clean outputs has a pass more for rows with changed inputs.
    """
    task, batch_size = TASKS[measurement.checkpoint.task], measurement.batch_size
    rules, condition = task.rules, measurement.condition
    scoring = Scoring(
        dataset=condition.dataset,
        keeps_scores=condition.perturbation.keeps_scores,
        scores_pieces=getattr(model, "scores_pieces", False),
    )

    def of_pass(rows: slice) -> Mapping[str, Values]:
        targets, unchanged = clean.targets[rows], clean.inputs[rows]
        if isinstance(model, SmoothedModel):
            return certified_columns(model, inputs[rows], targets, [each[rows] for each in seeds])
        if task.is_played:
            if len(seeds) != 1:
                raise ContractError(f"an episode is played once, got num_predictions {len(seeds)}; leave it out")
            played, own_seeds = cast("Played", rules), seeds[0][rows]
            disturbance = condition.perturbation.disturbance(own_seeds, condition.dataset)
            name = measurement.checkpoint.name
            return played.play(model, inputs[rows], targets, own_seeds, condition.dataset, disturbance, name)
        given = targets if condition.perturbation.scores_clean_targets else None
        outputs = [predict(model, inputs[rows], each[rows], batch_size, given) for each in seeds]
        clean_outputs = None
        if task.compares_clean and not torch.equal(inputs[rows], unchanged):
            clean_outputs = predict(model, unchanged, seeds[0][rows], batch_size)
        for each in outputs if clean_outputs is None else [*outputs, clean_outputs]:
            rules.check_outputs(each, batch_size, measurement.checkpoint.name)
        return rules.columns(outputs, targets, replace(scoring, inputs=inputs[rows], clean_outputs=clean_outputs))

    parts = [of_pass(slice(start, start + batch_size)) for start in range(0, len(inputs), batch_size)]
    return {name: Values.joined([part[name] for part in parts]) for name in parts[0]}


def _common_columns(batch: Batch, perturbed: Perturbed, distances: Mapping[str, torch.Tensor]) -> dict[str, Values]:
    """Return the columns common to all tasks; ``distances`` are the domain's."""
    counted = {
        "found": perturbed.found,
        "num_queries": perturbed.num_queries,
        "num_gradients": perturbed.num_gradients,
        "num_clamped": perturbed.num_clamped,
    }
    known = dict(distances) | {name: column for name, column in counted.items() if column is not None}
    columns = {name: _values(column) for name, column in known.items()}
    if "num_clamped" in columns:
        # Missing for 0, as in records from before the counts existed.
        array = columns["num_clamped"].array
        columns["num_clamped"] = Values(array, array == 0)
    return columns | {"example_id": _texts(batch.ids)}


def _reading(model: Model, inputs: torch.Tensor) -> dict[str, Values]:
    """Return the counts of words and tokens that a tokenizer loses or cuts; missing for 0."""
    counted = model.reading(inputs) if isinstance(model, LoadedModel) else {}
    return {
        name: Values(column.numpy(), column.numpy() == 0) for name, column in counted.items() if name != "num_pieces"
    }


def _values(column: torch.Tensor) -> Values:
    """Return numbers (B,), or lists of integers (B, K), as a column."""
    array = column.cpu().numpy()
    if array.ndim == 1:
        return Values(array)
    lists = np.empty(len(array), np.object_)
    lists[:] = list(array)
    return Values(lists)


def _texts(values: Sequence[str]) -> Values:
    return Values(np.array(values, np.dtypes.StringDType()))


def prediction_seeds(measurement: Measurement, ids: tuple[str, ...]) -> list[list[int]]:
    """Return one seed per example for each prediction; the first ones do not depend on the number of predictions."""
    seeds = _seeds(measurement, "prediction", ids)
    streams = [Stream(purpose="prediction", draw=draw) for draw in range(measurement.condition.num_predictions)]
    return [[stream_seed(seed, stream) for seed in seeds] for stream in streams]


def _seeds(measurement: Measurement, kind: str, ids: tuple[str, ...]) -> list[int]:
    fingerprint = measurement.dataset.fingerprint
    return [example_seed(measurement.seed, fingerprint, kind, example_id) for example_id in ids]


def padded(batch: Batch, num_rows: int, device: torch.device) -> Batch:
    """Return the batch on ``device``, its last row repeated up to ``num_rows``: small batches round differently."""
    missing = num_rows - len(batch.ids)
    rows = torch.arange(num_rows).clamp(max=len(batch.ids) - 1)
    return Batch(
        ids=batch.ids + batch.ids[-1:] * missing,
        inputs=to_device(batch.inputs[rows], device),
        targets=to_device(batch.targets[rows], device),
    )
