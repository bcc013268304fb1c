"""Primal-Attention: asymmetric kernel SVD of queries and keys in its primal form, without the kernel matrix.

Source: Chen, Tao, Tonin & Suykens 2023, arXiv:2305.19798, algorithm 1 of the supplement. A head with s directions has

    e_i = (F^T W_e)^T phi(q_i),  r_i = (F^T W_r)^T phi(k_i),  o_i = W_o [e_i; r_i],  phi(x) = x / |x|

F are n = min(s rank_multiplier, N) of the head's tokens as they enter the layer, not projected; where not
``data_dependent``, F is the identity. There are neither values nor a softmax: if W_e is sum_j F phi(k_j) h_j^T, then
e_i = sum_j K_ij h_j with the kernel K_ij = <F phi(q_i), F phi(k_j)>, so that the h_j replace values (remark 3.3).
Weights: ``qk`` is [2C, C], order q, k, with bias; ``we`` and ``wr`` [H, n, s] (data-independent: [H, D, s]); ``Lambda``
[H, s]; ``concate_weight``, which is W_o with a bias, [D, 2s], shared by the heads; ``proj``.

The KSVD loss J is zero where W_e and W_r solve the SVD of K (lemma 4.2). It is to be added to the task's, times eta
(0.05 on ImageNet); no output depends on Lambda. Averaged over the heads, for the two values of ``formula``:

    paper     J = sum_i (e_i^T Lambda e_i + r_i^T Lambda r_i) / 2 - tr(W_e^T W_r)
    released  J^2 with J = mean_i (|Lambda e_i|^2 + |Lambda r_i|^2) / 2 - tr(W_e^T W_r)

The printed J has no lower bound, and training may follow it without end (docs/cifar10.md). The authors' code
(PrimalAttention_CV) averages over the batch too before it squares; here each example's own J is squared, so that no
example's loss depends on its neighbours. The supplement treats a single head, so has no average over heads. There
Lambda is positive; as in the code, this is not enforced.

"Uniformly sampled" tokens are evenly spaced ones, as in the code: token floor(i (N - 1) / (n - 1)) for i = 0..n-1. The
code rounds this in float32 and is occasionally one token off, but never for 197 tokens and a rank_multiplier of 10. If
it uses all tokens it refuses inputs of another length; here n of them are selected by the same rule. A vector of length
zero has no direction: as in the code it is divided by 1e-12, and gives zero.

Gradients ``within_kernel`` and ``outside_kernel``, of data-dependent weights: those by a head's tokens in F and by its
phi(q) and phi(k) are cut, over its tokens, to the kernel of the map from tokens to [F^T W_e, F^T W_r], whose directions
leave the projection weights as they are, or to the rest.

Causal form: the scores of each token are of the means of the queries and keys up to it.

Source: Chen, Tao, Tonin & Suykens 2023, arXiv:2305.19798, listing 1 of the supplement (Causal Primal-Attention): before
the feature map of ``primal``, queries and keys are replaced by cumulative means,

    e_i = W_e^T phi(mean_{j <= i} q_j),  r_i = W_r^T phi(mean_{j <= i} k_j)

with projection weights that are parameters (``data_dependent: false``). The supplement's text has data-dependent ones
for WikiText-103; those mix tokens of the whole text, later ones too, and are refused here. The KSVD loss is that of
``primal``, of these scores.

Cost: a product with an N x N matrix for queries and one for keys, where softmax attention has two such products and a
softmax.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from robench.attention.geometry import Geometry
from robench.attention.gradients import KERNEL_MODES, split_by_kernel
from robench.attention.heads import merge_heads, running_mean, split_heads
from robench.attention.primal import Primal
from robench.attention.seen import Seen
from robench.attention.state import ForwardState, by_length


class PrimalAttention(nn.Module):
    """Primal-Attention over tokens (B, N, C) -> (B, N, C); S are the directions, M the rows of ``we`` and ``wr``."""

    mixes_by_length = True
    gradient_mode = "own"

    def __init__(self, declaration: Primal, geometry: Geometry) -> None:
        super().__init__()
        self.formula = declaration.formula
        self.data_dependent = declaration.data_dependent
        self.gradient_modes = KERNEL_MODES if self.data_dependent else ()
        self.num_heads = geometry.num_heads
        self.is_causal = geometry.is_causal
        num_directions = declaration.num_directions
        num_sampled = min(geometry.num_tokens, num_directions * declaration.rank_multiplier)
        num_rows = num_sampled if self.data_dependent else geometry.head_dim
        self.qk = nn.Linear(geometry.dim, 2 * geometry.dim)
        self.we = nn.Parameter(nn.init.orthogonal_(torch.empty(geometry.num_heads, num_rows, num_directions)))
        self.wr = nn.Parameter(nn.init.orthogonal_(torch.empty(geometry.num_heads, num_rows, num_directions)))
        self.Lambda = nn.Parameter(torch.rand(geometry.num_heads, num_directions))
        self.concate_weight = nn.Linear(2 * num_directions, geometry.head_dim)
        self.proj = nn.Linear(geometry.dim, geometry.dim)

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C); the KSVD loss is added to the losses of the state if requested there."""
        q_BHND, k_BHND = self.queries_and_keys(x_BNC)
        if state is not None and state.shown is not None and self.data_dependent:
            state.shown.heads = (q_BHND, k_BHND, self.tokens_of_heads(x_BNC))
        mixed_BNC: Tensor = self.proj(merge_heads(self.mix(x_BNC, q_BHND, k_BHND, state)))
        return mixed_BNC

    def seen(self, x_BNC: Tensor, state: ForwardState | None = None) -> Seen:
        """Return queries, keys and heads, and with data-dependent weights those of W_e W_o in the place of values."""
        q_BHND, k_BHND = self.queries_and_keys(x_BNC)
        heads_BHND = self.mix(x_BNC, q_BHND, k_BHND, None)
        if not self.data_dependent:
            return Seen(heads_BHND=heads_BHND, queries_BHND=q_BHND, keys_BHMD=k_BHND)
        r_BHNS = normalize(k_BHND, dim=-1) @ self.projection(self.wr, x_BNC)
        of_e_DS, of_r_DS = self.concate_weight.weight.chunk(2, dim=-1)
        values_HND = self.sampled(x_BNC.shape[1]).to(x_BNC).T @ (self.we @ of_e_DS.T)
        return Seen(
            heads_BHND=heads_BHND,
            queries_BHND=q_BHND,
            keys_BHMD=k_BHND,
            values_BHMD=values_HND.expand_as(q_BHND),
            weights_BHNM=self.weights((q_BHND, k_BHND, self.tokens_of_heads(x_BNC)), None),
            rest_BHND=r_BHNS @ of_r_DS.T + self.concate_weight.bias,
        )

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return <phi(q_i), x_j>, (B, H, N, N), of queries, keys and tokens; zero where token j is not sampled."""
        return normalize(heads[0], dim=-1) @ heads[2].mT * self.sampled(heads[2].shape[-2]).any(dim=0)

    def sampled(self, num_tokens: int) -> Tensor:
        """Return the tokens that the rows of ``we`` belong to, (M, N) booleans with one true value in each row."""
        places_M = evenly_spaced(self.we.shape[1], num_tokens, self.we.device)
        return places_M.unsqueeze(-1) == torch.arange(num_tokens, device=places_M.device)

    def tokens_of_heads(self, x_BNC: Tensor) -> Tensor:
        """Return each head's part of the tokens as they enter the layer, (B, H, N, D)."""
        return split_heads(x_BNC, self.num_heads, num_projections=1)[0]

    def mix(self, x_BNC: Tensor, q_BHND: Tensor, k_BHND: Tensor, state: ForwardState | None) -> Tensor:
        """Return the output of each head, (B, H, N, D), and add the KSVD loss to the state's if requested there."""
        tensors = (x_BNC, normalize(q_BHND, dim=-1), normalize(k_BHND, dim=-1))
        mixed_BHND: Tensor = self.concate_weight(by_length(self.scores, tensors, state))
        return mixed_BHND

    def scores(self, tensors: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return [e; r], (B, H, N, 2S), from tokens (B, N, C) and directions of queries and keys, (B, H, N, D)."""
        x_BNC, q_BHND, k_BHND = tensors
        if self.gradient_mode in self.gradient_modes:
            split = (*split_heads(x_BNC, self.num_heads, num_projections=1), q_BHND, k_BHND)
            x_BHND, q_BHND, k_BHND = split_by_kernel(self.gradient_mode, split, self.token_map(x_BNC))
            x_BNC = merge_heads(x_BHND)
        e_BHNS, r_BHNS = q_BHND @ self.projection(self.we, x_BNC), k_BHND @ self.projection(self.wr, x_BNC)
        if state is not None and state.losses_B is not None:
            state.losses_B.append(self.ksvd_loss(e_BHNS, r_BHNS))
        return torch.cat([e_BHNS, r_BHNS], dim=-1)

    def queries_and_keys(self, x_BNC: Tensor) -> tuple[Tensor, Tensor]:
        """Return the queries and the keys, (B, H, N, D) each, in a causal form their cumulative means."""
        q_BHND, k_BHND = split_heads(self.qk(x_BNC), self.num_heads, num_projections=2)
        return (running_mean(q_BHND), running_mean(k_BHND)) if self.is_causal else (q_BHND, k_BHND)

    def projection(self, weight_HMS: Tensor, x_BNC: Tensor) -> Tensor:
        """Return F^T W, (B, H, D, S), or W itself, (H, D, S), if it does not depend on the tokens."""
        if not self.data_dependent:
            return weight_HMS
        sampled_BMC = x_BNC[:, evenly_spaced(weight_HMS.shape[1], x_BNC.shape[1], x_BNC.device)]
        return self.tokens_of_heads(sampled_BMC).transpose(-2, -1) @ weight_HMS

    def token_map(self, x_BNC: Tensor) -> Tensor:
        """Return the map of each head's tokens to F^T W_e and F^T W_r, transposed, (H, 2S, N)."""
        places_M = evenly_spaced(self.we.shape[1], x_BNC.shape[1], x_BNC.device)
        weights_HMS = torch.cat([self.we, self.wr], dim=-1)
        return weights_HMS.transpose(-2, -1) @ one_hot(places_M, x_BNC.shape[1]).to(weights_HMS)

    def ksvd_loss(self, e_BHNS: Tensor, r_BHNS: Tensor) -> Tensor:
        """Return the KSVD loss of each example, (B,), from the scores of its queries and keys."""
        weights_HS = self.Lambda if self.formula == "paper" else self.Lambda.square()
        energies_BHN = (weights_HS[:, None] * (e_BHNS.square() + r_BHNS.square())).sum(dim=-1) / 2
        trace_H = (self.we * self.wr).sum(dim=(-2, -1))
        if self.formula == "paper":
            return (energies_BHN.sum(dim=-1) - trace_H).mean(dim=-1)
        return (energies_BHN.mean(dim=-1) - trace_H).mean(dim=-1).square()


def evenly_spaced(count: int, num_tokens: int, device: torch.device) -> Tensor:
    """Return ``count`` evenly spaced indices among ``num_tokens``, both ends included, repeated if necessary.

    >>> evenly_spaced(4, 7, torch.device("cpu")).tolist()
    [0, 2, 4, 6]
    """
    return torch.arange(count, device=device) * (num_tokens - 1) // max(count - 1, 1)
