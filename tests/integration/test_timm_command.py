"""``robench timm`` runs a script as Python does, with the registry's models among timm's."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import Robench
from training_examples import write_tree

from robench.core.checkpoint import Weights
from robench.declare import read_registry, shipped_registry
from robench.models.loading import load_model

pytestmark = pytest.mark.filterwarnings("ignore:Overwriting")

# The parts of timm's train.py, in its order.
TRAIN = """
import argparse
from timm.data import Mixup, create_dataset, create_loader, resolve_data_config
from timm.loss import SoftTargetCrossEntropy
from timm.models import create_model
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import CheckpointSaver, ModelEmaV3, dispatch_clip_grad, random_seed
import settings

parser = argparse.ArgumentParser()
parser.add_argument("data_dir")
parser.add_argument("--model")
parser.add_argument("--output")
parser.add_argument("--drop-path", type=float)
parser.add_argument("--num-classes", type=int)
parser.add_argument("--input-size", type=int, nargs=3)

def main():
    args = parser.parse_args()
    random_seed(settings.SEED, 0)
    model = create_model(
        args.model, pretrained=False, in_chans=3, num_classes=args.num_classes, drop_rate=0.0,
        drop_path_rate=args.drop_path, drop_block_rate=None, global_pool=None, bn_momentum=None, bn_eps=None,
        scriptable=False, checkpoint_path="",
    )
    config = resolve_data_config(vars(args), model=model, verbose=False)
    print("input", config["input_size"], "mean", config["mean"], "crop", config["crop_pct"])
    optimizer = create_optimizer_v2(model, opt="adamw", lr=0.01, weight_decay=0.05)
    model_ema = ModelEmaV3(model, decay=0.9)
    saver = CheckpointSaver(
        model=model, optimizer=optimizer, args=args, model_ema=model_ema, checkpoint_dir=args.output,
        recovery_dir=args.output,
    )
    dataset = create_dataset("", root=args.data_dir, split="train", is_training=True, batch_size=4)
    loader = create_loader(
        dataset, input_size=config["input_size"], batch_size=4, is_training=True, use_prefetcher=False, re_prob=0.25,
        auto_augment="rand-m9-mstd0.5-inc1", interpolation="bicubic", mean=config["mean"], std=config["std"],
        num_workers=0, persistent_workers=False,
    )
    scheduler, num_epochs = create_scheduler_v2(optimizer, sched="cosine", num_epochs=1, warmup_epochs=0)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=args.num_classes)
    model.train()
    for images, targets in loader:
        loss = SoftTargetCrossEntropy()(model(images % 1), mixup(images, targets)[1])
        optimizer.zero_grad()
        loss.backward()
        dispatch_clip_grad(model.parameters(), value=1.0)
        optimizer.step()
        model_ema.update(model)
    scheduler.step(1)
    saver.save_checkpoint(0, metric=1.0)
    print("trained", args.model)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "settings.py").write_text("SEED = 3\n")
    (folder / "train.py").write_text(TRAIN)
    return folder / "train.py"


def small(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "small.py"
    path.write_text(text)
    return path


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """An entry of a user's; ``tests/slow`` has robench's own."""
    if "entry" in metafunc.fixturenames:
        metafunc.parametrize("entry", ["mine"])


def test_a_script_of_timms_shape_trains_entries_and_robench_loads_what_it_saves(
    robench: Robench, tmp_path: Path, script: Path, entry: str
) -> None:
    data = write_tree(tmp_path / "data", per_class=1) / "imagenet-1k"
    (tmp_path / "out").mkdir()
    registry = tmp_path / "mine.yaml"
    registry.write_text(
        "checkpoints:\n  mine:\n    architecture: {backbone: timm, name: vit_tiny_patch16_224,"
        " arguments: {img_size: 32, depth: 1, embed_dim: 24, num_classes: 10}}\n"
        "    weights: {uri: mine.pth, sha256: null}\n"
        "    preprocessing: {kind: image, mean: [0.305, 0.305, 0.305], std: [0.5, 0.5, 0.5]}\n"
    )
    model = "robench_" + entry.replace("-", "_")
    arguments = (script, data, "--model", model, "--output", tmp_path / "out", "--num-classes", 10, "--drop-path", 0.1)
    sizes = ("--input-size", 3, 32, 32)
    before = list(sys.path)
    ended = robench("timm", "--registry", registry, *arguments, *sizes)
    assert ended.code == 0, ended.stderr
    assert ended.stdout == f"input (3, 32, 32) mean (0.305, 0.305, 0.305) crop 1.0\ntrained {model}\n"
    assert sys.path == before
    # The same model, from either of the two sets of weights in the file.
    checkpoint = {**read_registry(shipped_registry()), **read_registry(registry)}[entry]
    logits = []
    for layout in ("timm", "timm-ema"):
        weights = Weights(uri="out/last.pth.tar", sha256=None, layout=layout)
        victim = load_model(replace(checkpoint, folder=tmp_path, weights=weights))
        logits.append(victim.outputs(torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)), [1, 2]))
    assert logits[0].shape == (2, 10)
    assert not torch.equal(*logits)


def test_arguments_folder_and_main_are_those_of_a_script(robench: Robench, tmp_path: Path) -> None:
    path = small(tmp_path, "import sys\nprint(__name__, sys.argv, sys.path[0], __file__)\n")
    ended = robench("timm", path, "--registry", "x", "--help", "-h", "--", "a b")
    arguments = [str(path), "--registry", "x", "--help", "-h", "--", "a b"]
    assert (ended.code, ended.stdout) == (0, f"__main__ {arguments} {tmp_path} {path}\n")


@pytest.mark.parametrize(
    ("ending", "code", "stderr"),
    [
        ("sys.exit(0)", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no such thing')", 1, "no such thing\n"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_the_script_ends_with_its_own_code(
    robench: Robench, tmp_path: Path, ending: str, code: int, stderr: str
) -> None:
    ended = robench("timm", small(tmp_path, f"import sys\n{ending}\n"))
    assert (ended.code, ended.stderr) == (code, stderr)


@pytest.mark.slow
def test_an_error_of_the_script_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    path = small(tmp_path, "def fails():\n    return 1 / 0\n\nfails()\n")
    command = [sys.executable, "-m", "robench", "timm", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f'File "{path}", line 2, in fails' in ended.stderr
    assert ended.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "fault of robench" not in ended.stderr


def test_what_robench_refuses_is_one_message(robench: Robench, tmp_path: Path) -> None:
    path = small(tmp_path, "import timm\ntimm.create_model('robench_digits_vit', pretrained=True)\n")
    ended = robench("timm", path)
    assert ended.code == 2
    assert ended.stderr.startswith("Error: timm model robench_digits_vit has no pretrained weights")


def test_a_script_that_is_not_there_is_named(robench: Robench, tmp_path: Path) -> None:
    ended = robench("timm", tmp_path / "train.py")
    assert (ended.code, ended.stdout) == (2, "")
    assert re.search(r"no such file: \S+train\.py", ended.stderr)
