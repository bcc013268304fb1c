"""Checks of a user's language model: wrong ones are refused with what is wrong, right ones pass."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from robench.core.errors import ContractError, UsageError
from robench.datasets import DATASETS
from robench.declarations.preprocessing import NoPreprocessing
from robench.domains.code_points import decoded, encoded
from robench.models.in_memory import in_memory_checkpoint
from robench.models.loaded import LoadedModel
from robench.runs.fit import check_fit
from robench.tasks import TASKS
from robench.tasks.base import Scoring
from robench.tasks.language_modeling_impl import NO_TOKEN, tokens_of

TASK = TASKS["language-modeling"]
TEXTS = ["we the people of the union\nin order to form a more perfect union\n", "to the senate\n\nand the people\n"]
WORDS = ["\n", "<unk>", *sorted({word for text in TEXTS for word in text.split()})]
PAGE = Path(__file__).parents[2] / "docs" / "language.md"


class Bigrams(nn.Module):
    """Right language model: probabilities of a word after the one before it, from a table."""

    def __init__(self, words: list[str] | None) -> None:
        super().__init__()
        if words is not None:
            self.words = words
        self.table = nn.Parameter(torch.randn(len(WORDS), len(WORDS), generator=torch.Generator().manual_seed(0)))

    def scores(self, before: Tensor, _ids: Tensor) -> Tensor:
        """Logarithms of the probabilities (N, V) of all words after N words."""
        return self.table[before].log_softmax(-1)

    def losses(self, text: str) -> Tensor:
        ids = torch.tensor([WORDS.index(word) if word in WORDS else 1 for word in tokens_of(text)])
        before = torch.cat([torch.zeros(1, dtype=torch.int64), ids[:-1]])
        return -self.scores(before, ids).gather(1, ids[:, None])[:, 0]

    def rows(self, texts: list[str]) -> list[Tensor]:
        return [self.losses(text) for text in texts]

    padding = NO_TOKEN

    def forward(self, points: Tensor) -> Tensor:
        return nn.utils.rnn.pad_sequence(self.rows(decoded(points)), batch_first=True, padding_value=self.padding)


class TargetSeen(Bigrams):
    def scores(self, before: Tensor, _ids: Tensor) -> Tensor:
        return (self.table[before] + 5 * nn.functional.one_hot(_ids, len(WORDS))).log_softmax(-1)


class BaseTwo(Bigrams):
    def scores(self, before: Tensor, _ids: Tensor) -> Tensor:
        return super().scores(before, _ids) / math.log(2)


class Unnormalised(Bigrams):
    def scores(self, before: Tensor, _ids: Tensor) -> Tensor:
        return -self.table[before].abs()


class LookingAhead(Bigrams):
    def scores(self, before: Tensor, _ids: Tensor) -> Tensor:
        after = torch.cat([_ids[1:], _ids[:1]])
        return (self.table[before] + self.table.T[after]).log_softmax(-1)


class PerCharacter(Bigrams):
    def losses(self, text: str) -> Tensor:
        return torch.full((len(text),), 2.0)


class PaddedOnTheLeft(Bigrams):
    def forward(self, points: Tensor) -> Tensor:
        rows = self.rows(decoded(points))
        longest = max(map(len, rows))
        return torch.stack([nn.functional.pad(row, (longest - len(row), 0), value=NO_TOKEN) for row in rows])


class BatchStatistics(Bigrams):
    def rows(self, texts: list[str]) -> list[Tensor]:
        mean = sum(map(len, texts)) / len(texts) / 1000
        return [row + mean * (row.detach() - row.detach()[0]) for row in super().rows(texts)]


def with_losses(name: str, change: Callable[[Tensor], Tensor]) -> type[Bigrams]:
    """Return a model whose losses of a text are changed ones."""
    return type(name, (Bigrams,), {"losses": lambda self, text: change(Bigrams.losses(self, text))})


class Dataset:
    """Texts with themselves as targets."""

    def __len__(self) -> int:
        return len(TEXTS)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return encoded(TEXTS[index]), encoded(TEXTS[index])


def check(module: nn.Module) -> None:
    preprocessing = NoPreprocessing(inputs="texts")
    checkpoint = in_memory_checkpoint("mine", "0" * 64, preprocessing, Path.cwd(), TASK.name)
    model = LoadedModel(module, preprocessing, task=TASK)
    check_fit(checkpoint, {DATASETS["sotu"]: Dataset()}, model)  # type: ignore[dict-item]  # as much of one as is read


WRONG: list[tuple[type[Bigrams], str]] = [
    (TargetSeen, "sum to"),
    (BaseTwo, "in bits"),
    (Unnormalised, "sum to"),
    (PerCharacter, r"characters has \d+ losses"),
    (type("PaddedByZero", (Bigrams,), {"padding": 0.0}), "losses; return one for each token"),
    (type("PaddedByNaN", (Bigrams,), {"padding": math.nan}), "losses; return one for each token"),
    (PaddedOnTheLeft, "do not begin its row"),
    (with_losses("Shifted", lambda row: torch.cat([torch.tensor([2.0]), row[:-1]])), "not that word's loss"),
    (LookingAhead, "looks ahead"),
    (with_losses("SignReversed", torch.neg), "are negative"),
    (with_losses("Sums", lambda row: row.sum()[None]), "has 1 losses"),
    (with_losses("CumulativeSums", lambda row: row.cumsum(0)), "sum to"),
    (with_losses("OneShort", lambda row: row[:-1]), "tokens .* has 3 losses"),
    (with_losses("OneLong", lambda row: nn.functional.pad(row, (1, 0), value=1.0)), "tokens .* has 5 losses"),
    (BatchStatistics, "sum to|reads padding or other rows"),
    (with_losses("HalfOverflow", lambda row: (row * 30_000).half().float()), "NaN or infinite"),
]


@pytest.mark.parametrize(("kind", "message"), WRONG, ids=[kind.__name__ for kind, _ in WRONG])
def test_wrong_models_are_refused_with_what_is_wrong(kind: type[Bigrams], message: str) -> None:
    with pytest.raises(UsageError, match=f"model 'mine'.*({message})"):
        check(kind(WORDS))


# Of a model that does not list its words, too small a sum is no sign of anything.
OPEN = [each for each in WRONG if each[0].__name__ not in ("BaseTwo", "CumulativeSums")]


@pytest.mark.parametrize(("kind", "message"), OPEN, ids=[kind.__name__ for kind, _ in OPEN])
def test_all_but_small_sums_are_found_without_a_list_of_words(kind: type[Bigrams], message: str) -> None:
    with pytest.raises(UsageError, match=f"model 'mine'.*({message})"):
        check(kind(None))


@pytest.mark.parametrize("words", [WORDS, None])
def test_right_models_pass(words: list[str] | None) -> None:
    check(Bigrams(words))


def test_a_uniform_model_is_right() -> None:
    model = Bigrams(WORDS)
    nn.init.zeros_(model.table)
    check(model)


def test_a_model_that_depends_on_the_length_of_its_batch_is_refused() -> None:
    class Padded(Bigrams):
        width = 0

        def scores(self, before: Tensor, _ids: Tensor) -> Tensor:
            return (self.table[before] / (1 + self.width / 1000)).log_softmax(-1)

        def forward(self, points: Tensor) -> Tensor:
            self.width = points.shape[1]
            return super().forward(points)

    with pytest.raises(UsageError, match="reads padding or other rows"):
        check(Padded(WORDS))


def test_the_module_of_the_page_passes() -> None:
    section = PAGE.read_text().partition("## Your own language model")[2]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) <= 40
    names: dict[str, Callable[[list[str]], nn.Module]] = {}
    exec(code[1], names)
    check(names["GruLanguageModel"](WORDS))


def test_outputs_of_any_length_but_the_texts_are_refused_when_they_are_scored() -> None:
    targets = nn.utils.rnn.pad_sequence([encoded(text) for text in TEXTS], batch_first=True, padding_value=-1)
    outputs = Bigrams(WORDS)(targets).detach()
    scoring = Scoring(dataset=DATASETS["sotu"])
    TASK.rules.columns([outputs], targets, scoring)
    for wrong in (outputs[:, :-1], nn.functional.pad(outputs, (0, 1)), outputs.roll(1, dims=1)):
        with pytest.raises(ContractError, match="losses"):
            TASK.rules.columns([wrong], targets, scoring)
