"""The laws of ProAttention: its reference at every setting, its limits, and outputs that one value cannot move."""

from itertools import product
from typing import Any

import pytest
import torch
from reference_pro import PRO_DECLARATIONS
from test_attention_contract import made, reference_output
from torch import Tensor

from robench.attention.heads import attend, dot_scores
from robench.attention.pro import Pro
from robench.attention.pro_impl import penalty_weights, squared_distances
from robench.attention.softmax import Softmax
from robench.declarations.base import FieldsError
from robench.testing.attention import tokens


def mixed(declaration: Pro, heads: tuple[Tensor, ...]) -> Tensor:
    """The robust means of given queries, keys and values."""
    layer: Any = made(declaration).layer
    return layer.mix(heads, None).detach()  # type: ignore[no-any-return]  # a layer of any mechanism


def three(*shape: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(4)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(3))


def test_every_setting_equals_the_loop_over_queries_and_steps() -> None:
    without_weight = []
    for declaration, spread in product(PRO_DECLARATIONS, (0.2, 0.5)):
        module, x_BNC = made(declaration, spread=spread), tokens()
        assert (module(x_BNC) - reference_output(declaration, module, x_BNC)).abs().max() <= 1e-10, declaration
        q_BHND, k_BHND, v_BHND = module.layer.project(x_BNC)  # type: ignore[operator]  # of ProjectedAttention
        found_BHNN = penalty_weights(attend(q_BHND, k_BHND, v_BHND), v_BHND, declaration) == 0
        without_weight.append((int(found_BHNN.all(dim=-1).sum()), float(found_BHNN.double().mean())))
    queries, share = (list(each) for each in zip(*without_weight, strict=True))
    assert max(queries) == 6
    assert sum(0.3 < each < 0.7 for each in share) >= 4


@pytest.mark.parametrize(
    "declaration",
    [Pro(num_steps=0), Pro(penalty="huber", delta=1e5), Pro(penalty="huber-mcp", delta=1e5, gamma=2e5)],
    ids=["no step", "huber", "huber-mcp"],
)
def test_where_the_penalty_is_quadratic_it_is_softmax_attention(declaration: Pro) -> None:
    robust, softmax = made(declaration), made(Softmax())
    robust.load_state_dict(softmax.state_dict())
    difference = (robust(tokens()) - softmax(tokens())).abs().max()
    assert difference <= (1e-14 if declaration.num_steps else 0)


def test_each_step_lowers_the_sum_of_penalties_down_to_the_geometric_median() -> None:
    q, k, v = three(1, 1, 7, 3)
    q = 0.1 * q  # Shares of which none is so large that its value is the median.
    shares = dot_scores(q, k).softmax(dim=-1)
    costs = []
    for num_steps in (0, 1, 2, 3, 400):
        z = mixed(Pro(penalty="l1", num_steps=num_steps), (q, k, v))
        costs.append(float((shares * torch.cdist(z, v)).sum()))
    assert costs == sorted(costs, reverse=True)
    assert costs[0] - costs[3] > 0.5 * (costs[0] - costs[4])
    # The gradient of the sum of distances vanishes there.
    unit = (z.unsqueeze(-2) - v.unsqueeze(-3)) / torch.cdist(z, v).unsqueeze(-1)
    assert (shares.unsqueeze(-1) * unit).sum(dim=-2).abs().max() < 1e-6


@pytest.mark.parametrize(("penalty", "formula"), [*product(["l1", "huber"], ["paper", "released"])])
def test_one_value_far_away_moves_softmax_attention_alone(penalty: Any, formula: Any) -> None:
    q, k, v = three(1, 1, 9, 4)
    q[..., 0, :] = 0  # A query that weighs all values alike.
    far = v.clone()
    far[..., 8, :] += 1e5
    robust, plain = (
        (mixed(declaration, (q, k, far)) - mixed(declaration, (q, k, v)))[0, 0, 0].abs().max()
        for declaration in (Pro(penalty=penalty, formula=formula, num_steps=20), Pro(num_steps=0))
    )
    assert robust < 1
    assert plain > 1e4


def test_mcp_leaves_out_a_value_beyond_gamma_and_keeps_the_mean_where_all_are() -> None:
    q, k, v = three(1, 1, 9, 4)
    q, v = 0 * q, 0.3 * v
    for offset, penalty in product((3, 1e4), ("mcp", "huber-mcp")):
        declaration = Pro(penalty=penalty, num_steps=50)  # type: ignore[arg-type]  # product widens the literals
        far = v.clone()
        far[..., 8, :] += offset
        # The mean is offset / 9 from the others in each coordinate: in the second case they all are beyond gamma.
        found = mixed(declaration, (q, k, far))
        wanted = mixed(declaration, (q[..., :8, :], k[..., :8, :], v[..., :8, :])) if offset == 3 else far.mean(dim=-2)
        assert (found[..., 0, :] - wanted[..., 0, :]).abs().max() < 1e-4


def test_distances_of_products_are_those_of_differences() -> None:
    z, _, v = three(2, 3, 64, 16)
    wanted = (z.unsqueeze(-2) - v.unsqueeze(-3)).square().sum(dim=-1).sqrt()
    assert ((squared_distances(z, v).sqrt() - wanted) / wanted).abs().max() < 1e-13
    # Where differences are small, too: products of float32 would be off by half.
    near = z.float() + 1e-3 * v.float()
    wanted = (near - z.float()).double().norm(dim=-1)
    found = squared_distances(near, z.float()).sqrt().diagonal(dim1=-2, dim2=-1)
    assert ((found - wanted) / wanted).abs().max() < 1e-6
    # Of a value to itself the format resolves nothing.
    own = squared_distances(v.float(), v.float()).sqrt().diagonal(dim1=-2, dim2=-1)
    assert torch.allclose(own, 2**0.5 * torch.finfo(torch.float32).eps * v.float().norm(dim=-1), rtol=1e-3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"penalty": "mcp", "delta": 2.0}, "delta has no effect with penalty mcp, got 2"),
        ({"penalty": "l1", "gamma": 2.0}, "gamma has no effect with penalty l1, got 2"),
        ({"penalty": "huber-mcp", "delta": 4.0}, "gamma must be above delta 4, got 4"),
    ],
)
def test_constants_that_contradict_the_penalty_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldsError, match=f"^{message}$"):
        Pro(**fields)
