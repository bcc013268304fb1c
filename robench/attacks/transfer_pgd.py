"""Declaration of PGD for transfer: gradients that depend less on the attacked model, for examples that fool others."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.base import Count, Norm
from robench.attacks.pgd import Pgd
from robench.core.errors import ContractError
from robench.declarations.base import LARGEST, FieldProblem
from robench.domains.images import IMAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPgd(Pgd):
    """PGD with momentum for examples that fool other models. Dong et al. 2018, arXiv:1710.06081 (MI-FGSM).

    Attributes:
        momentum: weight of the last direction in the next one, as in ``pgd``; 1 as in the paper.
        input_diversity: probability that a pass sees an image resized and padded. Xie et al. 2019, arXiv:1803.06978.
        smallest_size: smallest size of a resized image, as a fraction of its side.
        translation: odd side of the Gaussian kernel that gradients are convolved with; 1 for none. Dong et al. 2019,
            arXiv:1904.02884.
        scale_copies: number m of copies x / 2^i, i < m, with averaged gradients. Lin et al. 2020, arXiv:1908.06281.
        backward: derivative of attention: ``plain``; with constant attention weights (``pna``, Wei et al. 2022,
            arXiv:2109.04176); or without extreme gradients of tokens (``tgr``, Zhang et al. 2023, arXiv:2303.15754).
        patch_out: number of random patches of the model's that show the perturbation in a step, and whose gradient is
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
    backward: Literal["plain", "pna", "tgr"] = "plain"
    patch_out: Annotated[int | None, Ge(1), Le(LARGEST)] = None

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all steps: a gradient for each copy."""
        num_gradients = self.num_restarts * self.num_steps * self.num_draws * self.scale_copies
        return num_gradients, num_gradients

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: of PGD, an even kernel, and what passes of other images do not tell."""
        problems = Pgd.contradictions(self)
        if self.translation % 2 == 0:
            problems.append(("translation", f"must be odd, got {self.translation}"))
        changes_pixels = self.input_diversity > 0 or self.scale_copies > 1
        if (changes_pixels or self.patch_out is not None) and self.returns != "last":
            wanted = "must be last with input_diversity, scale_copies or patch_out, whose passes see other images"
            problems.append(("returns", f"{wanted}, got {self.returns}"))
        if changes_pixels and self.space != "input":
            problems.append(("space", f"must be input with input_diversity or scale_copies, got {self.space}"))
        return problems

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model that ``backward`` or ``patch_out`` cannot be applied to."""
        Pgd.check_model(self, model, inputs)
        if self.backward != "plain":
            model.with_backward(self.backward)
        if self.patch_out is not None:
            rows, columns = model.patch_grid
            if not self.patch_out <= rows * columns:
                found = f"patches {rows} x {columns} (patch_embed.grid_size)"
                raise ContractError(
                    f"patch_out must be at most the number of the model's {found}, got {self.patch_out}"
                )
