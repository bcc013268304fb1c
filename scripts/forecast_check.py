"""Runs of robench on this machine beside their forecasts: ``python scripts/forecast_check.py`` (two minutes).

Models have random weights, images are noise, and texts repeat a few words, in the published forms. Runs are timed in
CPU seconds of this process, with one thread, since other programs may part the machine. The speed of the machine is
that of the first run, whose ratio is therefore 1. A training on images is timed from one epoch to the next, a text as
the difference to a shorter one, and a training on texts as the difference to smaller batches, so that starts do not
count, nor the step of the optimiser, which is one for 96 windows in the recipe. The exit code is 1 if a run takes more
than twice the upper bound of its forecast, or less than half of the lower.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from robench.core.checkpoint import Checkpoint, Weights
from robench.datasets.published_texts import WIKITEXT_103, TokenFiles
from robench.declare import find_suite, read_registry, shipped_registry
from robench.executors import IN_PROCESS
from robench.models.build import build
from robench.papers.forecast import SECONDS_PER_HOUR, Forecast, Hours
from robench.runs import RunRequest, prepare
from robench.scheduling import Listener
from robench.store import MemoryStore
from robench.training import texts_impl
from robench.training.base import Host
from robench.training.deit_impl import train_deit
from robench.training.texts_impl import train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from robench.core.suite import Suite

CLASSES = ("n01440764", "n01443537", "n03000684", "n15075141")
NUM_IMAGES, NUM_ATTACKED, BATCH_SIZE = 64, 24, 8
# An epoch of DeiT's recipe is a multiple of 256 images.
NUM_LEARNED, DEIT_BATCH = 256, 32
NUM_TOKENS, NUM_STEPS, WINDOWS_A_STEP = (400, 600), 2, (4, 16)
FACTOR = 2.0
FIRST = "deit-tiny-baseline-twicing"
WORDS = ("the", "lobster", "is", "large", ",", "of", "<unk>", "was", "blue", "and", "poet", "wrote", "it", ".")
IMAGES = """
name: check
version: 1
description: Clean images, and an attack in few steps
dataset: imagenet-1k
seed: 0
batch_size: 8
conditions:
  - {name: clean}
  - {name: pgd-5, perturbation: {kind: pgd, epsilon: 1/255, step_size: 1/1020, num_steps: 5, returns: last}}
metrics: [top1_accuracy]
"""
TEXTS = """
name: check
version: 1
description: A text
task: language-modeling
dataset: wikitext-103
seed: 0
batch_size: 1
conditions:
  - {name: clean}
metrics: [perplexity]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Forecast of a run, and what it took."""

    name: str
    hours: Hours
    seconds: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the forecast in seconds."""
        return SECONDS_PER_HOUR * self.hours.low, SECONDS_PER_HOUR * self.hours.high

    @property
    def ratio(self) -> float:
        """Return the measured seconds over the nearest bound; 1 between them."""
        return self.seconds / min(max(self.seconds, self.bounds[0]), self.bounds[1])


class Runs:
    """Runs in a folder that holds data and weights."""

    def __init__(self, folder: Path, forecast: Forecast) -> None:
        self._folder, self._forecast = folder, forecast
        self._entries = read_registry(shipped_registry())
        write_images(folder / "imagenet-1k" / "val", NUM_IMAGES)
        write_images(folder / "imagenet-1k" / "train", NUM_LEARNED)
        (folder / "images.yaml").write_text(IMAGES)
        (folder / "texts.yaml").write_text(TEXTS)

    def images(self, name: str, condition: str = "clean", num_images: int = NUM_IMAGES) -> Compared:
        """Measure a model of images."""
        checkpoint = self._with_weights(name)
        suite = find_suite(str(self._folder / "images.yaml")).only({condition})
        hours = known(self._forecast.measuring(checkpoint, suite.conditions, num_images))
        seconds = self._filled(checkpoint, suite, num_images)
        return Compared(name=f"{name}, {condition}, {num_images} images", hours=hours, seconds=seconds)

    def texts(self, name: str) -> Compared:
        """Measure a language model, each token after those before it."""
        checkpoint = self._with_weights(name)
        hours, seconds = [], []
        for num_tokens in NUM_TOKENS:
            suite = find_suite(str(self._folder / "texts.yaml"))
            declared = write_text(self._folder, num_tokens)
            suite = replace(suite, conditions=tuple(replace(each, dataset=declared) for each in suite.conditions))
            hours.append(known(self._forecast.measuring(checkpoint, suite.conditions)))
            seconds.append(self._filled(checkpoint, suite))
        return Compared(
            name=f"{name}, clean, {NUM_TOKENS[1] - NUM_TOKENS[0]} words",
            hours=Hours(hours[1].low - hours[0].low, hours[1].high - hours[0].high),
            seconds=seconds[1] - seconds[0],
        )

    def training_on_images(self, name: str) -> Compared:
        """Train by DeiT's recipe for two epochs, and time the second."""
        entry = self._entries[name]
        recipe: Any = entry.training
        short = replace(recipe, num_epochs=2, batch_size=DEIT_BATCH, mixing_group_size=DEIT_BATCH)
        clock: list[float] = []
        train_deit(
            replace(entry, training=short),
            Host(data_root=self._folder),
            lambda report: clock.append(time.process_time()),
        )
        part = NUM_LEARNED / (recipe.total_epochs * 1_281_167)
        return Compared(
            name=f"{name}, training, {NUM_LEARNED} images",
            hours=known(self._forecast.training(entry)).times(part),
            seconds=clock[1] - clock[0],
        )

    def training_on_texts(self, name: str) -> Compared:
        """Train a language model for a few steps, in batches of two sizes."""
        entry, declared = self._entries[name], write_text(self._folder, 256 * NUM_STEPS * WINDOWS_A_STEP[1] + 600)
        recipe: Any = entry.training
        hours, seconds = [], []
        with patch.object(texts_impl, "open_dataset", lambda name, **options: opened(declared, **options)):
            for size in WINDOWS_A_STEP:
                short = replace(recipe, num_epochs=1, num_steps=NUM_STEPS, batch_size=size, warmup_steps=1)
                shortened = replace(entry, training=short)
                hours.append(known(self._forecast.training(shortened)))
                seconds.append(timed(partial(train, shortened, Host(data_root=self._folder))))
        return Compared(
            name=f"{name}, training, {NUM_STEPS * (WINDOWS_A_STEP[1] - WINDOWS_A_STEP[0])} windows",
            hours=Hours(hours[1].low - hours[0].low, hours[1].high - hours[0].high),
            seconds=seconds[1] - seconds[0],
        )

    def _with_weights(self, name: str) -> Checkpoint:
        """Return an entry with random weights in the folder."""
        entry = self._entries[name]
        torch.manual_seed(0)
        module: Any = build(entry.architecture)
        if hasattr(module, "set_vocabulary"):
            module.set_vocabulary(["\n", "=", "Article", *WORDS])
        path = self._folder / f"{name}.safetensors"
        save_file({key: value.clone().contiguous() for key, value in module.state_dict().items()}, path)
        return replace(entry, weights=Weights(uri=path.name, sha256=None), folder=self._folder, expected={})

    def _filled(self, checkpoint: Checkpoint, suite: Suite, limit: int | None = None) -> float:
        request = RunRequest(
            suites=(suite,),
            checkpoints=(checkpoint,),
            device="cpu",
            executor=IN_PROCESS,
            data_root=self._folder,
            audit=False,
            limit=limit,
        )
        prepared, store = prepare(request), MemoryStore()
        seconds = timed(lambda: prepared.fill(store, Listener()))
        if store.keys() != {each.key for each in prepared.shards}:
            raise SystemExit(f"{checkpoint.name} failed")
        return seconds


def opened(declared: TokenFiles, *, data_root: Path, split: str, **unused: object) -> Any:
    """Return a split of the written text."""
    from robench.datasets.wikitext_impl import WikiText

    return WikiText(declared, data_root, split)


def known(hours: Hours | None) -> Hours:
    """Return hours that are known."""
    assert hours is not None
    return hours


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work in this process."""
    started = time.process_time()
    work()
    return time.process_time() - started


def write_images(folder: Path, count: int) -> None:
    """Write JPEG files of noise in a folder for each class."""
    generator = np.random.default_rng(0)
    for number in range(count):
        wnid = CLASSES[number % len(CLASSES)]
        (folder / wnid).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 255, (256, 256, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / wnid / f"{wnid}_{number:08}.JPEG")


def write_text(root: Path, num_tokens: int) -> TokenFiles:
    """Write one article of so many tokens as each split; return their declaration."""
    # An empty line, the title with five tokens, another empty line, and the end of the text.
    count = num_tokens - 1 - 6 - 1 - 1
    text = " ".join(WORDS[place % len(WORDS)] for place in range(count))
    declared = replace(WIKITEXT_103, num_tokens=(num_tokens,) * 3)
    (root / declared.folder).mkdir(exist_ok=True)
    for split in declared.splits:
        (root / declared.path_of(split)).write_text(f" \n = Article one two = \n \n {text} \n")
    return declared


def speed(folder: Path) -> float:
    """Return the speed of the first run, in floating-point operations per CPU second."""
    at_one = Runs(folder, Forecast(flops_per_second=1.0)).images(FIRST)
    return at_one.bounds[0] / at_one.seconds


def compared(folder: Path, flops_per_second: float) -> Iterator[Compared]:
    """Yield the runs."""
    runs = Runs(folder, Forecast(flops_per_second=flops_per_second))
    yield runs.images(FIRST)
    yield runs.images(FIRST, "pgd-5", NUM_ATTACKED)
    yield runs.images("rpc-symvit")
    yield runs.images("rkde-huber-vit-tiny")
    yield runs.texts("wikitext-softmax-small")
    yield runs.training_on_images("deit-tiny-baseline-twicing")
    yield runs.training_on_texts("wikitext-softmax-small")


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        achieved = speed(Path(folder))
        sys.stdout.write(f"speed of the first run: {achieved / 1e9:.1f} GFLOPS\n")
        sys.stdout.write("| run | forecast, s | measured, s | ratio |\n|---|---|---|---|\n")
        is_within = True
        for each in compared(Path(folder), achieved):
            low, high = each.bounds
            sys.stdout.write(f"| {each.name} | {low:.1f}-{high:.1f} | {each.seconds:.1f} | {each.ratio:.2f} |\n")
            sys.stdout.flush()
            is_within &= 1 / FACTOR <= each.ratio <= FACTOR
    raise SystemExit(0 if is_within else 1)


if __name__ == "__main__":
    main()
