"""What ``import robench`` offers, used as a researcher would."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import write_registry

import robench
from robench.core.errors import DeclarationError, UnknownNameError

DIGITS: dict[str, Any] = {
    "backbone": "vit", "image_size": 32, "patch_size": 8, "num_channels": 3, "num_classes": 10, "depth": 2, "dim": 16,
    "num_heads": 2, "mlp_ratio": 2.0, "residual": {"kind": "plain"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("attention", "rows"),
    [
        ({"kind": "softmax"}, [48, 48]),
        ({"kind": "symmetric"}, [32, 32]),
        ({"kind": "rpc", "num_iterations": 2, "sparsity": 4, "layers": "all", "formula": "released"}, [32, 32]),
        ({"kind": "rpc", "layers": [1], "elsewhere": "softmax"}, [48, 32]),
    ],
)
def test_build_model_takes_the_mapping_of_the_registry(attention: dict[str, Any], rows: list[int]) -> None:
    model = robench.build_model({**DIGITS, "attention": attention})
    assert isinstance(model, torch.nn.Module)
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    state = model.state_dict()
    assert [state[f"blocks.{i}.attn.qkv.weight"].shape[0] for i in range(2)] == rows


def test_build_model_lists_all_problems() -> None:
    with pytest.raises(DeclarationError) as caught:
        robench.build_model({**DIGITS, "depth": 0, "atention": {}, "num_heads": True})
    message = str(caught.value)
    assert all(part in message for part in ("depth", "Did you mean 'attention'?", "num_heads"))


def test_a_checkpoint_is_differentiable_at_any_batch_size() -> None:
    victim = robench.load_checkpoint("digits-rpc-symvit")
    dataset = robench.load_dataset("digits")
    for size in (1, 3, 7):
        pixels = torch.stack([dataset[i][0] for i in range(size)]).requires_grad_(True)
        logits = victim.outputs(pixels)
        assert logits.shape == (size, 10)
        (gradient,) = torch.autograd.grad(logits.sum(), pixels)
        assert bool((gradient.abs().flatten(1).sum(1) > 0).all())
        torch.testing.assert_close(victim.outputs(pixels, seeds=list(range(size))), logits)


def test_other_libraries_attack_a_checkpoint_as_a_module() -> None:
    foolbox, torchattacks = pytest.importorskip("foolbox"), pytest.importorskip("torchattacks")
    model, batch = robench.load_checkpoint("digits-vit"), robench.load_dataset("digits").batch(0, 20)
    module, images = model.as_module(), batch.inputs
    assert not any(part.training for part in module.modules())
    assert not any(each.requires_grad for each in module.parameters())
    torch.testing.assert_close(module(images), model.outputs(images), rtol=0, atol=0)
    torch.testing.assert_close(model(images), model.outputs(images), rtol=0, atol=0)
    right = foolbox.accuracy(foolbox.PyTorchModel(module, bounds=(0, 1)), images, batch.targets)
    assert right == float((model(images).argmax(1) == batch.targets).float().mean()) >= 0.9
    attacked = torchattacks.PGD(module, eps=0.1, alpha=0.03, steps=5)(images, batch.targets)
    assert 0 <= float(attacked.min()) <= float(attacked.max()) <= 1
    assert float((model(attacked).argmax(1) == batch.targets).float().mean()) <= 0.2


@pytest.mark.parametrize("form", [str, Path, lambda path: [path], lambda path: (str(path),)])
def test_a_registry_is_one_path_or_several(tmp_path: Path, form: Callable[[Path], Any]) -> None:
    victim = robench.load_checkpoint("honest", registry=form(write_registry(tmp_path)))
    assert victim.outputs(torch.rand(2, 3, 32, 32)).shape == (2, 10)


def test_a_dataset_is_the_evaluation_split_in_shard_order() -> None:
    dataset = robench.load_dataset("digits")
    image, label = dataset[0]
    assert len(dataset) == 600
    assert image.shape == (3, 32, 32)
    assert 0 <= float(image.min()) <= float(image.max()) <= 1
    assert label == int(dataset.batch(0, 1).targets[0])


def test_run_returns_the_report_and_keeps_the_outcomes(
    small_suite: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[Any] = []
    suite = robench.load_suite(small_suite(**{"num_examples: 150": "num_examples: 50"}))
    report = robench.run(suite, ["digits-vit"], results=tmp_path / "r", on_progress=heard.append)
    assert report.is_complete
    (row,) = report.rows
    estimate = row.cells["pgd/top1_accuracy"].estimate
    assert estimate is not None
    assert estimate.num_examples == 50
    assert len(heard) == 4
    shown = capsys.readouterr()
    assert re.fullmatch(r"0 of 3 shards\n3 of 3 shards \d+ examples/s\n", shown.err)
    again = robench.run(suite, ["digits-vit"], results=tmp_path / "r", on_progress=heard.append)
    assert again == report
    assert len(heard) == 5
    robench.run(suite, ["digits-vit"], results=tmp_path / "other", progress=False)
    # Neither where nothing is left to be measured, nor where it is not wanted.
    assert (shown.out, *capsys.readouterr()) == ("", "", "")


def test_unknown_names_raise_with_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'digits-vit'"):
        robench.load_checkpoint("digit-vit")
    with pytest.raises(UnknownNameError, match="Did you mean 'digits'"):
        robench.load_dataset("digit")
    with pytest.raises(UnknownNameError, match="Did you mean 'digits-adv'"):
        robench.load_suite("digits-avd")


def test_the_package_names_what_it_offers() -> None:
    assert {"ImagePreprocessing", "build_model", "load_checkpoint", "load_dataset", "load_suite", "run"} <= set(
        dir(robench)
    )
    assert robench.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="it has ImagePreprocessing, Smoothed, analyse, attack"):
        robench.nothing  # noqa: B018  # reading it is what is tested
