"""Compares robench's searches for words with TextAttack's on the same texts: how many stay right, and how alike.

Prints a line for each search: texts that stay right, of how many both say the same, the exact p-value of McNemar's test
(small where one search fools more texts than chance explains), and queries. With the same substitutes both make the
same search. The recipes draw other misspellings, at random: ``deepwordbug`` ranks words as the search beside it does,
and ``pruthi`` changes one word alone, so that it is expected to fool fewer texts. TextAttack is installed by ``robench
backends install textattack``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import torch

from robench import load_checkpoint, load_dataset
from robench.metrics.paired import exact_p_value
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.textattack import TextAttackRecipe
from robench.perturbations.wordnet import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.protocols import Batch

# Texts that are attacked together.
BATCH_SIZE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A search of robench's, and one of TextAttack's with as many queries."""

    name: str
    own: GreedyWordSwap
    library: GreedyWordSwap | TextAttackRecipe


def pairs(num_queries: int) -> Iterator[Pair]:
    """Yield the searches that are compared; those for synonyms if WordNet is where Debian has it."""
    typos = GreedyWordSwap(ranking="delete", num_queries=num_queries, most_substitutions=4)
    unknown = replace(typos, ranking="unk")
    searches = {"misspellings, delete": typos, "misspellings, unk": unknown}
    if FOLDER.is_dir():
        searches["synonyms, delete"] = replace(typos, substitutions="wordnet-3.0", most_substitutions=50)
    for name, own in searches.items():
        yield Pair(name=name, own=own, library=replace(own, backend="textattack"))
    any_letter = replace(unknown, substitutions="typos-any-letter")
    for recipe, own in {"deepwordbug": any_letter, "pruthi": unknown}.items():
        yield Pair(name=recipe, own=own, library=TextAttackRecipe(recipe=recipe, num_queries=num_queries))


def judged(declaration: Any, batches: list[Batch], model: Any) -> tuple[list[bool], int]:
    """Return which texts stay right under a search, and how many texts it showed to the model. Any: a declaration."""
    is_right: list[bool] = []
    num_queries = 0
    for batch in batches:
        seeds = range(len(is_right), len(is_right) + len(batch.ids))
        found = perturb(declaration, batch, model, ExampleDraws(seeds))
        with torch.no_grad():
            logits = model.outputs(found.inputs, ExampleDraws(seeds).prediction_seeds)
        is_right += (logits.argmax(1).cpu() == batch.targets.cpu()).tolist()
        num_queries += 0 if found.num_queries is None else int(found.num_queries.sum())
    return is_right, num_queries


@click.command(help=__doc__)
@click.option("--model", default="sotu-eras-softmax", help="Name of a classifier of texts in the registry.")
@click.option("--dataset", default="sotu-eras", help="Name of a dataset of labelled texts.")
@click.option("--data-root", type=click.Path(exists=True, file_okay=False), help="Folder with the dataset's files.")
@click.option("--num-texts", default=100, help="Number of texts, the first ones.")
@click.option("--num-queries", default=200, help="Largest number of queries for a text.")
def main(model: str, dataset: str, data_root: str | None, num_texts: int, num_queries: int) -> None:
    """Print the comparison."""
    victim = load_checkpoint(model)
    texts = load_dataset(dataset, data_root=data_root)
    batches = [
        replace(texts.batch(at, min(at + BATCH_SIZE, num_texts)), task="classification", domain="texts")
        for at in range(0, num_texts, BATCH_SIZE)
    ]
    click.echo(f"{model}, {num_texts} texts of {dataset}, {num_queries} queries a text")
    click.echo(f"{'search':22} {'robench':>8} {'TextAttack':>11} {'same':>6} {'p':>6} {'queries':>17}")
    for pair in pairs(num_queries):
        (own, num_own), (theirs, num_theirs) = (judged(each, batches, victim) for each in (pair.own, pair.library))
        same = sum(one == other for one, other in zip(own, theirs, strict=True)) / len(own)
        click.echo(
            f"{pair.name:22} {sum(own):>8} {sum(theirs):>11} {same:>6.0%} {exact_p_value(own, theirs):>6.3f} "
            f"{num_own:>8} {num_theirs:>8}"
        )


if __name__ == "__main__":
    main()
