"""Greedy word swap on a batch: classifiers as whole texts, language models line by line.

Texts are searched one by one, since their searches have different lengths; the candidates of a text are shown to the
model together. The lines of a text for a language model are searched in order, each after the lines before it as they
were left. Its objective is of the line alone: what a swap does to later lines is measured, and not searched for. What
precedes ``CONTEXT_END`` is read and not searched.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.seeds import Stream
from robench.domains.code_points import CONTEXT_END
from robench.perturbations.greedy_search import (
    Budget,
    OfClass,
    OfLine,
    Reached,
    Reader,
    each_text,
    ranked,
    searched,
    wording_of,
)
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.word_swap_impl import LINE_END
from robench.tasks import task_of
from robench.tasks.classification import CLASSIFICATION
from robench.tasks.language_modeling import LANGUAGE_MODELING

# Declaration, text, target, reader and draws of one example.
Search = Callable[[GreedyWordSwap, str, Tensor, Reader[str], Draws], Reached[str]]


def attacked(declaration: GreedyWordSwap, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that the searches reach, and the number of texts that each showed to the model.

    Raises:
        ContractError: the task has neither classes nor losses of words.
    """
    search = _search_on(batch, declaration.backend)

    def attack(text: str, target: Tensor, reader: Reader[str], draws: Draws) -> Reached[str]:
        return search(declaration, text, target, reader, draws)

    return each_text(attack, batch, model, draws)


def _search_on(batch: Batch, backend: str) -> Search:
    task = task_of(batch)
    searches: dict[str, Search] = {CLASSIFICATION.name: _classified, LANGUAGE_MODELING.name: _predicted}
    if task.name not in searches:
        raise ContractError(f"greedy word swap serves {' and '.join(searches)}, got task {task.name}")
    if backend == "robench":
        return searches[task.name]
    # Imported here: the library runs in an environment of its own.
    from robench.perturbations.textattack_impl import greedy_by_library

    return greedy_by_library


def _classified(
    declaration: GreedyWordSwap, text: str, label: Tensor, reader: Reader[str], draws: Draws
) -> Reached[str]:
    ask = Budget(OfClass(reader, label), declaration.num_queries)
    wording = wording_of(text, declaration)
    found = searched(wording, ask, partial(ranked, wording, ask, declaration, _order_seed(draws, 0)))
    return Reached(found, ask.num_used)


def _predicted(
    declaration: GreedyWordSwap, text: str, target: Tensor, reader: Reader[str], draws: Draws
) -> Reached[str]:
    del target  # The clean text itself.
    context, sign, scored = text.rpartition(CONTEXT_END)
    before, num_queries = _as_lines(context), 0
    lines: list[str] = []
    for place, line in enumerate(LINE_END.split(scored)):
        wording = wording_of(line, declaration)
        if wording.words and wording.most_changed:
            ask = Budget(OfLine(reader, before + "".join(lines), line), declaration.num_queries)
            order = partial(ranked, wording, ask, declaration, _order_seed(draws, place))
            lines.append(searched(wording, ask, order))
            num_queries += ask.num_used
        else:
            lines.append(line)
    return Reached(context + sign + "".join(lines), num_queries)


def _order_seed(draws: Draws, place: int) -> int:
    (seed,) = draws.seeds(Stream(purpose="word order", draw=place))
    return seed


def _as_lines(context: str) -> str:
    """Return a context whose last line has its end, as the model reads it, or is left out if it has no words."""
    head, newline, last = context.rpartition("\n")
    return context + "\n" if last.strip() else head + newline
