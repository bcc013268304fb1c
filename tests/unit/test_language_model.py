"""Language models: windows, their equality with one token at a time, vocabularies and context."""

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robench.attention.twicing import Twicing
from robench.core.errors import ContractError
from robench.domains.code_points import CONTEXT_END, encoded_batch
from robench.models import language_impl
from robench.models.build import build
from robench.models.language_impl import LanguageModel, sinusoids, windows_at_once, windows_of
from robench.models.transformer import Boost, FeatScale
from robench.models.word_transformer import Language
from robench.models.word_transformer_impl import END_ID
from robench.tasks.language_modeling_impl import NO_TOKEN

SMALL = Language(vocabulary_size=12, depth=2, dim=8, num_heads=2, feedforward=16, context=5, stride=2)
WORDS = ["\n", "<unk>", "we", "the", "people", "of", "union", ","]
TEXT = "we the people , of\nthe union , the unknown people\n\nof the union we\n"


def model_of(architecture: Language) -> LanguageModel:
    torch.manual_seed(0)
    model = build(architecture).double().eval()
    assert isinstance(model, LanguageModel)
    # Larger than at the beginning of training, so that every word matters.
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.set_vocabulary(WORDS)
    return model


def ids_of(text: str) -> list[int]:
    """Ids by the definition: a known word, else the unknown one, and an end after every line."""
    lines = text.split("\n")[:-1]
    return [each for line in lines for each in [*(WORDS.index(w) if w in WORDS else 1 for w in line.split()), END_ID]]


def alone(model: LanguageModel, text: str) -> torch.Tensor:
    with torch.no_grad():
        (row,) = model(encoded_batch([text]))
    return row[row != NO_TOKEN]


def one_at_a_time(model: LanguageModel, text: str) -> torch.Tensor:
    """Each word's loss from a pass of its own over the words of its window alone, without any padding."""
    context, stride = model.architecture.context, model.architecture.stride
    ids = [END_ID, *ids_of(text)]
    losses = []
    for place in range(len(ids) - 1):
        # The window that scores it: the first, or the one whose last `stride` places it is among.
        later = max(0, -(-(place + 1 - context) // stride))
        start = max(0, min(later * stride, len(ids) - 1 - context))
        hidden = model.hidden(torch.tensor([ids[start : place + 1]]))[0, -1:]
        losses.append(model.losses_of(hidden, torch.tensor([ids[place + 1]])))
    return torch.cat(losses)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stride": 1},
        {"stride": 5},
        {"norm": "post", "activation": "relu"},
        {"positions": "backward"},
        {"cutoffs": (3, 6)},
        {"residual": Boost()},
        {"residual": Boost(), "norm": "post"},
        {"attention": Twicing()},
        {"context": 50, "stride": 50},
    ],
    ids=str,
)
def test_losses_are_those_of_one_token_at_a_time(changes: dict[str, object]) -> None:
    model = model_of(replace(SMALL, **changes))
    with torch.no_grad():
        losses = alone(model, TEXT)
        assert len(losses) == len(ids_of(TEXT))
        torch.testing.assert_close(losses, one_at_a_time(model, TEXT), rtol=1e-9, atol=1e-9)


def test_rows_of_a_batch_are_as_alone_and_padded_after_their_last_token() -> None:
    model = model_of(SMALL)
    texts = [TEXT, "we\n", TEXT * 20]
    with torch.no_grad():
        together = model(encoded_batch(texts))
        for row, text in zip(together, texts, strict=True):
            wanted = alone(model, text)
            assert torch.equal(row[: len(wanted)], wanted)
            assert bool((row[len(wanted) :] == NO_TOKEN).all())


def test_even_a_text_of_single_letters_has_a_place_for_every_token() -> None:
    model = model_of(SMALL)
    text = "a\n\nb c\n\n\nd"
    assert len(alone(model, text)) == 4 + 6


def test_context_is_read_and_not_scored() -> None:
    model = model_of(replace(SMALL, stride=1))
    before, after = "we the people\nof the union ,\nwe\n", "the people of\nwe\n"
    with torch.no_grad():
        whole, scored = alone(model, before + after), alone(model, before + CONTEXT_END + after)
    # Products of matrices of other sizes round differently on some CPUs.
    assert torch.allclose(scored, whole[-len(ids_of(after)) :], rtol=0, atol=1e-12)


@pytest.mark.parametrize("context", ["", f"the congress of\nwe {CONTEXT_END}"])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_targets_are_those_of_restoring_one_word_at_a_time(stride: int, context: str) -> None:
    """Reading swapped words, the loss of a clean word is that in the swapped text with this word alone restored."""
    model = model_of(replace(SMALL, stride=stride))
    clean, swapped = (re.findall(r"\S+|\n", text) for text in (TEXT, TEXT.replace("people", "AAA").replace("of", ",")))
    with torch.no_grad():
        (found,) = model(encoded_batch([context + " ".join(swapped)]), targets=encoded_batch([context + TEXT]))
    for place, word in enumerate(clean):
        restored = context + " ".join([*swapped[:place], word, *swapped[place + 1 :]])
        torch.testing.assert_close(found[place], alone(model, restored)[place], rtol=1e-12, atol=1e-12)
    assert bool((found[len(clean) :] == NO_TOKEN).all())


def test_targets_with_other_numbers_of_tokens_are_refused() -> None:
    model = model_of(SMALL)
    points = encoded_batch(["we the people\n"])
    assert torch.equal(model(points, targets=points), model(points))
    with pytest.raises(ContractError, match="text 0 has 4 tokens, 4 of them scored, and its targets 3 and 3"):
        model(points, targets=encoded_batch(["we people\n"]))
    with pytest.raises(ContractError, match="text 0 has 4 tokens, 4 of them scored, and its targets 4 and 2"):
        model(points, targets=encoded_batch([f"we{CONTEXT_END}people\n"]))


def test_words_that_the_vocabulary_has_not_are_the_unknown_word() -> None:
    model = model_of(SMALL)
    ids, num_scored = model.tokens("we constitute <unk>\n")
    assert ids.tolist() == [END_ID, WORDS.index("we"), 1, 1, END_ID]
    assert num_scored == 4


@given(
    num_inputs=st.integers(1, 60), num_context=st.integers(0, 59), context=st.integers(1, 20), stride=st.integers(1, 20)
)
def test_places_are_scored_with_the_most_context(num_inputs: int, num_context: int, context: int, stride: int) -> None:
    num_scored, stride = max(1, num_inputs - num_context), min(stride, context)
    places = []
    for start, first, last in windows_of(num_inputs, num_scored, context, stride):
        assert 0 <= first < last <= context
        assert start + last <= num_inputs
        places += range(start + first, start + last)
        for place in range(first, last):
            # A later window would have cut the context by up to the stride.
            assert place + 1 >= min(context - stride + 1, start + place + 1)
    assert places == list(range(num_inputs - num_scored, num_inputs))


@pytest.mark.parametrize(
    ("changes", "num_windows"),
    [
        ({}, 32),
        # 128 KiB a window; 256 KiB, and just above.
        ({"context": 128, "feedforward": 256}, 32),
        ({"context": 256, "feedforward": 256, "num_heads": 1}, 32),
        ({"context": 256, "feedforward": 257, "num_heads": 1}, 16),
        ({"context": 256}, 16),
        # The papers' small and medium models: 256 x 2,048 and 384 x 8 x 384 values of four bytes.
        ({"context": 256, "feedforward": 2048}, 4),
        ({"context": 384, "num_heads": 8}, 1),
        ({"context": 4096, "feedforward": 2048}, 1),
    ],
    ids=str,
)
def test_wide_models_are_passed_fewer_windows_at_once_on_a_cpu(changes: dict[str, int], num_windows: int) -> None:
    architecture = replace(SMALL, **changes)
    assert windows_at_once(architecture, torch.device("cpu")) == num_windows
    assert windows_at_once(architecture, torch.device("cuda")) == 32


@pytest.mark.parametrize("num_windows", [1, 2, 3, 32])
def test_losses_are_those_of_any_number_of_windows_at_once(num_windows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(SMALL)
    losses = alone(model, TEXT)
    monkeypatch.setattr(language_impl, "windows_at_once", lambda *_: num_windows)
    assert torch.allclose(alone(model, TEXT), losses, rtol=1e-12)


def test_positions_are_sines_and_cosines() -> None:
    found = sinusoids(7, 6)
    assert found.shape == (7, 6)
    for place in range(7):
        for pair, frequency in enumerate((1.0, 10_000 ** (-2 / 6), 10_000 ** (-4 / 6))):
            angle = torch.tensor(place * frequency, dtype=torch.float64)
            assert found[place, pair].item() == pytest.approx(angle.sin().item(), abs=1e-6)
            assert found[place, 3 + pair].item() == pytest.approx(angle.cos().item(), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"dim": 9}, "dim must be a multiple of num_heads 2, got 9"),
        ({"stride": 6}, "stride must be at most the context of 5 words, got 6"),
        ({"cutoffs": (6, 3)}, "cutoffs must ascend and stay below vocabulary_size 12, got [6, 3]"),
        ({"cutoffs": (12,)}, "cutoffs must ascend and stay below vocabulary_size 12, got [12]"),
        ({"residual": FeatScale()}, "residual must have a causal form; featscale has none: "),
        ({"depth": 1000, "dim": 65536}, "at most 2,000,000,000 parameters"),
    ],
    ids=str,
)
def test_contradictions_are_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        replace(SMALL, **changes)
