"""How many rows a pass has: a multiple of four within the batch, filled up by the last row."""

from __future__ import annotations

import pytest
import torch

import robench
from robench.attacks.passes import Graph, padded, pass_size
from robench.tasks.classification_impl import margin_loss


@pytest.mark.parametrize(("num_rows", "wanted"), [(1, 4), (4, 4), (5, 8), (9, 12), (40, 40), (65, 68), (97, 100)])
def test_few_rows_are_padded_to_a_multiple_of_four(num_rows: int, wanted: int) -> None:
    assert pass_size(num_rows, 100) == wanted


@pytest.mark.parametrize(("num_rows", "batch_size"), [(3, 3), (1, 2), (98, 99), (99, 99)])
def test_a_batch_is_never_exceeded(num_rows: int, batch_size: int) -> None:
    assert pass_size(num_rows, batch_size) == batch_size


@pytest.mark.parametrize("num_rows", [1, 3, 4, 6, 8])
def test_the_last_row_fills_up(num_rows: int) -> None:
    points = torch.rand(num_rows, 2, 3, generator=torch.Generator().manual_seed(0))
    filled = padded(points, 100)
    assert len(filled) == pass_size(num_rows, 100)
    assert torch.equal(filled[:num_rows], points)
    assert bool((filled[num_rows:] == points[-1]).all())


def test_the_gradient_of_what_fills_up_does_not_reach_the_last_row() -> None:
    shown = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    labels = torch.tensor([0, 1])
    logits, values, gradient = Graph(shown, (2 * shown)[:2], [labels]).gradient(margin_loss)
    assert logits.shape == gradient.shape == (2, 3)
    assert values.tolist() == margin_loss(logits, labels).tolist()
    assert not logits.requires_grad
    assert not values.requires_grad
    assert gradient.sum(1).tolist() == [0, 0]
    assert gradient[[0, 1], labels].tolist() == [-2, -2]


def test_a_graph_gives_further_gradients_where_these_were_announced() -> None:
    shown = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    graph = Graph(shown, torch.tanh(shown), [torch.tensor([0, 1, 2, 0])])
    first, second = (graph.gradient(margin_loss, again=True)[2] for _ in range(2))
    assert torch.equal(first, second)
    graph.gradient(margin_loss)
    with pytest.raises(RuntimeError, match="second time"):
        graph.gradient(margin_loss)


@pytest.mark.parametrize("name", ["digits-vit", "digits-fan"])
def test_what_a_pass_gives_for_a_row_does_not_depend_on_how_many_multiples_of_four_it_has(name: str) -> None:
    victim, batch = robench.load_checkpoint(name), robench.load_dataset("digits").batch(0, 40)
    with torch.no_grad():
        whole = victim.outputs(batch.inputs)
        for size in (4, 8, 12, 20):
            # Kinds of CPU differ in how they round: no more than that is promised elsewhere.
            torch.testing.assert_close(victim.outputs(batch.inputs[:size]), whole[:size], rtol=1e-5, atol=1e-5)
