"""Declaration of PGD for transfer: gradients that depend less on the attacked model, for examples that fool others."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.base import Count, Norm
from robench.attacks.pgd import Pgd
from robench.core.errors import ContractError
from robench.declarations.base import LARGEST, FieldProblem
from robench.domains.images import IMAGES

Backward = Literal["plain", "pna", "tgr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPgd(Pgd):
    """PGD with momentum for examples that fool other models. Dong et al. 2018, arXiv:1710.06081 (MI-FGSM).

    Attributes:
        momentum: weight of the last direction in the next one, as in ``pgd``; 1 as in the paper.
        input_diversity: probability with which a pass of an image sees it resized and padded. Xie et al. 2019,
            arXiv:1803.06978.
        smallest_size: smallest size of a resized image, as a fraction of its side.
        translation: odd side of the Gaussian kernel that gradients are convolved with; 1 for none. Dong et al. 2019,
            arXiv:1904.02884.
        scale_copies: number m of copies x / 2^i, i = 0..m-1, whose gradients are averaged. Lin et al. 2020,
            arXiv:1908.06281.
        backward: derivative of attention: ``plain``, or by a rule. ``pna``: attention weights are constants. Wei et al.
            2022, arXiv:2109.04176. ``tgr``: extreme gradients of tokens are left out. Zhang et al. 2023,
            arXiv:2303.15754.
        patch_out: number of random patches of the model that show the perturbation in a step, and whose gradient is
            kept (PatchOut, Wei et al. 2022); null for all.
    """

    kind: ClassVar[str] = "transfer-pgd"
    implementation: ClassVar[str] = "robench.attacks.transfer_pgd_impl:transfer_pgd"
    # It gives up strength against the attacked model.
    is_iterated: ClassVar[bool] = False
    version: ClassVar[int] = 1
    needed_axes: ClassVar[tuple[str, ...]] = IMAGES.axes
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    random_start: bool = False
    momentum: Annotated[float, Ge(0), Le(1)] = 1.0
    returns: Literal["best", "last", "published"] = "last"
    input_diversity: Annotated[float, Ge(0), Le(1)] = 0.0
    smallest_size: Annotated[float, Gt(0), Le(1)] = 0.9
    translation: Count = 1
    scale_copies: Annotated[int, Ge(1), Le(100)] = 1
    backward: Backward = "plain"
    patch_out: Annotated[int | None, Ge(1), Le(LARGEST)] = None

    @classmethod
    def completed(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return the fields, with steps of epsilon over their number, as in the literature, unless steps are given."""
        number = given.get("num_steps")
        if "step_size" in given or not isinstance(number, int) or number < 1:
            return Pgd.completed(given)
        return {"relative_step": Fraction(1, number), **given}

    @property
    def sees_others(self) -> bool:
        """Return whether passes see other images than the points."""
        return self.input_diversity > 0 or self.scale_copies > 1 or self.patch_out is not None

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all steps: a gradient for each copy."""
        num_gradients = self.num_restarts * self.num_steps * self.num_draws * self.scale_copies
        return num_gradients, num_gradients

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: of PGD, an even kernel, and what passes of other images cannot tell."""
        problems = Pgd.contradictions(self)
        if self.translation % 2 == 0:
            problems.append(("translation", f"must be odd, got {self.translation}"))
        if self.sees_others and self.returns != "last":
            wanted = "must be last with input_diversity, scale_copies or patch_out, whose passes see other images"
            problems.append(("returns", f"{wanted}, got {self.returns}"))
        if (self.input_diversity > 0 or self.scale_copies > 1) and self.space != "input":
            wanted = "must be input with input_diversity or scale_copies, which change pixels"
            problems.append(("space", f"{wanted}, got {self.space}"))
        return problems

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model that ``backward`` or ``patch_out`` cannot be applied to."""
        Pgd.check_model(self, model, inputs)
        follow = getattr(model, "with_backward", None)
        if self.backward != "plain":
            if follow is None:
                raise ContractError(f"a {type(model).__name__} follows no backward rule: leave out backward")
            follow(self.backward)
        if self.patch_out is not None:
            grid = getattr(model, "patch_grid", None)
            if grid is None:
                raise ContractError("the model has no grid of patches (patch_embed.grid_size): leave out patch_out")
            if self.patch_out > grid[0] * grid[1]:
                count = grid[0] * grid[1]
                raise ContractError(f"patch_out must be at most the model's {count} patches, got {self.patch_out}")
