"""Base class of attacks whose threat model limits where an input changes: patches, or few pixels."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.base import GradientAscent
from robench.attacks.gradients import PLAIN_GRADIENTS
from robench.core.budgets import Support
from robench.core.declared import DatasetDeclaration
from robench.declarations.base import LARGEST, FieldProblem, imported
from robench.declarations.supports import L0, Patches, SparsePatches
from robench.domains import DOMAINS
from robench.domains.images import IMAGES

INSTEAD = "take patches with place gradient or random, and no loss on attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionTerm:
    """Loss on what the attention layers of a pass show, added to the loss on outputs.

    Attributes:
        loss: ``products``: smooth maximum over layers and heads of the mean products of all queries with the keys of
            the patch (Lovisotto et al. 2022, arXiv:2203.13639); ``received``: attention that the patch receives, summed
            over layers, heads and queries (Fu et al. 2022, arXiv:2203.08392); ``distance``: squared distance of the
            weights from those of the clean input, summed likewise.
        weight: factor of this loss beside the other.
    """

    loss: Literal["products", "received", "distance"]
    weight: Annotated[float, Gt(0), Le(LARGEST)] = 1.0

    @property
    def of_patch(self) -> bool:
        """Return whether the loss is about the tokens of the patch."""
        return self.loss != "distance"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAscent(GradientAscent):
    """Gradient ascent that may be limited to patches or to few pixels, within the budget there.

    With ``epsilon: 1`` pixels in [0, 1] take any value.

    Attributes:
        patches: squares that may change; None for no such limit.
        l0: number of pixels or values that may change; with ``patches``, of those in the patches. None for no limit.
        place: where patches are: where the absolute gradient of the loss at the clean input has the largest sum
            (``gradient``); at the tokens that receive most attention in layer ``place_layer`` (``attention``); or drawn
            uniformly (``random``). Each further patch takes the best place that overlaps no earlier one.
        place_layer: layer that ``attention`` reads, from 0; None for a third of the depth, 4 of 12 as published.
    """

    patches: Patches | None = None
    l0: L0 | None = None
    place: Literal["gradient", "attention", "random"] = "gradient"
    place_layer: Annotated[int | None, Ge(0), Le(LARGEST)] = None

    @property
    def support(self) -> Support | None:
        """Return the places that may change; None for all."""
        if self.patches is not None and self.l0 is not None:
            return SparsePatches(patches=self.patches, l0=self.l0)
        return self.patches or self.l0

    @property
    def attention_term(self) -> AttentionTerm | None:
        """Return the loss on attention, if there is one."""
        return None

    @property
    def reads_layers(self) -> bool:
        """Return whether the attack reads what attention layers show."""
        is_placed_by_attention = self.patches is not None and self.place == "attention"
        return is_placed_by_attention or self.attention_term is not None

    @property
    def knows_mechanism(self) -> bool:
        """Return whether the attack reads attention, or follows gradients of a mechanism other than its own."""
        return self.reads_layers or self.gradients not in PLAIN_GRADIENTS

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: of supports with norms and backends, and of losses on a patch without one."""
        problems = GradientAscent.contradictions(self)
        if self.patches is None:
            if self.place != "gradient":
                problems.append(("place", f"must be left out without patches, got {self.place}"))
            if self.attention_term is not None and self.attention_term.of_patch:
                wanted = "must be given for a loss on the attention of a patch"
                problems.append(("patches", f"{wanted}, or that loss must be distance; got none"))
        if self.place_layer is not None and self.place != "attention":
            problems.append(("place_layer", f"must be left out with place {self.place}, got {self.place_layer}"))
        if self.support is not None and self.backend != "robench":
            problems.append(("backend", f"must be robench with patches or l0, got {self.backend}"))
        if self.l0 is not None and self.norm != "linf":
            problems.append(("norm", f"must be linf with l0, got {self.norm}"))
        return problems

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why inputs of a shape have no room for the patches or pixels; empty if they have."""
        named = {"patches": self.patches, "l0": self.l0}
        found = ((name, each.problem_with_shape(shape)) for name, each in named.items() if each is not None)
        return next((f"{name} {text}" for name, text in found if text), "")

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset: patches and pixels are those of images."""
        counts_pixels = self.l0 is not None and self.l0.unit == "pixels"
        named = "l0" if self.patches is None else "patches"
        if problems := pixel_problems(named, self.patches is not None or counts_pixels, dataset):
            return problems
        return GradientAscent.problems_on(self, dataset)

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model whose attention does not show what the attack reads.

        Raises:
            ContractError: it does not; the message says what does not, and what can be used.
        """
        GradientAscent.check_model(self, model, inputs)
        if self.reads_layers:
            imported("robench.attacks.attention_losses:check_layers")(self, model, inputs)


def pixel_problems(field: str, counts_pixels: bool, dataset: DatasetDeclaration) -> list[FieldProblem]:
    """Return why a field that may count pixels cannot be applied to a dataset: only images have pixels."""
    domain = DOMAINS.get(dataset.domain)
    if not counts_pixels or domain is None or domain.axes == IMAGES.axes:
        return []
    axes = ", ".join(domain.axes) or "unknown"
    advice = "; take l0 with unit values" if domain.is_real_valued else ""
    wanted = f"must be left out on {dataset.name}, whose inputs ({dataset.domain}) have the axes {axes}"
    return [(field, f"{wanted}, and not those of images{advice}")]
