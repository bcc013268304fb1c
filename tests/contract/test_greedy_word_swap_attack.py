"""Greedy word swap against a slow search over plain strings, and its laws."""

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from presence import present
from word_search_models import (
    STOP,
    TABLE,
    BagOfWords,
    Bigrams,
    Seeded,
    SlowSearch,
    class_of,
    class_score,
    classified,
    labels_of,
    line_score,
    sentences,
)

from robench.core.errors import ContractError
from robench.core.protocols import Batch, Perturbed
from robench.core.seeds import Stream
from robench.datasets import DATASETS
from robench.domains.code_points import decoded, encoded_batch, padded
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.word_swap_impl import uniform
from robench.tasks import TASKS
from robench.tasks.base import Scoring

RANKINGS = ["delete", "unk", "weighted-saliency", "random"]
AMPLE = 10_000
# Any: a name of a ranking that the parameters give.
DELETE: Any = GreedyWordSwap(ranking="delete", num_queries=AMPLE, substitutions="table", table=TABLE)
WIDE = [
    DELETE,
    replace(DELETE, most_changed=Fraction(1, 4)),
    replace(DELETE, most_substitutions=2, keeps_stop_words=False),
    replace(DELETE, num_queries=17),
]


def ranked(ranking: str, declaration: GreedyWordSwap = DELETE) -> GreedyWordSwap:
    given: Any = ranking
    return replace(declaration, ranking=given)


def predicted(declaration: GreedyWordSwap, texts: list[str], model: Any) -> Perturbed:
    points = encoded_batch(texts)
    batch = Batch(
        ids=tuple(map(str, range(len(texts)))), inputs=points, targets=points, task="language-modeling", domain="texts"
    )
    return perturb(declaration, batch, model, ExampleDraws(range(len(texts))))


def queries_of(result: Perturbed) -> list[int]:
    numbers: list[int] = present(result.num_queries).tolist()
    return numbers


def order_keys(row: int, line: int = 0) -> list[float]:
    (seed,) = ExampleDraws([row]).seeds(Stream(purpose="word order", draw=line))
    keys: list[float] = uniform(seed, 40).tolist()
    return keys


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("declaration", WIDE, ids=["all", "quarter", "two", "budget"])
def test_texts_and_queries_against_a_classifier_are_those_of_a_slow_search(
    declaration: GreedyWordSwap, ranking: str
) -> None:
    texts = sentences(120)
    labels, declared, model = labels_of(texts), ranked(ranking, declaration), BagOfWords()
    result = classified(declared, texts, labels, model)
    wanted = [
        SlowSearch(
            text.split(), lambda words, _, label=label: class_score(words, label), declared, order_keys(row)
        ).run()
        for row, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    assert decoded(result.inputs) == [" ".join(words) for words, _ in wanted]
    assert queries_of(result) == [used for _, used in wanted]
    assert len(model.shown) == sum(queries_of(result))
    assert sum(" ".join(words) != text for (words, _), text in zip(wanted, texts, strict=True)) > 30
    assert not bool(present(result.num_gradients).any())


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("num_queries", [AMPLE, 25])
def test_lines_and_queries_against_a_language_model_are_those_of_a_slow_search(ranking: str, num_queries: int) -> None:
    lines = sentences(330, seed=3)
    texts = ["".join(line + "\n" for line in lines[at : at + 3]) for at in range(0, 330, 3)]
    declared, model = replace(ranked(ranking), num_queries=num_queries), Bigrams()
    result = predicted(declared, texts, model)
    assert len(texts) == 110
    for row, (text, found, number) in enumerate(zip(texts, decoded(result.inputs), queries_of(result), strict=True)):
        wanted, total = "", 0
        for place, line in enumerate(text.splitlines()):
            clean = line.split()
            if not (set(clean) & TABLE.keys()) - STOP:
                wanted += line + "\n"
                continue
            words, used = SlowSearch(
                clean,
                lambda words, missing, clean=clean: (line_score(words, clean, missing), False),
                declared,
                order_keys(row, place),
            ).run()
            wanted, total = wanted + " ".join(words) + "\n", total + used
        assert (found, number) == (wanted, total)
    assert len(model.shown) == sum(queries_of(result))


def test_wrong_texts_are_left_alone_and_cost_one_query() -> None:
    texts = sentences(60, seed=2)
    wrong = [(class_of(text) + 1) % 3 for text in texts]
    result = classified(DELETE, texts, wrong, BagOfWords())
    assert decoded(result.inputs) == texts
    assert queries_of(result) == [1] * 60


@pytest.mark.parametrize("ranking", RANKINGS)
def test_rows_do_not_see_each_other_and_keep_their_seed(ranking: str) -> None:
    texts = [*sentences(20, seed=6), ""]
    labels, model = labels_of(texts), Seeded()
    seeds = [100 + row for row in range(21)]
    together = classified(ranked(ranking), texts, labels, model, seeds)
    wanted = decoded(together.inputs)
    of_rows = dict(zip(ExampleDraws(seeds).prediction_seeds, texts, strict=True))
    assert all(len(text.split()) <= len(of_rows[seed].split()) for text, seed in model.shown)
    for row in range(21):
        alone = classified(ranked(ranking), [texts[row]], [labels[row]], Seeded(), [seeds[row]])
        assert decoded(alone.inputs) == [wanted[row]]
        assert queries_of(alone) == queries_of(together)[row : row + 1]
    order = random.Random(0).sample(range(21), 21)
    moved = classified(
        ranked(ranking), [texts[row] for row in order], [labels[row] for row in order], Seeded(),
        [seeds[row] for row in order],
    )  # fmt: skip
    assert decoded(moved.inputs) == [wanted[row] for row in order]


def test_padding_changes_nothing_and_repeated_rows_cost_nothing() -> None:
    texts = sentences(5, seed=8)
    labels, model = labels_of(texts), BagOfWords()
    wanted = decoded(classified(DELETE, texts, labels, BagOfWords()).inputs)
    rows = [0, 1, 2, 3, 4, 4, 4]
    batch = Batch(
        ids=tuple(str(row) for row in rows),
        inputs=padded([encoded_batch([texts[row]])[0] for row in rows], 300),
        targets=torch.tensor([labels[row] for row in rows]),
        task="classification",
    )
    result = perturb(DELETE, batch, model, ExampleDraws(rows))
    assert decoded(result.inputs) == [wanted[row] for row in rows]
    assert len(model.shown) == sum(queries_of(result)[:5])


def test_swapped_targets_do_not_count() -> None:
    """A word whose substitutes are all very hard, before words that they make easier, is not swapped."""

    class Hard(Bigrams):
        def row(self, text: str, seed: int) -> list[float]:
            tokens = text.rpartition("\x1e")[2].split()
            hard = [9.0 if word in TABLE["film"] else 1.0 for word in tokens]
            # The word after a substitute is easier than after the clean one.
            after = [0.5 if word in TABLE["film"] else 0.0 for word in ["", *tokens]]
            return [max(0.1, a - b) for a, b in zip([*hard, 1.0], after, strict=True)]

    assert decoded(predicted(DELETE, ["rain film rain\n"], Hard()).inputs) == ["rain film rain\n"]


def test_context_is_read_and_not_searched() -> None:
    text = "good film\nbad film \x1e story dull\nactors film"
    model = Bigrams()
    (found,) = decoded(predicted(DELETE, [text], model).inputs)
    assert found.startswith("good film\nbad film \x1e ")
    assert found != text
    shown = [each for each, _ in model.shown]
    assert {each.partition("\x1e")[0] for each in shown[:2]} == {"good film\nbad film \n"}
    # The last line has an end for the model, and none in the result.
    assert shown[-1].endswith("\n")
    assert not found.endswith("\n")
    columns = TASKS["language-modeling"].rules.columns(
        [Bigrams().outputs(encoded_batch([found]), [0])],
        encoded_batch([text]),
        Scoring(dataset=DATASETS["sotu"], inputs=encoded_batch([found])),
    )
    assert columns["num_kept"].array[0] == 6 - sum(a != b for a, b in zip(found.split(), text.split(), strict=True))


def test_without_a_word_one_of_two_blanks_goes() -> None:
    model = BagOfWords()
    text = 'film , the "good" story'
    classified(replace(DELETE, num_queries=4), [text], [class_of(text)], model)
    assert [each for each, _ in model.shown] == [
        text, ', the "good" story', 'film , the "" story', 'film , the "good" ',
    ]  # fmt: skip


@pytest.mark.parametrize("broken", ["nan", "short"])
def test_outputs_that_cannot_be_scored_are_refused(broken: str) -> None:
    class Broken(Bigrams):
        def row(self, text: str, seed: int) -> list[float]:
            return [float("nan")] if broken == "nan" else super().row(text, seed)[:-1]

    with pytest.raises(ContractError, match="not finite" if broken == "nan" else "1 losses for a line of 2 words"):
        predicted(DELETE, ["film\n"], Broken())


def test_confident_models_are_ranked_all_the_same() -> None:
    """One minus a probability of 1 - 1e-20 is 0 in float64; the sum of the other classes is not."""

    class Confident(BagOfWords):
        def row(self, text: str, seed: int) -> list[float]:
            return [60.0 - 10 * ("awful" in text.split()), 0.0, 0.0]

    result = classified(DELETE, ["bad film"], [0], Confident())
    assert decoded(result.inputs) == ["awful film"]
