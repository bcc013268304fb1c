"""Lipschitz constants of softmax, and its change by noise, by the number of tokens N.

Source: the Bilateral/Boost paper, arXiv:2506.10371, remark 3.5 (equation 27), theorem 3.2 (equation 26) and figure 2.

The smallest Lipschitz constant over a convex set of logits is the largest spectral norm there of the Jacobian
J = diag(p) - p p^T, p = softmax(x), in Euclidean norms. The paper does not state the set S. Over all logits the
constant is 1/2 for every N, in the limit of two logits far above the others. Over S = {x: max x - min x <= w},

    L = 1 / (2 + (N - 2) exp(-w)),

which is reached where two logits are w above all others. Proof that no other point of S has more: J's largest
eigenvalue z is p_1 if p_1 = p_2 are the largest weights, and then 1 / z = sum_i p_i / p_1 >= 2 + (N - 2) exp(-w).
Otherwise p_2 < z < p_1 and sum_i p_i / (p_i - z) = 0. For a_i = p_i / z this is a_1 / (a_1 - 1) = sum_{i>1} f_i with
f_i = a_i / (1 - a_i), and 1 / z = a_1 + sum_{i>1} f_i / (1 + f_i) is concave in f: given a_1 it is least where all but
one of a_2, ..., a_N are at their lower bound a_1 exp(-w). What is left depends on a_1 alone, and its least value is the
limit a_1 = 1, the point above. So L falls like 1 / N once N is far above exp(w), and a / sqrt(N) + b can fit it only
over a limited range of N.

For logits that are N(0, s^2) and noise that is N(0, r^2), the change by noise approaches
sqrt(exp(s^2) (exp(r^2) - 1) / N), by the law of large numbers for the sums of exponentials. The larger s, the more
tokens this takes: from about s = 3 on a few logits dominate up to N = 10^4, and the change hardly falls. The asymptote
is cut at sqrt(2), the largest possible change.
"""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from robench.analyses.base import Curve
from robench.analyses.softmax_bounds import OverTokens, SoftmaxLipschitz, SoftmaxNoise
from robench.core.seeds import Stream, stream_seed

# Numbers in a block of samples: 32 MB.
_BLOCK = 2**22
# Bisections to the last bit of a number in [0, 1/2].
_BISECTIONS = 60


def softmax_lipschitz(declaration: SoftmaxLipschitz) -> Mapping[str, Curve]:
    """Return the constants over the set and near random logits, (samples, sizes), each with its fit."""
    sizes_X = torch.tensor(declaration.sizes, dtype=torch.float64)
    largest_X = 1 / (2 + (sizes_X - 2) * math.exp(-declaration.logit_range))
    local_SX = torch.stack([_local(declaration, size) for size in declaration.sizes], dim=1)
    curves = {"lipschitz": Curve(values=largest_X, x=sizes_X), "local": Curve(values=local_SX, x=sizes_X)}
    for prefix, values_X in (("", largest_X), ("local_", local_SX.mean(dim=0))):
        a, b = root_fit(sizes_X, values_X)
        curves[f"{prefix}fit"] = Curve(values=a / sizes_X.sqrt() + b, x=sizes_X)
        curves |= {f"{prefix}a": Curve(values=a), f"{prefix}b": Curve(values=b)}
        curves[f"{prefix}exponent"] = Curve(values=line(sizes_X.log(), values_X.log())[0])
    return curves


def softmax_noise(declaration: SoftmaxNoise) -> Mapping[str, Curve]:
    """Return |softmax(c + eta) - softmax(c)| of each sample, (samples, sizes), and the asymptote of its mean."""
    sizes_X = torch.tensor(declaration.sizes, dtype=torch.float64)
    change_SX = torch.stack([_changes(declaration, size) for size in declaration.sizes], dim=1)
    squared = math.exp(declaration.scale**2) * math.expm1(declaration.noise**2)
    return {
        "change": Curve(values=change_SX, x=sizes_X),
        "asymptote": Curve(values=(squared / sizes_X).sqrt().clamp(max=math.sqrt(2)), x=sizes_X),
    }


def root_fit(sizes_X: Tensor, values_X: Tensor) -> tuple[Tensor, Tensor]:
    """Return a and b of the a / sqrt(N) + b with the least sum of squared differences."""
    return line(sizes_X.rsqrt(), values_X)


def line(x_X: Tensor, values_X: Tensor) -> tuple[Tensor, Tensor]:
    """Return factor and intercept of the line with the least sum of squared differences."""
    centred_X = x_X - x_X.mean()
    factor = (centred_X * values_X).sum() / centred_X.square().sum()
    return factor, values_X.mean() - factor * x_X.mean()


def spectral_norms(p_SN: Tensor) -> Tensor:
    """Return the largest eigenvalue of diag(p) - p p^T for each row of weights, (S,).

    It is the root of sum_i p_i / (p_i - z) between the two largest weights, where the sum grows from -inf to inf.
    """
    top_S2 = p_SN.topk(2, dim=-1).values
    high_S, low_S = top_S2.unbind(dim=-1)
    for _ in range(_BISECTIONS):
        middle_S = (low_S + high_S) / 2
        is_above_S = (p_SN / (p_SN - middle_S.unsqueeze(-1))).sum(dim=-1) > 0
        high_S, low_S = middle_S.where(is_above_S, high_S), low_S.where(is_above_S, middle_S)
    return high_S


def _local(declaration: SoftmaxLipschitz, num_tokens: int) -> Tensor:
    return torch.cat(
        [
            spectral_norms((declaration.scale * draws_S1N[:, 0]).softmax(dim=-1))
            for draws_S1N in blocks(declaration, num_tokens, 1)
        ]
    )


def _changes(declaration: SoftmaxNoise, num_tokens: int) -> Tensor:
    changes = []
    for draws_S2N in blocks(declaration, num_tokens, 2):
        logits_SN = declaration.scale * draws_S2N[:, 0]
        moved_SN = (logits_SN + declaration.noise * draws_S2N[:, 1]).softmax(dim=-1)
        changes.append(torch.linalg.vector_norm(moved_SN - logits_SN.softmax(dim=-1), dim=-1))
    return torch.cat(changes)


def blocks(declaration: OverTokens, num_tokens: int, count: int) -> Iterator[Tensor]:
    """Yield ``count`` vectors of standard normal numbers for each sample, (S, count, N), a block of samples at a time.

    The draws of a sample depend on the seed, the number of tokens and the sample's place alone.
    """
    seed = stream_seed(declaration.seed, Stream(purpose=declaration.kind, step=num_tokens))
    generator = torch.Generator().manual_seed(seed)
    most = max(1, _BLOCK // (count * num_tokens))
    for start in range(0, declaration.num_samples, most):
        yield torch.stack(
            [
                torch.randn(count, num_tokens, generator=generator, dtype=torch.float64)
                for _ in range(min(most, declaration.num_samples - start))
            ]
        )
