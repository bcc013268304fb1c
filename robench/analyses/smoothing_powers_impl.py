"""Powers of the filters p(x) = x and 2x - x^2, and their eigencapacities.

Source: Abdullaev & Nguyen 2025 (Transformer Meets Twicing), figure 3, definition 1 and proposition 1. n steps of
smoothing by weights A leave p^n(x) of an eigenvalue x, where p(x) = x for self-attention and 2x - x^2 for twicing. The
eigencapacity is the integral over [0, 1] (equations 15 and 21):

    self-attention  kappa_n = 1 / (n + 1) ~ 1 / n
    twicing         kappa_n = 4^n (n!)^2 / (2n + 1)! = prod_{k=1..n} 2k / (2k + 1) ~ sqrt(pi) / (2 sqrt(n))

Both are below their asymptotes, by the factors n / (n + 1) and about 1 - 3 / (8n).
"""

import math
from collections.abc import Mapping

import torch

from robench.analyses.base import Curve
from robench.analyses.smoothing_powers import SmoothingPowers


def smoothing_powers(declaration: SmoothingPowers) -> Mapping[str, Curve]:
    """Return the powers of both filters, (powers, points), and their integrals with the asymptotes, (powers,)."""
    x_X = torch.linspace(0, 1, declaration.num_points, dtype=torch.float64)
    powers_Y = torch.tensor(declaration.powers, dtype=torch.float64)
    steps_N = torch.arange(1, declaration.max_power + 1, dtype=torch.float64)
    shown_X = torch.tensor(declaration.capacity_powers)
    n_X = shown_X.double()
    twicing_X = (2 * steps_N / (2 * steps_N + 1)).cumprod(dim=0)[shown_X - 1]
    return {
        "powers": Curve(values=x_X ** powers_Y.unsqueeze(1), x=x_X, y=powers_Y),
        "twicing_powers": Curve(values=(2 * x_X - x_X.square()) ** powers_Y.unsqueeze(1), x=x_X, y=powers_Y),
        "capacity": Curve(values=1 / (n_X + 1), x=n_X),
        "twicing_capacity": Curve(values=twicing_X, x=n_X),
        "capacity_asymptote": Curve(values=1 / n_X, x=n_X),
        "twicing_capacity_asymptote": Curve(values=math.sqrt(math.pi) / (2 * n_X.sqrt()), x=n_X),
    }
