"""Adaptive softmax: likelihoods of words in clusters by frequency, so that rare words cost little.

Source: Grave et al. 2017, arXiv:1609.04309, as Transformer-XL has it (Dai et al. 2019, arXiv:1901.02860) with
``div_val`` 1 and the output tied to the embedding. The head has the words below the first cutoff and one entry a
cluster; a word of cluster i has the probability of the cluster's entry times its own among the cluster's words. Cluster
i is entry cutoffs[0] + i of the head, as in torch; Transformer-XL's code reads them from the end.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

if TYPE_CHECKING:
    from collections.abc import Sequence


class AdaptiveSoftmax(nn.Module):
    """Output of a language model, tied to its embedding.

    Only the target's likelihood is computed: the logits of a cluster are those of tokens whose target it has. Without
    cutoffs it is the softmax over all words.

    Args:
        vocabulary_size: number V of words, by descending frequency.
        dim: width C of tokens.
        cutoffs: vocabulary sizes at which clusters begin, ascending, all below V.
    """

    def __init__(self, vocabulary_size: int, dim: int, cutoffs: Sequence[int] = ()) -> None:
        super().__init__()
        self.ends = (*cutoffs, vocabulary_size)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.cluster_weight = nn.Parameter(torch.zeros(len(cutoffs), dim)) if cutoffs else None
        self.cluster_bias = nn.Parameter(torch.zeros(len(cutoffs))) if cutoffs else None

    def forward(self, hidden_NC: Tensor, targets_N: Tensor, embedding_VC: Tensor) -> Tensor:
        """Return the negative log-likelihoods (N,) of the targets (N,), int64 in [0, V)."""
        short = self.ends[0]
        weight, bias = embedding_VC[:short], self.bias[:short]
        if self.cluster_weight is None or self.cluster_bias is None:
            return cross_entropy(linear(hidden_NC, weight, bias), targets_N, reduction="none")
        weight, bias = torch.cat([weight, self.cluster_weight]), torch.cat([bias, self.cluster_bias])
        cluster_N = torch.bucketize(targets_N, torch.tensor(self.ends[:-1], device=targets_N.device), right=True)
        of_head_N = torch.where(cluster_N == 0, targets_N, short - 1 + cluster_N)
        losses_N = cross_entropy(linear(hidden_NC, weight, bias), of_head_N, reduction="none")
        for cluster, (start, stop) in enumerate(pairwise(self.ends), start=1):
            (places,) = (cluster_N == cluster).nonzero(as_tuple=True)
            if len(places):
                logits = linear(hidden_NC[places], embedding_VC[start:stop], self.bias[start:stop])
                own = cross_entropy(logits, targets_N[places] - start, reduction="none")
                losses_N = losses_N.index_add(0, places, own)
        return losses_N
