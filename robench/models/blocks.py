"""Blocks of a vision transformer: attention and MLP, each after a norm and beside a residual connection.

A block takes norms and MLP from timm's ``Block``, so that names in a state dict and initial weights are timm's; the
attention and what connects it to its input are declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.declarations.attentions import PlainResidual

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timm.models.vision_transformer import Block

    from robench.attention import ForwardState


class PlainBlock(nn.Module):
    """The usual residual connection: Y + f(Y), with f the attention; timm's block without scale and drop path."""

    def __init__(self, block: Block, attention: nn.Module) -> None:
        super().__init__()
        self.norm1 = block.norm1
        self.attn = attention
        self.norm2 = block.norm2
        self.mlp = block.mlp

    def forward(self, x_BNC: Tensor, first_BNC: Tensor, state: ForwardState) -> Tensor:
        """Return (B, N, C); ``first_BNC`` are the tokens that entered the first block."""
        mixed_BNC = self.connected(x_BNC, self.attn(self.norm1(x_BNC), state), first_BNC)
        output_BNC: Tensor = mixed_BNC + self.mlp(self.norm2(mixed_BNC))
        return output_BNC

    def connected(self, x_BNC: Tensor, branch_BNC: Tensor, first_BNC: Tensor) -> Tensor:
        """Return the input of the MLP's half of the block."""
        return x_BNC + branch_BNC


# A block for each residual connection, since their parameters are the block's own.
BLOCKS: Mapping[type, type[PlainBlock]] = {PlainResidual: PlainBlock}
