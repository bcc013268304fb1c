"""Analyses that place attention on an image, patch by patch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from robench.analyses.base import AnalysisBase, Part, Statistic

_map = partial(Statistic, axes=("layer", "y", "x"), x="column of patches", y="row of patches", is_map=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMap(AnalysisBase):
    """Heat map: the class token's weights of the patches, the mean over heads, with 1 for the largest.

    Without a class token it is the mean over all patches' weights. Of signed weights it is their sizes.

    Source: Bilateral and Boost attention, arXiv:2506.10371, figure 5; Twicing Attention, arXiv:2503.00687, figures 2, 9
    and 10.
    """

    kind: ClassVar[str] = "attention-map"
    implementation: ClassVar[str] = "robench.analyses.maps_impl:attention_map"
    title: ClassVar[str] = "which patches the class token attends to"
    needs: ClassVar[tuple[Part, ...]] = ("weights",)
    needs_grid: ClassVar[bool] = True
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "attention": _map(meaning="attention, largest is 1"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionReceived(AnalysisBase):
    """Proportion of all tokens' attention that each patch gets, the mean over heads; of signed weights by their sizes.

    Source: close to the weights of keys in Han et al. 2023, arXiv:2210.05794, figure 2, but of any mechanism.
    """

    kind: ClassVar[str] = "attention-received"
    implementation: ClassVar[str] = "robench.analyses.maps_impl:attention_received"
    title: ClassVar[str] = "how much attention each patch gets"
    needs: ClassVar[tuple[Part, ...]] = ("weights",)
    needs_grid: ClassVar[bool] = True
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "received": _map(meaning="proportion of attention received"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout(AnalysisBase):
    """Attention rollout: the proportion of each patch in the class token, through all layers up to each one.

    Each layer is (A + I) / 2, with A the mean over heads of the weights' sizes, whose rows sum to one: half of a token
    comes by the residual connection. Without a class token it is the mean over all patches.

    Source: Abnar & Zuidema 2020, arXiv:2005.00928, equation 1 and section 3.
    """

    kind: ClassVar[str] = "rollout"
    implementation: ClassVar[str] = "robench.analyses.maps_impl:rollout"
    title: ClassVar[str] = "which patches reach the class token through all layers"
    needs: ClassVar[tuple[Part, ...]] = ("weights",)
    needs_grid: ClassVar[bool] = True
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "rollout": _map(meaning="proportion in the class token"),
    }
