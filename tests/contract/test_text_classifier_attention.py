"""Classifiers of texts take every attention mechanism and residual connection; causal ones, all with a causal form."""

from dataclasses import replace

import pytest
import torch
from attention_references import REFERENCES
from torch import Tensor

from robench.attention import ATTENTIONS
from robench.domains.code_points import encoded_batch
from robench.models import RESIDUALS
from robench.models.build import build
from robench.models.word_transformer import Experts, TextClassifier

SMALL = TextClassifier(vocabulary_size=8, num_classes=3, context=11, depth=3, dim=8, num_heads=2, feedforward=10)
WORDS = ["\n", "<unk>", "we", "the", "people"]


def logits_of(architecture: TextClassifier, *texts: str) -> Tensor:
    torch.manual_seed(0)
    model = build(architecture).double().eval()
    model.set_vocabulary(WORDS)  # type: ignore[operator]  # of the classifier
    with torch.no_grad():
        logits: Tensor = model(encoded_batch(texts), seeds=tuple(range(len(texts))))
    return logits


def check_one_by_one(architecture: TextClassifier) -> None:
    texts = ("we the people", "people", "the " * 30)
    together = logits_of(architecture, *texts)
    assert together.shape == (3, 3)
    torch.testing.assert_close(logits_of(architecture, texts[0])[0], together[0], rtol=0, atol=1e-9)
    assert not torch.allclose(together[0], together[1], atol=1e-9)


@pytest.mark.parametrize("kind", list(ATTENTIONS))
def test_every_mechanism_classifies_texts_one_by_one(kind: str) -> None:
    check_one_by_one(replace(SMALL, attention=REFERENCES[kind].declarations[0]))


@pytest.mark.parametrize("kind", list(RESIDUALS))
def test_every_residual_connection_does(kind: str) -> None:
    assert logits_of(replace(SMALL, residual=RESIDUALS[kind]()), "we the people", "people").shape == (2, 3)


@pytest.mark.parametrize("kind", list(ATTENTIONS))
def test_causal_classifiers_with_experts_take_every_mechanism_with_a_causal_form(kind: str) -> None:
    attention = REFERENCES[kind].declarations[0]
    causal = replace(SMALL, is_causal=True, experts=Experts(num_experts=3))
    if attention.causal_problem:
        with pytest.raises(ValueError, match=f"attention must have a causal form; {kind} has none"):
            replace(causal, attention=attention)
        return
    check_one_by_one(replace(causal, attention=attention))


@pytest.mark.parametrize("kind", list(RESIDUALS))
def test_causal_classifiers_take_every_residual_connection_with_a_causal_form(kind: str) -> None:
    residual = RESIDUALS[kind]()
    if residual.causal_problem:
        with pytest.raises(ValueError, match=f"residual must have a causal form; {kind} has none"):
            replace(SMALL, is_causal=True, residual=residual)
        return
    architecture = replace(SMALL, is_causal=True, residual=residual)
    assert logits_of(architecture, "we the people", "people").shape == (2, 3)
