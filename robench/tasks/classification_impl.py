"""Rules of classification, and losses that attacks maximise.

Outputs are logits (B, classes), targets are classes (B,) as int64. Losses have one value per example; none depends on a
constant added to all logits. Axes: B batch, K classes.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from robench.core.columns import Outcomes, Values
from robench.core.errors import ContractError, DeclarationError, UsageError
from robench.devices import is_asynchronous
from robench.tasks.base import Loss, Scoring, resolved


@resolved
def cross_entropy_loss(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return -log softmax(z)_y, (B,), in nats; where it rounds to 0, its continuation along a tangent.

    With m = log sum_{i != y} exp z_i - z_y the cross-entropy is log(1 + exp m). It rounds to 0 from m = log r on, in
    float32 log 2^-24 = -16.6, and further down its gradient underflows. The tangent r (1 + m - log r) of that point
    increases wherever the cross-entropy does, and its gradient has the same direction.
    """
    values_B = cross_entropy(logits_BK, labels_B, reduction="none")
    is_lost_B = values_B <= 0
    if logits_BK.shape[1] < 2 or not (is_asynchronous(values_B) or bool(is_lost_B.any())):
        return values_B
    lead_B = _others(logits_BK, labels_B).logsumexp(1) - of_class(logits_BK, labels_B)
    resolution = torch.finfo(values_B.dtype).eps / 2
    return torch.where(is_lost_B, resolution * (1 + lead_B - log(resolution)), values_B)


@resolved
def margin_loss(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return max_{i != y} z_i - z_y, (B,): positive if the model is fooled. Carlini & Wagner 2017, f_6."""
    return largest_other(logits_BK, labels_B) - of_class(logits_BK, labels_B)


@resolved
def dlr_loss(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return the difference of logits ratio, (B,): -(z_y - max_{i != y} z_i) / (z_1st - z_3rd).

    Source: Croce & Hein 2020, arXiv:2003.01690, equation 6. The code's 1e-12 in the denominator is here too.

    Raises:
        DeclarationError: there are fewer than three classes.
    """
    _wants_classes(logits_BK, 3, "loss dlr")
    sorted_BK = logits_BK.sort(dim=1, descending=True, stable=True).values
    return margin_loss(logits_BK, labels_B) / (sorted_BK[:, 0] - sorted_BK[:, 2] + 1e-12)


@resolved
def targeted_dlr_loss(logits_BK: Tensor, labels_B: Tensor, targets_B: Tensor) -> Tensor:
    """Return the targeted ratio for the class t of each example, (B,): -(z_y - z_t) / (z_1st - (z_3rd + z_4th) / 2).

    Source: Croce & Hein 2020, equation 7.

    Raises:
        DeclarationError: there are fewer than four classes.
    """
    _wants_classes(logits_BK, 4, "targeted loss dlr")
    sorted_BK = logits_BK.sort(dim=1, descending=True, stable=True).values
    spread_B = sorted_BK[:, 0] - (sorted_BK[:, 2] + sorted_BK[:, 3]) / 2 + 1e-12
    return lead_loss(logits_BK, labels_B, targets_B) / spread_B


@resolved
def lead_loss(logits_BK: Tensor, labels_B: Tensor, targets_B: Tensor) -> Tensor:
    """Return z_t - z_y for the class t of each example, (B,): positive if t ranks above the label."""
    return of_class(logits_BK, targets_B) - of_class(logits_BK, labels_B)


def of_class(logits_BK: Tensor, classes_B: Tensor) -> Tensor:
    """Return each row's logit of its class, (B,)."""
    return logits_BK.gather(1, classes_B[:, None])[:, 0]


def largest_other(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return each row's largest logit among classes other than its label, (B,)."""
    return _others(logits_BK, labels_B).amax(dim=1)


def _others(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return the logits (B, K) with minus infinity at the labels."""
    return logits_BK.scatter(1, labels_B[:, None], -torch.inf)


def predicted(logits_BK: Tensor) -> Tensor:
    """Return each row's predicted class, (B,): the lowest of those with the highest logit, as in outcomes."""
    return (logits_BK == logits_BK.amax(dim=1, keepdim=True)).int().argmax(dim=1)


def _wants_classes(logits_BK: Tensor, wanted: int, subject: str) -> None:
    if logits_BK.shape[1] < wanted:
        raise DeclarationError(
            f"{subject} needs at least {wanted} classes, the model has {logits_BK.shape[1]}: take loss ce or margin"
        )


LOSSES: Mapping[str, Loss] = {"ce": cross_entropy_loss, "margin": margin_loss, "dlr": dlr_loss}

# Probability with which a model that has the expected accuracy is refused.
FALSE_REFUSAL = 1e-6


class ClassificationRules:
    """Rules of classification; see ``tasks.base.TaskRules``.

    The rank of a class is one plus the number of classes with a higher score, and of lower-numbered ones with the same
    score, so that ties are resolved identically on every device (as in ``numpy.argmax``).
    """

    losses: Mapping[str, Loss] = LOSSES
    objective: Loss = staticmethod(cross_entropy_loss)

    def outputs_of(self, output: object, num_rows: int) -> Tensor:
        """Extract the logits (B, classes) from a module's return value, which may be an object that contains them.

        Raises:
            ContractError: it contains no such logits.
        """
        # Models of the transformers library return an object that contains the logits.
        logits: object = getattr(output, "logits", output)
        if not isinstance(logits, torch.Tensor):
            raise ContractError(
                f"the model returned a {type(output).__name__}, wanted logits (batch, classes) or an object with"
                " .logits: say which part they are (`output` of backbone python), or wrap it so that it returns those"
                " alone"
            )
        if logits.ndim != 2 or len(logits) != num_rows or not logits.is_floating_point():
            raise ContractError(
                f"the model returned {tuple(logits.shape)} of {logits.dtype} for {num_rows} images,"
                f" wanted floating-point logits ({num_rows}, classes)"
            )
        return logits

    def check_outputs(self, outputs: Tensor, num_rows: int, model: str) -> None:
        """Refuse scores that are not (B, classes) finite numbers.

        Raises:
            ContractError: the scores are invalid; nothing is recorded.
        """
        if outputs.ndim != 2 or len(outputs) != num_rows:
            raise ContractError(f"model {model!r} returned shape {tuple(outputs.shape)}, wanted ({num_rows}, classes)")
        if not bool(torch.isfinite(outputs).all()):
            rows = int((~torch.isfinite(outputs)).any(1).sum())
            what = f"returned NaN or infinite logits for {rows} of {num_rows} inputs"
            if bool((outputs[~torch.isfinite(outputs)] == -torch.inf).all()):
                what += ", minus infinity alone: give classes without a chance a large negative logit, such as -10,000"
            raise ContractError(f"model {model!r} {what}")

    def columns(self, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> Mapping[str, Values]:
        """Return verdict, prediction and scores, those of the first prediction if there are several."""
        classes, has_right_class = scoring.dataset.classes, not scoring.dataset.is_out_of_distribution
        targets = targets.cpu()
        scores, *others = (_scores(each, classes) for each in outputs)
        log_proportions = torch.log_softmax(scores, dim=1)
        places, *other_places = (_places(each, targets, has_right_class) for each in (scores, *others))
        columns = {
            "target": targets,
            "prediction": torch.from_numpy(scores.numpy().argmax(1)),
            "correct_top1": places == 0,
        }
        if scoring.keeps_scores:
            columns |= {"correct_top5": places < 5, "confidence": log_proportions.amax(1).exp()}
        if scoring.keeps_scores and has_right_class:
            columns["loss_nats"] = -log_proportions.gather(1, targets[:, None])[:, 0]
            ones = torch.ones_like(log_proportions)
            columns["brier"] = log_proportions.exp().scatter_add(1, targets[:, None], -ones).square().sum(1)
        if others:
            columns["num_predictions"] = torch.full_like(targets, 1 + len(others))
            columns["num_correct"] = torch.stack([each == 0 for each in (places, *other_places)]).sum(0)
        return {name: Values(column.numpy()) for name, column in columns.items()}

    def check_fit(self, outputs: Tensor, num_classes: int | None, model: str, dataset: str, inputs: Tensor) -> None:
        """Refuse logits for a number of classes other than the dataset's.

        Raises:
            UsageError: the message says what was found and what to do.
        """
        if num_classes is not None and outputs.shape[1] != num_classes:
            raise UsageError(
                f"model {model!r} gives {outputs.shape[1]} classes, but dataset {dataset!r} has {num_classes}; "
                "choose a suite on the data that the model was trained for (num_classes in the dataset's entry tells "
                "of classes that no example has)"
            )

    def labels_of(self, outputs: Tensor) -> Any:
        """Return the predicted class (B,)."""
        return predicted(outputs)

    def is_fooled(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return (B,) whether a class other than the label ranks first."""
        return predicted(outputs) != labels


RULES = ClassificationRules()


def contradiction(outputs: Tensor, targets: Sequence[int], expected: float, dataset: str) -> str:
    """Return whether the model is right about far fewer examples than expected; see ``tasks.base``."""
    labels = torch.tensor([int(target) for target in targets], device=outputs.device)
    num_right, num_examples = int((predicted(outputs) == labels).sum()), len(targets)
    if chance_of_at_most(num_right, num_examples, expected) >= FALSE_REFUSAL:
        return ""
    return (
        f"is right about {num_right} of the first {num_examples} examples of {dataset!r}, where its registry entry "
        f"expects {expected:.1%}: check its weights, its preprocessing (mean, std, resize) and the order of its classes"
    )


def chance_of_at_most(num_right: int, num_examples: int, chance: float) -> float:
    """Return the probability of at most ``num_right`` correct answers, each correct with probability ``chance``.

    >>> round(chance_of_at_most(1, 3, 0.5), 3)
    0.5
    """
    from scipy.special import bdtr  # type: ignore[import-untyped]  # scipy has no types

    return float(bdtr(num_right, num_examples, chance)) if num_right >= 0 else 0.0


def gap(outputs: Tensor, targets: Tensor, recorded: Outcomes, scoring: Scoring) -> Tensor:
    """Return by how much logits (B, classes) would have to change to give the recorded decisions; see ``tasks.base``.

    The recorded class must reach the first place, and the true class must enter the first five or leave them.
    """
    scores, targets = _scores(outputs, scoring.dataset.classes), targets.cpu()
    has_right_class = not scoring.dataset.is_out_of_distribution
    predictions = torch.from_numpy(recorded.column("prediction"))
    possible = (predictions >= 0) & (predictions < scores.shape[1])
    possible &= torch.from_numpy(recorded.column("target")) == targets
    possible &= torch.from_numpy(recorded.column("correct_top1")) == ((predictions == targets) & has_right_class)
    # Of several predictions no single one decides.
    possible &= ~torch.from_numpy(recorded.known("num_predictions") | recorded.known("num_correct"))
    short = scores.amax(1) - scores.gather(1, predictions.clamp(0, scores.shape[1] - 1)[:, None])[:, 0]
    values = recorded.values("correct_top5")
    if values is not None:
        known, is_first = torch.from_numpy(recorded.known("correct_top5")), torch.from_numpy(values.array)
        above = _above_sixth(scores, targets, has_right_class)
        possible &= ~known | scoring.keeps_scores
        short = torch.where(known, torch.maximum(short, torch.where(is_first, -above, above)), short)
    return torch.where(possible, short.clamp(min=0), torch.inf)


def _above_sixth(scores: Tensor, targets: Tensor, has_right_class: bool) -> Tensor:
    """Return by how much the score of the true class exceeds what keeps it among the first five, (B,)."""
    if scores.shape[1] <= 5:
        is_first = has_right_class or scores.shape[1] < 5
        return torch.full((len(scores),), torch.inf if is_first else -torch.inf, dtype=scores.dtype)
    if not has_right_class:
        return torch.full((len(scores),), -torch.inf, dtype=scores.dtype)
    others = scores.scatter(1, targets[:, None], -torch.inf)
    return scores.gather(1, targets[:, None])[:, 0] - others.topk(5, 1).values[:, -1]


def _scores(logits: Tensor, classes: Sequence[int] | None) -> Tensor:
    """Return (B, classes) scores in float64 on the CPU, minus infinity for classes that may not be predicted."""
    scores = logits.double().cpu()
    if classes is None:
        return scores
    masked = torch.full_like(scores, -torch.inf)
    masked[:, list(classes)] = scores[:, list(classes)]
    return masked


def _places(scores: Tensor, targets: Tensor, has_right_class: bool) -> Tensor:
    """Return the number of classes ranked above the target, (B,); all of them if no class is right."""
    if not has_right_class:
        return torch.full_like(targets, scores.shape[1])
    of_target = scores.gather(1, targets[:, None])
    ties = (scores == of_target) & (torch.arange(scores.shape[1]) < targets[:, None])
    return ((scores > of_target) | ties).sum(1)
