"""Attacks on tensors: registered attacks as functions of a module, inputs and labels."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, get_args, get_type_hints

import torch

from robench.attacks.base import Attack
from robench.core.checkpoint import Checkpoint
from robench.core.columns import Outcomes, Values
from robench.core.declared import PerturbationDeclaration, Preprocessing
from robench.core.errors import UsageError
from robench.core.protocols import Batch, Dataset, Draws, Model, Perturbed
from robench.core.shard import DatasetIdentity, Measurement, Shard
from robench.core.suite import Condition
from robench.datasets.base import DatasetBase, stand_in
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare.schema import parse_perturbation
from robench.evaluation.coupling import LOGITS_LIMIT, answer, answer_difference, successive_answers
from robench.evaluation.evaluate import evaluate
from robench.evaluation.keeping import Attacked
from robench.evaluation.model_checks import require_logits
from robench.models.in_memory import in_memory_checkpoint
from robench.models.in_memory_impl import model_of
from robench.models.loaded import LoadedModel
from robench.perturbations import PERTURBATIONS
from robench.runs.chosen_models import InMemoryModel, module_and_preprocessing
from robench.store.adversarial import ONE_BUDGET
from robench.tasks import DEFAULT_TASK, TASKS
from robench.tasks.base import Task
from robench.tasks.segmentation import IGNORED

NAME = "model"
# Nothing is stored, and no draw depends on weights.
NO_DIGEST = "0" * 64
# Clean inputs on which the model is checked before the attack.
MOST_CHECKED = 8
# Denominators that budgets are written with: 0.03137254901960784 is meant as 8/255.
_LARGEST_DENOMINATOR = 1020


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversarialBatch:
    """Result of an attack on a batch; all tensors are on the module's device.

    Attributes:
        inputs: (B, ...) adversarial examples, float32, checked against the attack's budget and the limits of inputs.
        success: (B,) whether the module misclassifies the adversarial example, booleans; of a clean input that was
            misclassified already, too. None of masks: an image is not fooled as a whole.
        right: (B,) proportion of labels that are still predicted, float64: of pixels that count; of a class 0 or 1.
        linf, l2, l1: (B,) distances from the clean inputs, float64.
        num_queries, num_gradients: (B,) forward and backward passes of each example, int64; None if not counted.
        zero_gradients: (B,) whether all gradients of the example were zero, booleans: the attack could not move it by
            them, and its survival says nothing. None of attacks without gradients, and of those of other libraries.
    """

    inputs: torch.Tensor
    success: torch.Tensor | None
    right: torch.Tensor
    linf: torch.Tensor
    l2: torch.Tensor
    l1: torch.Tensor
    num_queries: torch.Tensor | None
    num_gradients: torch.Tensor | None
    zero_gradients: torch.Tensor | None


class _Collected(Attacked):
    """Source that keeps the points of an attack, and which examples had gradients."""

    def __init__(self) -> None:
        super().__init__(collects=True)
        self._zeros: list[torch.Tensor] = []

    def __call__(
        self, measurement: Measurement, batch: Batch, model: Model, draws: Draws
    ) -> Iterator[tuple[PerturbationDeclaration, Perturbed]]:
        """Yield the attack with its result."""
        for attack, made in super().__call__(measurement, batch, model, draws):
            if made.num_zero_gradients is not None and made.num_gradients is not None:
                zeros = made.num_zero_gradients.cpu()
                is_zero = (zeros == made.num_gradients) & (zeros > 0)
                # A batch is padded with its last example.
                self._zeros.append(is_zero[: len(set(batch.ids))])
            yield attack, made

    def zero_gradients(self, device: torch.device) -> torch.Tensor | None:
        """Return whether all gradients of each example (B,) were zero, and warn of such examples."""
        if not self._zeros:
            return None
        zeros = torch.cat(self._zeros)
        if num_zero := int(zeros.sum()):
            warnings.warn(
                f"all gradients of {num_zero} of {len(zeros)} examples ({num_zero / len(zeros):.0%}) were zero, so "
                "that their survival says nothing of robustness: attack without gradients (square, spsa), or through a "
                "differentiable stand-in (BPDA)",
                stacklevel=3,
            )
        return zeros.to(device)


@dataclass(frozen=True, slots=True)
class TensorAttack:
    """Attack as a function of a module, inputs and labels; made by ``attack``.

    Attributes:
        declaration: the attack with its strength, as in a suite.
    """

    declaration: Attack

    def __call__(
        self,
        model: InMemoryModel | LoadedModel,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        *,
        ids: Sequence[str] | None = None,
        seed: int = 0,
        batch_size: int | None = None,
        dataset: Dataset | None = None,
    ) -> AdversarialBatch:
        """Return adversarial examples for a batch, on the module's device.

        A copy of the module is attacked, in evaluation mode; the module itself stays as it is. Random numbers depend on
        ``seed``, ``dataset`` and each example's id alone: with a suite's seed and batch size, its dataset and the ids
        of the examples, the result is that of ``robench.run`` to the bit.

        Args:
            model: module from inputs to logits (B, K), or (B, K, H, W) for masks; a tuple of it and its preprocessing,
                as for ``robench.run``; or a model of the registry, as ``robench.load_checkpoint`` returns it.
            inputs: (B, C, H, W) images in [0, 1], or inputs of the domain that the preprocessing names; float.
            labels: (B,) classes, or masks (B, H, W) of a class for each pixel, -1 where it does not count; integers.
            ids: one text an example; its position by default.
            seed: root of all random numbers.
            batch_size: number of examples per forward pass; all by default.
            dataset: dataset with these ids, as ``robench.load_dataset`` returns it.

        Raises:
            UsageError: the model is not a module, its outputs are not logits, the attack is not for such inputs or so
                few classes, or sizes, types and labels do not fit together.
            ContractError: inputs are outside their limits, or the module breaks its contract.
        """
        names = tuple(map(str, range(len(inputs)))) if ids is None else tuple(ids)
        _check(inputs, labels, names, batch_size)
        task = _task_of(labels)
        loaded = model if isinstance(model, LoadedModel) else _loaded(model, inputs.device, task)
        declared = _declared(self.declaration, loaded, inputs, labels, task)
        fingerprint = "" if dataset is None else dataset.identity.fingerprint
        data = _Tensors(names, inputs.detach(), labels, fingerprint)
        measurement = Measurement(
            checkpoint=_checkpoint(NoPreprocessing(inputs=loaded.domain.name), task),
            condition=Condition(name=self.declaration.kind, dataset=declared, perturbation=self.declaration),
            weights_digest=NO_DIGEST,
            dataset=data.identity,
            seed=seed,
            batch_size=batch_size or len(names),
        )
        shown = data.batch(0, 2).inputs.to(loaded.device)
        before = answer(loaded, shown, range(len(shown)))
        made = _Collected()
        shard = Shard(measurement=measurement, start=0, stop=len(names))
        outcomes = evaluate(shard, loaded, data, source=made).outcomes
        _warn_of_memory(loaded, shown, before)
        points = torch.from_numpy(made.examples(shard.header).points[ONE_BUDGET])
        return _result(points, outcomes, task, loaded.device, made.zero_gradients(loaded.device))


def _warn_of_memory(model: LoadedModel, inputs: torch.Tensor, before: torch.Tensor) -> None:
    """Warn of a model with other answers to inputs (B, ...) after the attack than before."""
    found = max(answer_difference(before, each) for each in successive_answers(model, inputs, range(len(inputs))))
    if found > LOGITS_LIMIT:
        warnings.warn(
            f"after the attack the same inputs got another answer than before, by up to {found:.2%} of the range of "
            "outputs: the model remembers earlier calls, or draws random numbers that are not torch's or from its "
            "seeds (takes_seeds), so that the result is of no fixed function",
            stacklevel=3,
        )


def _result(
    points: torch.Tensor, outcomes: Outcomes, task: Task, device: torch.device, zeros: torch.Tensor | None
) -> AdversarialBatch:
    columns = ("linf", "l2", "l1", "num_queries", "num_gradients")
    numbers = {name: _tensor(outcomes.values(name), device) for name in columns}
    assert task.right is not None  # those of masks and of classes
    right = torch.from_numpy(task.right(outcomes).copy()).to(device)
    success = None if task.verdict is None else ~right
    return AdversarialBatch(
        inputs=points.to(device), success=success, right=right.double(), zero_gradients=zeros, **numbers
    )


def attack(kind: str | Attack, **fields: object) -> TensorAttack:
    """Return a registered attack as a function of a module, inputs and labels.

    ``kind`` is a name of ``robench list attacks``, and ``fields`` are those of a suite's perturbation; a step of
    ``pgd`` is a quarter of epsilon unless it is given. An attack that is declared already is taken as it is.

    Raises:
        DeclarationError: all problems of the fields.
        UsageError: the perturbation is not an attack, such as a corruption or a sweep.

    >>> print(attack("pgd", epsilon=8 / 255, num_steps=20).declaration.epsilon)
    8/255
    """
    if isinstance(kind, Attack):
        if fields:
            raise UsageError(f"fields are given beside a declared attack: {', '.join(fields)}; leave them out")
        return TensorAttack(kind)
    declaration = parse_perturbation(_completed({"kind": kind, **fields}), "attack")
    if not isinstance(declaration, Attack):
        raise UsageError(f"{kind} is not an attack on real-valued inputs; 'robench list attacks' names those")
    return TensorAttack(declaration)


class _Tensors:
    """Dataset of examples in memory, in the given order."""

    def __init__(self, ids: tuple[str, ...], inputs: torch.Tensor, labels: torch.Tensor, fingerprint: str) -> None:
        self.identity = DatasetIdentity(name="tensors", fingerprint=fingerprint, num_examples=len(ids))
        self._batch = Batch(ids=ids, inputs=inputs.float(), targets=labels.long())

    def __len__(self) -> int:
        return len(self._batch.ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        target = self._batch.targets[index]
        return self._batch.inputs[index], target if target.ndim else int(target)

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop)."""
        rows, whole = slice(start, stop), self._batch
        return Batch(ids=whole.ids[rows], inputs=whole.inputs[rows], targets=whole.targets[rows])


def _task_of(labels: torch.Tensor) -> Task:
    """Return the task of labels: that of masks has a label for each pixel."""
    return (
        next(each for each in TASKS.values() if each.answers_as == "mask") if labels.ndim > 1 else TASKS[DEFAULT_TASK]
    )


def _checkpoint(preprocessing: Preprocessing, task: Task) -> Checkpoint:
    return in_memory_checkpoint(NAME, NO_DIGEST, preprocessing, Path.cwd(), task.name)


def _loaded(model: object, otherwise: torch.device, task: Task) -> LoadedModel:
    """Return a copy of a module as a frozen model, on the module's device or on that of inputs if it has no tensors."""
    module, preprocessing = module_and_preprocessing(NAME, model, None)
    device = next((each.device for each in chain(module.parameters(), module.buffers())), otherwise)
    return model_of(_checkpoint(preprocessing, task), module, device)


def _declared(
    attack: Attack, model: LoadedModel, inputs: torch.Tensor, labels: torch.Tensor, task: Task
) -> DatasetBase:
    """Return the declaration of the examples, whose classes are those of the model.

    Raises:
        UsageError: a label is not one of them, the outputs are not logits, or the attack cannot be applied to such
            examples.
    """
    lowest_allowed = 0 if task.answers_as == "label" else IGNORED
    shown = inputs[:MOST_CHECKED].float().to(model.device)
    with torch.no_grad():
        outputs = model.outputs(shown, range(len(shown)))
    if task.is_audited:
        require_logits([outputs], NAME)
    num_classes = outputs.shape[1]
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < lowest_allowed or highest >= num_classes:
        found = lowest if lowest < lowest_allowed else highest
        allowed = f"from {lowest_allowed} to {num_classes - 1}"
        raise UsageError(f"labels must be {allowed}, as the model has {num_classes} classes, got {found}")
    declared = replace(stand_in(task.name, model.domain.name), name="tensors", num_classes=num_classes)
    if problems := attack.problems_on(declared):
        raise UsageError("; ".join(f"{field or attack.kind} {message}" for field, message in problems))
    if problem := attack.problem_with_shape(tuple(inputs.shape[1:])):
        raise UsageError(f"{attack.kind}: {problem}")
    attack.check_model(model, shown)
    return declared


def _check(inputs: torch.Tensor, labels: torch.Tensor, ids: tuple[str, ...], batch_size: int | None) -> None:
    """Refuse arguments of other types or sizes than expected."""
    for name, tensor, wanted in (("inputs", inputs, "floating-point"), ("labels", labels, "integer")):
        if not isinstance(tensor, torch.Tensor):
            raise UsageError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
        is_float = tensor.is_floating_point()
        if is_float != (wanted == "floating-point") or tensor.dtype == torch.bool:
            raise UsageError(f"{name} must be a tensor of {wanted} numbers, got {tensor.dtype}")
    if not len(inputs) or labels.shape[:1] != inputs.shape[:1] or labels.ndim not in {1, 3} or len(ids) != len(inputs):
        sizes = f"inputs {tuple(inputs.shape)}, labels {tuple(labels.shape)} and {len(ids)} ids"
        wanted = "inputs (B, ...), labels (B,) or (B, H, W) and ids"
        raise UsageError(f"{wanted} must be of the same examples, got {sizes}")
    if len(set(ids)) != len(ids):
        raise UsageError("ids must be distinct: the random numbers of an example depend on its id")
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, got {batch_size}")


def _completed(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields of an attack and of its members, with exact budgets and usual values of missing ones."""
    kind = given.get("kind")
    declared = PERTURBATIONS.get(kind) if isinstance(kind, str) else None
    if not isinstance(declared, type) or not issubclass(declared, Attack):
        return given
    hints = get_type_hints(declared)
    is_exact = {name for name, hint in hints.items() if Fraction in (hint, *get_args(hint))}
    spelled = {name: _spelled(value) if name in is_exact else value for name, value in given.items()}
    members = spelled.get("members")
    if isinstance(members, list | tuple):
        spelled["members"] = [_completed(each) if isinstance(each, Mapping) else each for each in members]
    return declared.completed(spelled)


def _spelled(value: object) -> object:
    """Return a float as the fraction with a small denominator that it is the nearest number to, if there is one."""
    if not isinstance(value, float) or not isfinite(value):
        return value
    fraction = Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)
    return fraction if float(fraction) == value else value


def _tensor(values: Values | None, device: torch.device) -> Any:
    return None if values is None else torch.from_numpy(values.array.copy()).to(device)
