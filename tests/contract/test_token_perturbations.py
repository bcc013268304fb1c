"""What every perturbation of tokens must hold, on sequences and pairs; a new one brings one line in EXAMPLES."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from listops_reference import value_of

from robench.core.protocols import Batch
from robench.datasets import DATASETS, open_dataset
from robench.domains import DOMAINS
from robench.domains.listops import text_of
from robench.perturbations import PERTURBATIONS
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.listops_insertion import ListOpsExtension, ListOpsInsertion
from robench.perturbations.token_edits import TokenDeletion, TokenSwap
from robench.testing.expectations import DECLARATION_CHECKS, watched_generators

EXAMPLES: dict[str, Any] = {
    "token-swap": TokenSwap(rate=Fraction(1, 4), highest=15),
    "token-swap-digits": TokenSwap(rate=Fraction(1, 3), lowest=1, highest=10),
    "token-deletion": TokenDeletion(rate=Fraction(1, 4)),
    "listops-insertion": ListOpsInsertion(rate=Fraction(1, 4)),
}
LENGTH = 64
CLEAN = open_dataset("listops-short", data_root=None, preprocessing=None).batch(0, 200)
PAIRS = CLEAN.inputs.reshape(100, 2, LENGTH)
# Any: nothing here asks for the model.
NO_MODEL: Any = None


def perturbed(declaration: Any, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
    """Return perturbed inputs after the checks of the domain; example i has the seed i."""
    names = tuple(map(str, range(len(inputs))))
    batch = Batch(ids=names, inputs=inputs, targets=torch.zeros(len(inputs), dtype=torch.int64), domain="tokens")
    before = inputs.clone()
    result = perturb(declaration, batch, NO_MODEL, ExampleDraws(range(len(inputs)) if seeds is None else seeds)).inputs
    counted = DOMAINS["tokens"].rules.check_perturbed(result, before, declaration, NO_MODEL)["num_changed"]
    places = torch.nn.functional.pad(before, (0, result.shape[-1] - before.shape[-1]))
    assert counted.tolist() == [int((one != other).sum()) for one, other in zip(result, places, strict=True)]
    assert torch.equal(inputs, before)
    return result


def tokens(inputs: torch.Tensor) -> list[list[int]]:
    return [[token for token in row if token] for row in inputs.tolist()]


def is_within(short: Sequence[int], long: Sequence[int]) -> bool:
    """Whether a sequence comes out of a longer one by deletions."""
    rest = iter(long)
    return all(token in rest for token in short)


def test_every_declared_edit_of_tokens_has_an_example() -> None:
    of_tokens = {kind for kind, declared in PERTURBATIONS.items() if getattr(declared, "domain", "") == "tokens"}
    # The others have classes or files of tests of their own.
    assert {example.kind for example in EXAMPLES.values()} == of_tokens - {"gradient-token-swap", "listops-extension"}


@pytest.mark.parametrize("declaration", EXAMPLES.values(), ids=EXAMPLES.keys())
class TestEveryPerturbationOfTokens:
    @pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_declaration_promises(self, declaration: Any, check: Any) -> None:
        check(declaration)

    @pytest.mark.parametrize("inputs", [CLEAN.inputs[:100], PAIRS], ids=["sequences", "pairs"])
    def test_examples_depend_on_their_seeds_alone(self, declaration: Any, inputs: torch.Tensor) -> None:
        with watched_generators():
            together = perturbed(declaration, inputs)
        assert not torch.equal(together, inputs)
        order = [4, 0, 99, 2]
        assert torch.equal(perturbed(declaration, inputs[order], order), together[order])
        assert torch.equal(perturbed(declaration, inputs[[7]], [7]), together[[7]])

    def test_the_sides_of_a_pair_have_draws_of_their_own(self, declaration: Any) -> None:
        twins = CLEAN.inputs[:20, None].repeat(1, 2, 1)
        result = perturbed(declaration, twins)
        assert torch.equal(result[:, 0], perturbed(declaration, CLEAN.inputs[:20]))
        assert (result[:, 0] != result[:, 1]).any(1).sum() > 15

    def test_further_padding_changes_no_token_but_for_what_now_fits(self, declaration: Any) -> None:
        short = CLEAN.inputs[(CLEAN.inputs[:, 40:] == 0).all(1)]
        wide = torch.nn.functional.pad(short, (0, 30))
        assert tokens(perturbed(declaration, wide)) == tokens(perturbed(declaration, short))

    def test_a_rate_of_zero_changes_nothing(self, declaration: Any) -> None:
        fields = {name: getattr(declaration, name) for name in ("lowest", "highest") if hasattr(declaration, name)}
        assert torch.equal(perturbed(type(declaration)(rate=Fraction(0), **fields), PAIRS), PAIRS)

    def test_it_is_no_attack_and_is_refused_on_other_inputs(self, declaration: Any) -> None:
        assert not declaration.is_attack
        assert declaration.problems_on(DATASETS["listops"]) == []
        for name in ("digits", "sotu-eras"):
            assert declaration.problems_on(DATASETS[name])[0][1].startswith(f"must be no {declaration.kind} on {name}")


class TestTokenSwap:
    def test_as_many_tokens_as_asked_become_others_of_the_range(self) -> None:
        result = perturbed(TokenSwap(rate=Fraction(1, 4), lowest=3, highest=7), CLEAN.inputs)
        moved = result != CLEAN.inputs
        wanted = (CLEAN.inputs > 0).sum(1) / 4
        assert ((moved.sum(1) - wanted).abs() < 1).all()
        assert abs(float((moved.sum(1) - wanted).mean())) < 0.1
        assert set(result[moved].tolist()) == {3, 4, 5, 6, 7}
        assert not (moved & (CLEAN.inputs == 0)).any()

    def test_replacements_are_equally_likely(self) -> None:
        digits = torch.full((50, LENGTH), 4)
        result = perturbed(TokenSwap(rate=Fraction(1), lowest=2, highest=6), digits)
        counts = torch.bincount(result.flatten(), minlength=7)
        assert counts[[0, 1, 4]].tolist() == [0, 0, 0]
        assert ((counts[[2, 3, 5, 6]] / counts.sum() - 0.25).abs() < 0.03).all()

    def test_a_range_beyond_the_vocabulary_and_an_empty_one_are_refused(self) -> None:
        ((field, message),) = TokenSwap(rate=Fraction(1), highest=16).problems_on(DATASETS["listops"])
        assert (field, message) == ("highest", "must be at most 15, the last token of dataset listops, got 16")
        with pytest.raises(ValueError, match="highest must be above lowest 5, got 5"):
            TokenSwap(rate=Fraction(1), lowest=5, highest=5)


class TestTokenDeletion:
    def test_as_many_tokens_as_asked_are_left_out_and_one_stays(self) -> None:
        for rate in (Fraction(1, 4), Fraction(1)):
            result = perturbed(TokenDeletion(rate=rate), CLEAN.inputs)
            for found, clean in zip(tokens(result), tokens(CLEAN.inputs), strict=True):
                assert is_within(found, clean)
                wanted = max(len(clean) * (1 - float(rate)), 1)
                assert abs(len(found) - wanted) < 1


class TestListOpsInsertion:
    def test_values_stay_and_as_many_arguments_as_asked_are_added(self) -> None:
        result = perturbed(ListOpsInsertion(rate=Fraction(1, 2)), CLEAN.inputs)
        for found, clean, value in zip(tokens(result), tokens(CLEAN.inputs), CLEAN.targets.tolist(), strict=True):
            assert value_of(text_of(found)) == value_of(text_of(clean)) == value
            assert is_within(clean, found)
            assert abs(len(found) - min(len(clean) + (len(clean) - 1) / 2, LENGTH)) < 1

    def test_sequences_of_other_tokens_are_refused(self) -> None:
        ((_, message),) = ListOpsInsertion(rate=Fraction(1)).problems_on(DATASETS["sotu-bytes"])
        assert message.endswith("whose inputs are not expressions of ListOps")


class TestListOpsExtension:
    @pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_declaration_promises(self, check: Any) -> None:
        check(ListOpsExtension(factor=Fraction(3, 2)))

    def test_every_expression_has_the_length_and_its_value(self) -> None:
        shorter: list[list[int]] = tokens(CLEAN.inputs)
        for factor, length in ((Fraction(1), 64), (Fraction(3, 2), 96), (Fraction(199, 99), 128)):
            with watched_generators():
                result = perturbed(ListOpsExtension(factor=factor), CLEAN.inputs)
            assert result.shape == (200, length)
            assert (result > 0).all()
            for found, less, value in zip(result.tolist(), shorter, CLEAN.targets.tolist(), strict=True):
                assert value_of(text_of(found)) == value
                # A larger factor adds further arguments to the same ones.
                assert is_within(less, found)
            shorter = result.tolist()

    def test_examples_depend_on_their_seeds_alone(self) -> None:
        extension = ListOpsExtension(factor=Fraction(3, 2))
        together = perturbed(extension, PAIRS)
        order = [4, 0, 99, 2]
        assert torch.equal(perturbed(extension, PAIRS[order], order), together[order])
        assert len({tuple(row) for row in perturbed(extension, PAIRS[:1].repeat(50, 1, 1)).flatten(1).tolist()}) == 50

    def test_a_digit_stays_and_other_tokens_are_refused(self) -> None:
        digit = torch.tensor([[5, 0, 0, 0]])
        assert perturbed(ListOpsExtension(factor=Fraction(2)), digit).tolist() == [[5] + [0] * 7]
        assert ListOpsExtension(factor=Fraction(2)).problems_on(DATASETS["listops"]) == []
        ((_, message),) = ListOpsExtension(factor=Fraction(2)).problems_on(DATASETS["digits-pixels"])
        assert message.endswith("whose inputs are not expressions of ListOps")
