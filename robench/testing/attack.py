"""Contract of attacks, as scikit-learn's ``check_estimator`` is of estimators: ``check_attack(MyAttack(...))``."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import torch

from robench.attacks.base import Attack
from robench.core.protocols import Batch, Perturbed
from robench.domains import Domain, domain_of
from robench.domains.images import IMAGES
from robench.domains.series import SERIES
from robench.perturbations.draws import ExampleDraws
from robench.testing.expectations import DECLARATION_CHECKS, require, run_checks, subject_of
from robench.testing.models import (
    CountingModel,
    DrawingModel,
    LinearModel,
    batch_of,
    domain_for,
    drawing_batch,
    perturbed,
    rows_of,
)
from robench.testing.perturbations import PERTURBATION_CHECKS

__all__ = ["ATTACK_CHECKS", "DRAWING_CHECKS", "check_attack"]

NUM_DRAWING = 24
SOME_ROWS = ([0], [5], [11], [2, 3, 13, 19, 22])
# Signs are exact; lengths of gradients, their estimates, and distances to a boundary are rounded. Budgets of series are
# larger, and at a smooth maximum, as on a sphere, points are known to the square root of the loss's rounding alone.
SHIFT_ROUNDING = {IMAGES.name: 2e-6, SERIES.name: 1e-4}


def check_attack(declaration: Attack, domain: str | None = None) -> None:
    """Check that an attack fulfils all contracts of robench's own attacks.

    The attack is run on small models of 5 classes and images of (3, 4, 4) and (3, 4, 8) pixels, or time series (T, 3)
    of 1 to 32 steps, padded on the right, with values of mean 0 and deviation 1.

    Args:
        declaration: an instance with a strength of use, such as ``MyAttack(epsilon=Fraction(8, 255))``.
        domain: ``images`` or ``series``; by default the one whose axes the attack needs, images if it needs none.
    """
    subject = subject_of("attack", declaration, Attack)
    run_checks(subject, DECLARATION_CHECKS, declaration)
    checks = *PERTURBATION_CHECKS, *ATTACK_CHECKS, *DRAWING_CHECKS
    run_checks(subject, checks, declaration, domain_for(declaration, domain))


class Classes(LinearModel):
    """Linear model whose logits are 1 for its class and 0 for the others."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Return (B, classes)."""
        logits = LinearModel.outputs(self, inputs, seeds)
        return torch.nn.functional.one_hot(logits.argmax(1), logits.shape[1]).to(logits)


def sees_labels_alone_where_it_is_declared(declaration: Attack, domain: Domain = IMAGES) -> None:
    """Check that an attack that sees labels alone does the same with a model that gives classes in place of scores."""
    if not declaration.sees_labels_alone:
        return
    batch = batch_of(12, 7, domain)
    scores, classes = (perturbed(declaration, batch, model(domain=domain)) for model in (LinearModel, Classes))
    num_other = int((scores.inputs != classes.inputs).flatten(1).any(1).sum())
    require(
        num_other == 0,
        f"returns other points for {num_other} examples of a model with the same classes and other scores",
        "the same, since sees_labels_alone is declared: query by `problem.is_fooled` and `problem.are_fooled`",
    )


def is_never_weaker_than_doing_nothing(declaration: Attack, domain: Domain = IMAGES) -> None:
    """Check that a linear model with wrong and right predictions is right no more often than on clean inputs.

    Attacks that never query the model, such as noise, and those with labels predicted are exempt.
    """
    batch, model = batch_of(64, 3, domain), LinearModel(domain=domain)
    made = perturbed(declaration, batch, model)
    is_blind = made.num_queries is not None and not bool(made.num_queries.any())
    if is_blind or declaration.labels == "predicted":
        return
    clean, attacked = (
        int((model.outputs(each).argmax(1) == batch.targets).sum()) for each in (batch.inputs, made.inputs)
    )
    require(
        attacked <= clean,
        f"makes a linear model right about {attacked} of {len(batch.ids)} examples, up from {clean} clean ones",
        "an attack to move away from the labels, never toward them",
    )


def counts_the_passes_that_it_takes(declaration: Attack, domain: Domain = IMAGES) -> None:
    """Check that counted forward and backward passes of each example are those received by the model."""
    if declaration.backend != "robench":
        return
    batch = batch_of(4, 4, domain)
    for row in range(len(batch.ids)):
        model = CountingModel(domain)
        made = perturbed(declaration, rows_of(batch, [row]), model, seeds=[row], batch_size=1)
        assert made.num_queries is not None
        assert made.num_gradients is not None
        for name, counted, taken in (
            ("forward", int(made.num_queries.sum()), model.num_rows),
            ("backward", int(made.num_gradients.sum()), model.num_gradients),
        ):
            require(
                counted == taken,
                f"took {taken} {name} passes of the model and {counted} are counted",
                "all passes to be made by the problem (`evaluate`, `differentiate`, `sample`, `predict`)",
            )


def stops_early_where_it_is_declared(declaration: Attack, domain: Domain = IMAGES) -> None:
    """Check that an attack with early stopping leaves misclassified examples alone."""
    if not declaration.stops_at_success or declaration.is_minimum_norm:
        return
    batch, model = batch_of(16, 5, domain), LinearModel(domain=domain)
    wrong = model.outputs(batch.inputs).argmax(1) != batch.targets
    made = perturbed(declaration, batch, model)
    unmoved = (made.inputs == batch.inputs).flatten(1).all(1)
    require(
        bool(unmoved[wrong].all()),
        f"moves {int((~unmoved & wrong).sum())} examples that the model gets wrong without it",
        "them as they are, since stop is at_success",
    )
    num_gradients = 0 if made.num_gradients is None else int(made.num_gradients[wrong].sum())
    require(
        num_gradients == 0,
        f"takes {num_gradients} gradients of examples that the model gets wrong without it",
        "none, since stop is at_success",
    )


def a_constant_added_to_all_logits_changes_nothing(
    declaration: Attack, domain: Domain = IMAGES, *, rounding: float | None = None
) -> None:
    """Check that a constant that softmax ignores changes hardly any value; at most 1 % of the signs may flip."""
    batch = batch_of(domain=domain)
    plain = perturbed(declaration, batch).inputs
    shifted = perturbed(declaration, batch, LinearModel(constant=-20.0, domain=domain)).inputs
    same = float(
        torch.isclose(shifted, plain, rtol=0, atol=SHIFT_ROUNDING[domain.name] if rounding is None else rounding)
        .double()
        .mean()
    )
    require(
        same > 0.99,
        f"returns other values for {1 - same:.0%} of the values when 20 is taken from all logits",
        "the same, since the model's probabilities are the same",
    )


def an_example_of_a_drawing_model_is_the_same_alone(declaration: Attack, domain: Domain = IMAGES) -> None:
    """Check that with a model that draws random numbers, an example has the same bits alone and among others."""
    if declaration.batch_dependence:
        return
    batch = drawing_batch(NUM_DRAWING, domain)
    whole = of_drawing_model(declaration, batch, range(NUM_DRAWING))
    # The last example to leave has experienced everything that can change its draws.
    last = 0 if whole.num_queries is None else int(whole.num_queries.argmax())
    for rows in ([last], *SOME_ROWS):
        few = of_drawing_model(declaration, batch, rows)
        require_same_rows(few, whole, rows)


def every_pass_has_draws_of_its_own(declaration: Attack, domain: Domain = IMAGES) -> None:
    """Check that no pass reuses the draws of another one, and only predictions use those of the prediction."""
    if declaration.backend != "robench":
        return
    model, num_examples = DrawingModel(domain), 6
    # Large enough that the samples of a row, which form a pass, are evaluated together.
    of_drawing_model(declaration, drawing_batch(NUM_DRAWING, domain), range(num_examples), model, batch_size=1000)
    predictions = set(ExampleDraws(range(num_examples)).prediction_seeds)
    # Several points of one pass may share a draw on purpose, such as pairs of samples, and padding rows.
    shown = Counter(seed for seeds, is_prediction in model.passes if not is_prediction for seed in seeds)
    repeated = sum(count > 1 for count in shown.values())
    require(
        repeated == 0,
        f"shows the model {repeated} random draws in more than one pass",
        "an address for each pass: `problem.at(search=..., step=...)`, and `problem.within(...)` for parts",
    )
    stolen = len(shown.keys() & predictions)
    require(stolen == 0, f"attacks with {stolen} draws of the final prediction", "draws of its own")
    strange = [seeds for seeds, is_prediction in model.passes if is_prediction and not seeds <= predictions]
    require(not strange, "predicts with draws that are not the prediction's", "`problem.predict`")


ATTACK_CHECKS = (
    sees_labels_alone_where_it_is_declared,
    is_never_weaker_than_doing_nothing,
    counts_the_passes_that_it_takes,
    stops_early_where_it_is_declared,
    a_constant_added_to_all_logits_changes_nothing,
)
DRAWING_CHECKS = (an_example_of_a_drawing_model_is_the_same_alone, every_pass_has_draws_of_its_own)


def of_drawing_model(
    declaration: Attack,
    batch: Batch,
    rows: Sequence[int],
    model: DrawingModel | None = None,
    batch_size: int = NUM_DRAWING,
) -> Perturbed:
    """Return the result for some rows of a batch with a drawing model, each with its seed in the whole batch."""
    return perturbed(declaration, rows_of(batch, rows), model or DrawingModel(domain_of(batch)), list(rows), batch_size)


def require_same_rows(few: Perturbed, whole: Perturbed, rows: Sequence[int]) -> None:
    """Require that points, success and passes are the same to the bit."""
    expected = "every example to depend on itself and its own draws alone, to the bit"
    for name in ("inputs", *(field.name for field in dataclasses.fields(whole) if field.name != "inputs")):
        one, other = getattr(few, name), getattr(whole, name)
        if one is None and other is None:
            continue
        differ = [row for place, row in enumerate(rows) if not torch.equal(one[place], other[row])]
        require(not differ, f"gives examples {differ} other {name} alone than in a batch", expected)
