"""What laws of single attention mechanisms are checked with."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def close(one: Tensor, other: Tensor, up_to: float = 1e-12) -> bool:
    return torch.allclose(one, other, rtol=0, atol=up_to)


class LargestTensor(TorchDispatchMode):
    """Notes how many elements the largest tensor has that any operation returns."""

    num_elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.num_elements = max([self.num_elements, *sizes])
        return result
