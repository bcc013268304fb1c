"""How many rows a pass has: a multiple of four within the batch, filled up by the last row."""

import pytest
import torch
from torch.nn.functional import cross_entropy

import robench
from robench.attacks.passes import LEAST_EXPONENT, Graph, padded, pass_size
from robench.tasks.classification_impl import margin_loss


@pytest.mark.parametrize(("num_rows", "wanted"), [(1, 4), (4, 4), (5, 8), (9, 12), (40, 40), (65, 68), (97, 100)])
def test_few_rows_are_padded_to_a_multiple_of_four(num_rows: int, wanted: int) -> None:
    assert pass_size(num_rows, 100) == wanted


@pytest.mark.parametrize("batch_size", [1, 3, 4, 6, 50, 128, 1000])
def test_compiled_passes_have_the_batch_size_or_a_halving_of_it(batch_size: int) -> None:
    found = [pass_size(num_rows, batch_size, is_compiled=True) for num_rows in range(1, batch_size + 1)]
    assert all(size >= num_rows for num_rows, size in enumerate(found, 1))
    assert all(size == batch_size or size % 4 == 0 for size in found)
    assert len(set(found)) <= batch_size.bit_length()
    # At most half of a pass, and the three rows up to a multiple of four, are padding.
    assert all(size <= 2 * num_rows + 6 or size == 4 for num_rows, size in enumerate(found, 1))


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


def plain(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return a cross-entropy that underflows."""
    return cross_entropy(logits, labels, reduction="none")


class TestLossesThatUnderflow:
    LEADS = (1.0, 15.0, 18.0, 60.0, 95.0, 120.0, 500.0, 700.0)
    LABELS = torch.zeros(8, dtype=torch.int64)

    def gradients(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradient (B, 3) by logits that are the points, and the exact one in float64."""
        logits = torch.tensor([[lead, 0.0, -0.5] for lead in self.LEADS]).requires_grad_(True)
        exact = logits.detach().double().requires_grad_(True)
        (wanted,) = torch.autograd.grad(plain(exact, self.LABELS).sum(), exact)
        return Graph(logits, logits * 1, [self.LABELS]).gradient(plain)[2], wanted

    def test_rows_of_ordinary_size_have_the_bits_of_float32(self) -> None:
        found, _ = self.gradients()
        logits = torch.tensor([[lead, 0.0, -0.5] for lead in self.LEADS]).requires_grad_(True)
        (former,) = torch.autograd.grad(plain(logits, self.LABELS).sum(), logits)
        assert torch.equal(found[:2], former[:2])
        assert not bool(former[5:].any())

    def test_smaller_ones_are_powers_of_two_times_the_exact_gradient(self) -> None:
        found, wanted = (each[2:].double() for each in self.gradients())
        assert bool((found.abs().amax(1) < 2.0**LEAST_EXPONENT).all())
        assert bool((found.abs().amax(1) >= 2.0 ** (LEAST_EXPONENT - 1)).all())
        factors = found[:, 1] / wanted[:, 1]
        assert torch.equal(factors.log2().round(), factors.log2().round(decimals=5))
        torch.testing.assert_close(found, wanted * factors.log2().round().exp2()[:, None], rtol=1e-6, atol=0)

    def test_a_gradient_of_zero_stays_zero(self) -> None:
        logits = torch.zeros(4, 3, requires_grad=True)
        constant = Graph(logits, logits * 1, [self.LABELS[:4]]).gradient(lambda outputs, labels: 0 * outputs.sum(1))
        assert not bool(constant[2].any())


@pytest.mark.parametrize("name", ["digits-vit", "digits-fan"])
def test_what_a_pass_gives_for_a_row_does_not_depend_on_how_many_multiples_of_four_it_has(name: str) -> None:
    victim, batch = robench.load_checkpoint(name), robench.load_dataset("digits").batch(0, 40)
    with torch.no_grad():
        whole = victim.outputs(batch.inputs)
        for size in (4, 8, 12, 20):
            # Kinds of CPU differ in how they round: no more than that is promised elsewhere.
            torch.testing.assert_close(victim.outputs(batch.inputs[:size]), whole[:size], rtol=1e-5, atol=1e-5)
