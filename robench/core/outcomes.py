"""Base class of the outcomes of single examples, the only input of metrics.

Each task declares a type of its own. From the model's outputs to the metric they are columns (``core.columns``), whose
fields these types declare.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of one example, with the fields common to all tasks.

    Attributes:
        linf: largest absolute change of any input value, in pixel units; None if the domain has no such distance.
        l2: Euclidean norm of the change; None likewise.
        l1: sum of absolute changes; None likewise.
        found: whether a minimum-norm attack found an adversarial example; None for other perturbations.
        num_queries, num_gradients: number of forward and backward passes that the perturbation used, such as lines of
            a text shown to a language model; None if not counted.
        num_clamped: number of input values that the attack returned outside [0, 1] by more than rounding, before
            clamping; None if there were none.
        num_changed: number of words of a text, or of positions of a sequence of tokens, that were changed; of pixels or
            values, where the threat model limits their places, or a search minimises l0; else None.
        changed_box: top, left, height and width of the smallest box around the changed pixels, where the threat model
            limits their places; else None.
        num_lost: number of words of a text that a model's tokenizer reads as unknown pieces, or without some of their
            signs; None if there are none.
        num_cut: number of tokens of a text beyond the context of a classifier; None if there are none.
        epsilon: in a sweep, the budget of this outcome, as an exact fraction such as ``4/255``.
    """

    example_id: str
    epsilon: str | None = None
    linf: float | None = None
    l2: float | None = None
    l1: float | None = None
    found: bool | None = None
    num_queries: int | None = None
    num_gradients: int | None = None
    num_clamped: int | None = None
    num_changed: int | None = None
    changed_box: tuple[int, ...] | None = None
    num_lost: int | None = None
    num_cut: int | None = None
