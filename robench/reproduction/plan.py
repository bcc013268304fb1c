"""Plan of a reproduction: the trainings that are missing, the measurements, and the hours of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from robench.core.checkpoint import HUB, Checkpoint, Weights
from robench.core.errors import UsageError
from robench.core.suite import Suite
from robench.papers.forecast import Forecast, Hours
from robench.reproduction.weights import Reproduced


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Training that makes a checkpoint of an entry, see ``Reproduced.trained``.

    Attributes:
        known_sha256: checksum of the weights that the shipped registry has of this seed; None if it has none.
        goes_first: whether other trainings start from its weights.
        hours: on the device of the forecast; None where they are unknown, or without a forecast.
    """

    checkpoint: Checkpoint
    known_sha256: str | None = None
    goes_first: bool = False
    hours: Hours | None = None

    @property
    def is_embedded(self) -> bool:
        """Return whether the data are embedded in a library, so that it is trained on the CPU."""
        return self.checkpoint.training is not None and self.checkpoint.training.is_embedded


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Measurement of one checkpoint under the conditions of a suite that numbers need, and these alone."""

    suite: Suite
    checkpoint: Checkpoint
    hours: Hours | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Trainings, in order, and measurements.

    Attributes:
        groups: keys of the trainings of the whole reproduction, ended ones included; trainings that start
            from the same weights, and the training of these, have the same.
        untrainable: entries that have neither weights nor a recipe, with what to do.
    """

    trainings: tuple[Training, ...]
    measurements: tuple[Measuring, ...]
    groups: tuple[str, ...]
    untrainable: Mapping[str, str] = field(default_factory=dict)

    def part(self, number: int, count: int) -> Plan:
        """Return the plan with one part of its trainings, numbered from 1, each with the one it starts from.

        Parts stay the same while trainings end, so that one which begins later, or again, trains nothing of another.

        Raises:
            UsageError: there is no such part.
        """
        if not 1 <= number <= count:
            raise UsageError(f"--part must be 1/{count} to {count}/{count}, got {number}/{count}")
        chosen = self.groups[number - 1 :: count]
        return replace(self, trainings=tuple(each for each in self.trainings if _group_of(each.checkpoint) in chosen))

    def check(self) -> None:
        """Refuse a plan with entries that can be neither trained nor measured. Raises UsageError: it has some."""
        if untrainable := self.untrainable.items():
            raise UsageError(
                *(f"{name} has no recipe and no weights. {advice}".strip() for name, advice in untrainable),
                "Give their weights in a registry file with 'of', or choose other rows with --rows.",
            )


def plan_of(
    wanted: Mapping[str, Mapping[str, set[str]]],
    suites: Mapping[str, Suite],
    checkpoints: Mapping[str, Checkpoint],
    reproduced: Reproduced,
    *,
    num_seeds: int | None = None,
    limit: int | None = None,
    forecast: Forecast | None = None,
) -> Plan:
    """Return the plan for the conditions that models need, by model and suite.

    ``checkpoints`` are those of all registries, the reproduced ones included. The authors' own weights count alone;
    else ``num_seeds`` training seeds of each model are wanted, by default those of the registry.
    """
    trainings: dict[str, Training] = {}
    measurements: list[Measuring] = []
    groups: dict[str, None] = {}
    untrainable: dict[str, str] = {}
    for name, conditions in wanted.items():
        entry = checkpoints[name]
        chosen = _with_weights(entry, checkpoints)
        if not any(each.weights.by == "authors" for each in chosen):
            if entry.training is None:
                if not chosen:
                    untrainable[name] = entry.weights.how_to_get
            else:
                chosen, made = _seeds(entry, chosen, checkpoints, reproduced, num_seeds)
                groups |= dict.fromkeys(map(_group_of, made))
                for each in (each for each in made if each in chosen):
                    trainings |= _initial(each, checkpoints, reproduced, forecast)
                    hours = None if forecast is None else forecast.training(each)
                    known = _registered(entry, each, checkpoints)
                    trainings[each.name] = Training(checkpoint=each, known_sha256=known, hours=hours)
        for suite, names in conditions.items():
            part = suites[suite].only(names)
            for each in chosen:
                hours = None if forecast is None else forecast.measuring(each, part.conditions, limit)
                measurements.append(Measuring(suite=part, checkpoint=each, hours=hours))
    return Plan(
        trainings=tuple(trainings.values()),
        measurements=tuple(measurements),
        groups=tuple(groups),
        untrainable=untrainable,
    )


def _with_weights(entry: Checkpoint, checkpoints: Mapping[str, Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints of an entry whose weights are there, those of the authors alone if there are any."""
    found = [each for each in checkpoints.values() if each.entry == entry.name and has_weights(each)]
    authors = [each for each in found if each.weights.by == "authors"]
    return authors[:1] or found


def has_weights(checkpoint: Checkpoint) -> bool:
    """Return whether the file of a checkpoint's weights exists, or can be downloaded."""
    uri = checkpoint.weights.uri
    return uri.startswith(HUB) or (checkpoint.folder / uri).is_file()


def _seeds(
    entry: Checkpoint,
    there: Sequence[Checkpoint],
    checkpoints: Mapping[str, Checkpoint],
    reproduced: Reproduced,
    num_seeds: int | None,
) -> tuple[list[Checkpoint], list[Checkpoint]]:
    """Return the checkpoints of the wanted seeds, and the ones that the reproduction makes, as they are before that."""
    assert entry.training is not None  # the caller has looked
    by_seed: dict[int, Checkpoint] = {}
    for each in there:
        by_seed.setdefault(each.training.seed if each.training else entry.training.seed, each)
    registered = [
        each.training.seed
        for each in checkpoints.values()
        if each.training is not None and (each.name == entry.name or each.seed_of == entry.name)
    ]
    wanted = list(dict.fromkeys([*registered, *by_seed]))
    if num_seeds is not None:
        further = (seed for seed in range(entry.training.seed, entry.training.seed + len(wanted) + num_seeds))
        wanted = list(dict.fromkeys([*wanted, *further]))[:num_seeds]
    chosen = [by_seed.get(seed) or reproduced.trained(entry, seed) for seed in wanted]
    made = [seed for seed in wanted if seed not in by_seed or by_seed[seed].registry == reproduced.registry]
    return chosen, [reproduced.trained(entry, seed) for seed in sorted(made)]


def _group_of(trained: Checkpoint) -> str:
    """Return a key of the trainings that one part does together: they start from weights which are trained first."""
    initial: Weights | None = getattr(trained.training, "initial_weights", None)
    is_there = initial is None or initial.uri.startswith(HUB) or Path(initial.uri).is_absolute()
    return trained.weights.uri if initial is None or is_there else initial.uri


def _registered(entry: Checkpoint, trained: Checkpoint, checkpoints: Mapping[str, Checkpoint]) -> str | None:
    """Return the checksum that the shipped registry has of the same training."""
    assert trained.training is not None  # it is to be trained
    same = [
        each
        for each in checkpoints.values()
        if (each.name == entry.name or each.seed_of == entry.name) and each.training == trained.training
    ]
    return same[0].weights.sha256 if same else None


def _initial(
    trained: Checkpoint, checkpoints: Mapping[str, Checkpoint], reproduced: Reproduced, forecast: Forecast | None
) -> Iterator[tuple[str, Training]]:
    """Yield the training of a model's initial weights, if they are of another entry and missing."""
    initial: Weights | None = getattr(trained.training, "initial_weights", None)
    if initial is None or (trained.folder / initial.uri).is_file():
        return
    for each in checkpoints.values():
        if each.weights.uri == initial.uri and each.training is not None:
            made = replace(reproduced.trained(each, each.training.seed), weights=Weights(uri=initial.uri, sha256=None))
            yield (
                made.name,
                Training(checkpoint=made, goes_first=True, hours=None if forecast is None else forecast.training(made)),
            )
