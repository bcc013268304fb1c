"""Upper bounds of the Lipschitz constants of networks with residual and with boosting connections.

Source: the Bilateral/Boost paper, arXiv:2506.10371, theorem 4.1 and its proof. Without MLPs and LayerNorms, and with
layers f_l that each have the Lipschitz constant L, K_n is a bound of |Y_n - Y_n'| / |Y_0 - Y_0'|:

    Y_{l+1} = f_l(Y_l) + Y_l                     K_{l+1} = (L + 1) K_l            (equation 48)
    Y_{l+1} = f_l(Y_l) + t Y_0 + (1 - t) Y_l     K_{l+1} = (L + 1 - t) K_l + t    (equation 49)

with K_0 = 1. Both come from the triangle inequality, so that their ratio is one of upper bounds and not of Lipschitz
constants. The second has the closed form K_n = (L (L + 1 - t)^n - t) / (L - t) for L != t and 1 + n t for L = t;
equation 50 has both signs of t / (L - t) reversed, and contradicts equation 49 from n = 2 on.

The printed K_GRC / K_RC ~ (1 - t / (L + 1))^n means that the quotient of both sides is bounded for all n. It is
K_n / (L + 1 - t)^n, which rises to L / (L - t) for L > t. For L <= t it has no bound: K_n grows linearly or approaches
t / (t - L), while the power of L + 1 - t <= 1 does not grow. For every L, the ratio of the bounds itself is 1 for n = 1
and less for larger n.
"""

from collections.abc import Mapping

import torch

from robench.analyses.base import Curve
from robench.analyses.boost_bound import BoostBound


def boost_bound(declaration: BoostBound) -> Mapping[str, Curve]:
    """Return the ratio of the bounds, the printed one and their quotient, (constants, layers), and where L > t."""
    t = declaration.t
    lipschitz_Y = torch.tensor(declaration.lipschitz, dtype=torch.float64)
    layers_X = torch.arange(1, declaration.num_layers + 1, dtype=torch.float64)
    # K_GRC / K_RC by the recurrences, since K_RC itself may be too large for the number format.
    ratio_Y, inverse_Y = torch.ones_like(lipschitz_Y), torch.ones_like(lipschitz_Y)
    ratios = []
    for _ in range(declaration.num_layers):
        inverse_Y = inverse_Y / (lipschitz_Y + 1)
        ratio_Y = (lipschitz_Y + 1 - t) / (lipschitz_Y + 1) * ratio_Y + t * inverse_Y
        ratios.append(ratio_Y)
    ratio_YX = torch.stack(ratios, dim=1)
    printed_YX = (1 - t / (lipschitz_Y + 1)).unsqueeze(1) ** layers_X
    return {
        "bound_ratio": Curve(values=ratio_YX, x=layers_X, y=lipschitz_Y),
        "printed": Curve(values=printed_YX, x=layers_X, y=lipschitz_Y),
        "excess": Curve(values=ratio_YX / printed_YX, x=layers_X, y=lipschitz_Y),
        "holds": Curve(values=(lipschitz_Y > t).double(), x=lipschitz_Y),
    }
