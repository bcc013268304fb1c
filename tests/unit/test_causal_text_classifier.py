"""Causal classifiers of texts, and both backbones with experts."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
import torch

from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.core.errors import DeclarationError
from robench.core.identity import key_of, to_plain
from robench.declare import parse_architecture
from robench.domains.code_points import encoded_batch
from robench.models.build import build
from robench.models.language_impl import LanguageModel
from robench.models.transformer import Boost
from robench.models.word_transformer import Experts, Language, TextClassifier, WordTransformer
from robench.models.word_transformer_impl import TextClassifierModel
from robench.tasks.language_modeling_impl import NO_TOKEN

TEXTS = TextClassifier(
    vocabulary_size=8, num_classes=3, context=6, depth=2, dim=8, num_heads=2, feedforward=10, dropout=0.3
)
CAUSAL = replace(TEXTS, is_causal=True)
LANGUAGE = Language(vocabulary_size=12, depth=2, dim=8, num_heads=2, feedforward=16, context=5, stride=2)
TOP2, SWITCH = Experts(num_experts=4), Experts(num_experts=3, num_chosen=1, weights="all")
LINFORMER = {"kind": "linformer", "projection_length": 3}
WORDS = ["\n", "<unk>", "we", "the", "people", "of", "union"]
FIELDS = {
    "backbone": "text-classifier", "vocabulary_size": 8, "num_classes": 3, "context": 6, "depth": 2, "dim": 8,
    "num_heads": 2, "feedforward": 10,
}  # fmt: skip


def model_of(architecture: WordTransformer) -> Any:
    torch.manual_seed(0)
    model = build(architecture).double().eval()
    # Larger than at the beginning of training, so that every word matters.
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.set_vocabulary(WORDS)  # type: ignore[operator]  # of both backbones
    return model


def logits_of(model: TextClassifierModel, *texts: str) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(encoded_batch(texts))
    return logits


def test_weights_keys_and_outputs_of_earlier_declarations_are_as_they_were() -> None:
    """Written by the release before experts and causal classifiers."""
    kept = {TEXTS: ("0786eaaa40e6e2468b9a0a623f44882e", "6df249f495dc5c93"),
            LANGUAGE: ("69d45922a3ed7c5e1ee0764d10dc8c76", "23d16def0ec93c17")}  # fmt: skip
    for architecture, (key, weights) in kept.items():
        torch.manual_seed(0)
        found = hashlib.sha256()
        for name, value in build(architecture).state_dict().items():
            found.update(name.encode() + value.contiguous().numpy().tobytes())
        assert (key_of(architecture), found.hexdigest()[:16]) == (key, weights)
    torch.manual_seed(0)
    model = build(TEXTS).eval()
    assert isinstance(model, TextClassifierModel)
    model.set_vocabulary(WORDS)
    expected = [0.035822607576847076, -0.036097001284360886, 0.012538420036435127]
    assert logits_of(model, "we the people")[0].tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_class_token_comes_last_and_reads_every_word(norm: str) -> None:
    model = model_of(replace(CAUSAL, norm=norm))
    words = ["we", "the", "people", "of", "union", "the"]
    first = logits_of(model, " ".join(words))
    assert torch.equal(logits_of(model, " ".join([*words, "we"])), first)
    for place in range(6):
        changed = " ".join([*words[:place], "strangers", *words[place + 1 :]])
        assert not torch.allclose(logits_of(model, changed), first, atol=1e-6)
    for each in model.blocks:
        each.forward = lambda x, first, state: x
    ids = model.tokens(["we the people"])
    token = model.cls_token[0, 0] + model.pos_embed[0, 6]
    torch.testing.assert_close(model.logits_of(ids)[0], model.head(model.norm(token)))


@pytest.mark.parametrize("attention", [Softmax(), Symmetric(), Twicing(), Rpc(num_iterations=2)], ids=lambda a: a.kind)
def test_words_of_a_causal_classifier_do_not_see_later_ones(attention: Any) -> None:
    model = model_of(replace(CAUSAL, attention=attention, residual=Boost(), experts=TOP2))
    seen: list[torch.Tensor] = []
    model.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    blocks: list[torch.Tensor] = []
    model.blocks[-1].register_forward_hook(lambda _, __, output: blocks.append(output))
    for text in ("we the people of union the", "we the people of people we"):
        logits_of(model, text)
    torch.testing.assert_close(blocks[0][:, :4], blocks[1][:, :4], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(blocks[0][:, 4:], blocks[1][:, 4:], atol=1e-6)
    assert seen[0].shape == (1, 8)


@pytest.mark.parametrize("experts", [TOP2, SWITCH], ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_texts_logits_with_experts_do_not_depend_on_others(experts: Experts, is_causal: bool) -> None:
    model = model_of(replace(TEXTS, experts=experts, is_causal=is_causal))
    texts = ["we the people", "union " * 50, "of\n"]
    together = logits_of(model, *texts)
    for row, text in zip(together, texts, strict=True):
        torch.testing.assert_close(logits_of(model, text)[0], row, rtol=0, atol=1e-12)


@pytest.mark.parametrize("experts", [TOP2, SWITCH], ids=str)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_later_words_change_no_earlier_loss_of_a_language_model_with_experts(experts: Experts, norm: str) -> None:
    model = model_of(replace(LANGUAGE, experts=experts, norm=norm))
    assert isinstance(model, LanguageModel)
    first, second = "we the people of union we\n", "we the people union of the\n"
    with torch.no_grad():
        losses = [model(encoded_batch([text]))[0] for text in (first, second)]
    torch.testing.assert_close(losses[0][:3], losses[1][:3], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(losses[0][3:7], losses[1][3:7], atol=1e-6)
    assert bool((losses[0][7:] == NO_TOKEN).all())


def test_an_expert_that_is_chosen_alone_and_whole_is_the_mlp() -> None:
    """With equal experts the mixture is their MLP, since the weights of the chosen ones add up to one."""
    plain, mixed = model_of(TEXTS), model_of(replace(TEXTS, experts=TOP2))
    state = {name: value for name, value in mixed.state_dict().items() if ".mlp.gate." in name}
    for name, value in plain.state_dict().items():
        block, found, rest = name.partition(".mlp.")
        state |= {f"{block}.mlp.experts.{each}.{rest}": value for each in range(4)} if found else {name: value}
    mixed.load_state_dict(state)
    texts = ["we the people", "of union"]
    torch.testing.assert_close(logits_of(mixed, *texts), logits_of(plain, *texts), rtol=1e-12, atol=1e-12)


def test_balance_losses_are_appended_layer_by_layer() -> None:
    model = model_of(replace(TEXTS, experts=TOP2))
    losses: list[torch.Tensor] = []
    logits = model(encoded_batch(["we the people", "of"]), losses_B=losses)
    assert torch.equal(logits, model(encoded_batch(["we the people", "of"])))
    assert [each.shape for each in losses] == [(2,), (2,)]
    language, found = model_of(replace(LANGUAGE, experts=SWITCH)), []
    language.hidden(torch.zeros(3, 5, dtype=torch.int64), losses_B=found)
    assert [each.shape for each in found] == [(3,), (3,)]
    assert bool((torch.stack(found) > 0).all())


def test_experts_are_read_from_files() -> None:
    experts = {"num_experts": 16, "num_chosen": 1, "weights": "all"}
    found = parse_architecture({**FIELDS, "is_causal": True, "experts": experts})
    assert isinstance(found, TextClassifier)
    assert found.experts == Experts(num_experts=16, num_chosen=1, weights="all")
    assert to_plain(found) == {
        **{name: value for name, value in FIELDS.items() if name != "backbone"}, "kind": "text-classifier",
        "is_causal": True, "experts": {"kind": "experts", **experts},
    }  # fmt: skip
    assert parse_architecture({**FIELDS, "experts": None}) == parse_architecture(FIELDS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"experts": {"num_experts": 4, "num_chosen": 5}}, "experts.num_chosen: must be at most num_experts 4, got 5"),
        ({"experts": {"num_experts": 4, "num_chosen": 1}}, "experts.weights: must be all where num_chosen is 1"),
        ({"experts": {"num_chosen": 1}}, "experts.num_experts: missing"),
        ({"experts": {"num_experts": 4, "capacity": 2}}, "experts.capacity: unknown field"),
        ({"experts": 4}, "experts: must be a mapping, got 4"),
        ({"experts": {"num_experts": 4096}, "dim": 4096, "feedforward": 4096}, "at most 2,000,000,000 parameters"),
        ({"is_causal": True, "attention": LINFORMER}, "attention: must have a causal form; linformer has none"),
        ({"is_causal": True, "residual": {"kind": "featscale"}}, "residual: must have a causal form; featscale has"),
    ],
)
def test_impossible_declarations_are_refused(changes: dict[str, object], message: str) -> None:
    parse_architecture(FIELDS)
    with pytest.raises(DeclarationError, match=message):
        parse_architecture({**FIELDS, **changes})


def test_what_is_no_declaration_of_experts_is_refused_in_python_too() -> None:
    with pytest.raises(ValueError, match="experts must be a declaration of the type Experts, got 16"):
        replace(TEXTS, experts=16)
