"""Likelihoods of texts beside those of lm-evaluation-harness, which runs in an environment of its own."""

import json
import os
import subprocess
from pathlib import Path

import hub_models
import pytest
import torch
from conftest import ROOT
from environments import python_with
from hub_models import CONTEXT, TEXTS

from robench.domains.code_points import encoded_batch
from robench.models.hub import Transformers
from robench.models.hub_impl import adapted
from robench.tasks.language_modeling_impl import NO_TOKEN

PROGRAM = """
import json, sys
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, context, texts = sys.argv[1], int(sys.argv[2]), json.loads(sys.stdin.read())
model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
harness = HFLM(pretrained=model, tokenizer=tokenizer, max_length=context, batch_size=2)
asked = [Instance("loglikelihood_rolling", {}, (text,), number) for number, text in enumerate(texts)]
print("found", json.dumps(harness.loglikelihood_rolling(asked, disable_tqdm=True)))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of an environment with lm-evaluation-harness beside this one's packages."""
    return str(python_with(tmp_path_factory.mktemp("environment"), "lm-eval==0.4.13", "accelerate", "peft"))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_rolling_likelihoods_are_those_of_the_harness(python: str, tmp_path: Path, name: str) -> None:
    model = {"gpt2": hub_models.gpt2, "llama": hub_models.llama}[name]()
    folder = hub_models.save(tmp_path / name, model)
    ended = subprocess.run(
        [python, "-c", PROGRAM, folder, str(CONTEXT)],
        input=json.dumps(TEXTS),
        env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    theirs = json.loads(ended.stdout.split("found ", 1)[1])
    with torch.no_grad():
        outputs = adapted(model, hub_models.tokenizer(), Transformers(task="causal-lm"))(encoded_batch(TEXTS))
    ours = [-float(row[row != NO_TOKEN].double().sum()) for row in outputs]
    assert ours == pytest.approx(theirs, rel=1e-5)
