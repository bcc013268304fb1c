"""Layers of fully attentional networks: channel attention, the MLP inside it, and class attention without a query.

Axes: B batch, N tokens, C width of a token, H heads, D width of a head, F hidden width, G side of the grid of patches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from robench.attention.heads import attend, merge_heads, split_heads

if TYPE_CHECKING:
    from collections.abc import Callable


class ChannelProcessing(nn.Module):
    """Channel attention: an MLP's channels are gated by their similarity to salient tokens.

    Source: Zhou et al. 2022, arXiv:2204.12451, in the form of the authors' code (NVlabs/FAN, models/fan.py).
    In each head, with sigma the softmax over the tokens,

        gate_d = temperature * sigmoid(sum_n sigma(q)_nd mean_c sigma(x)_nc),  output = gate * norm(MLP(x))

    The MLP and the norm see all heads together. Nothing is dropped out.
    """

    def __init__(
        self, dim: int, num_heads: int, hidden_dim: int, grid_size: int, norm_layer: Callable[[int], nn.Module]
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.mlp_v = DepthwiseMlp(dim, hidden_dim, grid_size)
        self.norm_v = norm_layer(dim)
        self.q = nn.Linear(dim, dim)

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Return (B, N, C)."""
        (q_BHND,) = split_heads(self.q(x_BNC), self.num_heads, num_projections=1)
        (x_BHND,) = split_heads(x_BNC, self.num_heads, num_projections=1)
        (v_BHND,) = split_heads(self.norm_v(self.mlp_v(x_BNC)), self.num_heads, num_projections=1)
        salience_BHN1 = x_BHND.softmax(dim=-2).mean(dim=-1, keepdim=True)
        gate_BHD1 = (q_BHND.softmax(dim=-2).transpose(-2, -1) @ salience_BHN1).sigmoid() * self.temperature
        return merge_heads(gate_BHD1.transpose(-2, -1) * v_BHND)


class SymmetricClassAttention(nn.Module):
    """Class attention without a query projection: the query is the key of the class token.

    Source: the code of Teo & Nguyen 2024, arXiv:2406.13762 (rachtsy/FAN, models/fan_sym.py, whose parameter names it
    has); the paper says "symmetric attention" and does not mention class attention. With k and v the keys and values
    of all tokens, the class token first, in each head

        output = softmax(k_0 k^T / sqrt(D)) v

    and a projection over all heads. It is ``class_attention: symmetric`` of backbone ``fan``. The default, ``softmax``,
    is the class attention of CaiT (Touvron et al. 2021, arXiv:2103.17239), as in NVlabs/FAN: in place of k_0 it has a
    query, projected from the class token by ``q``. The two forms differ in nothing else; neither depends on how the
    other tokens are mixed (``attention``).
    """

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Return the class token (B, 1, C) for tokens of which it is the first."""
        (k_BHND,) = split_heads(self.k(x_BNC), self.num_heads, num_projections=1)
        (v_BHND,) = split_heads(self.v(x_BNC), self.num_heads, num_projections=1)
        output_B1C: Tensor = self.proj(merge_heads(attend(k_BHND[:, :, :1], k_BHND, v_BHND)))
        return output_B1C


class DepthwiseMlp(nn.Module):
    """MLP whose nonlinearity is two depthwise convolutions over the grid of patches, with a skip connection.

    Source: as ``ChannelProcessing``: with h = fc1(x), fc2(h + gamma * dwconv(h)); there is no other nonlinearity.
    """

    def __init__(self, dim: int, hidden_dim: int, grid_size: int) -> None:
        super().__init__()
        self.grid_size = grid_size
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.dwconv = DepthwiseConvolutions(hidden_dim)
        self.gamma = nn.Parameter(torch.ones(hidden_dim))
        self.fc2 = nn.Linear(hidden_dim, dim)

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Return (B, N, C); the N tokens are the grid's rows, one after the other."""
        hidden_BNF = self.fc1(x_BNC)
        hidden_BFGG = hidden_BNF.transpose(1, 2).unflatten(2, (self.grid_size, self.grid_size))
        convolved_BNF = self.dwconv(hidden_BFGG).flatten(2).transpose(1, 2)
        output_BNC: Tensor = self.fc2(hidden_BNF + self.gamma * convolved_BNF)
        return output_BNC


class DepthwiseConvolutions(nn.Module):
    """Block of 3x3, GELU, batch norm, 3x3, per channel; weights start normal with variance 2 / 9 (He et al. 2015)."""

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(num_channels, num_channels, kernel_size=3, padding=1, groups=num_channels)
        self.act = nn.GELU()
        self.bn = nn.BatchNorm2d(num_channels)
        self.conv2 = nn.Conv2d(num_channels, num_channels, kernel_size=3, padding=1, groups=num_channels)
        for convolution in (self.conv1, self.conv2):
            nn.init.normal_(convolution.weight, std=math.sqrt(2 / 9))
            nn.init.zeros_(convolution.get_parameter("bias"))

    def forward(self, x_BFGG: Tensor) -> Tensor:
        """Return (B, F, G, G)."""
        output_BFGG: Tensor = self.conv2(self.bn(self.act(self.conv1(x_BFGG))))
        return output_BFGG
