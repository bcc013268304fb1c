"""Projections of tokens to queries, keys and values in the attention layers of a model, as matrices of each head."""

import torch
from torch import Tensor, nn

from robench.attention.projected import ProjectedAttention


def projecting_layers(module: nn.Module) -> list[ProjectedAttention]:
    """Return the attention layers that project tokens to keys and values, in the order of the module's parts."""
    return [each for each in module.modules() if isinstance(each, ProjectedAttention)]


def projections_of(layer: ProjectedAttention) -> Tensor:
    """Return the projections of each head, (P, H, D, C), in their order: queries, if apart from keys, keys, values."""
    parts = [layer.q, layer.kv] if layer.separate_queries else [layer.qkv]
    weight = torch.cat([part.weight for part in parts if part is not None])
    return weight.reshape(layer.num_projections, layer.num_heads, -1, weight.shape[-1])
