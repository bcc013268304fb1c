"""Compares robench's attacks with other libraries' at the same settings (``make strength``): how many stand, how fast.

Writes reports/strength.json, with a manifest of what it rests on, and reports/strength.md, the same as tables. Exits
with 1 where robench is weaker than the best library by more than 0.5 points (and, of attacks that draw random numbers,
by more than chance explains: paired exact p below 0.01), or where an attack that draws none judges more than 2 % of the
images differently, unless the table of exceptions says why; and where AutoAttack agrees with pyautoattack on fewer
images than pyautoattack with itself (``strength_agreement``). ``--part`` makes one of the two parts alone, and keeps
what the files have of the other; ``--attack`` with ``--part libraries`` keeps all other comparisons.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import torch
from strength_agreement import NUM_EXAMPLES as NUM_OF_AGREEMENT
from strength_agreement import SUBJECTS, Agreement, Subject, agreement_of, as_lines
from strength_art import run_art
from strength_settings import COMPARISONS, EXCEPTIONS, MODELS, NUM_EXAMPLES, Comparison, shortened
from strength_table import as_markdown

from robench import load_checkpoint, load_dataset
from robench.attacks.attack import problem_of
from robench.attacks.square import Square
from robench.core.identity import to_plain
from robench.core.protocols import Batch, Perturbed
from robench.core.seeds import example_seed
from robench.domains.images import IMAGES
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions
from robench.metrics.paired import exact_p_value
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.classification_impl import predicted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from robench.attacks.base import Attack
    from robench.core.protocols import Dataset, Model

SEED = 0
BATCH_SIZE = 100
DATASET = "digits"
PACKAGES = ("torchattacks", "pyautoattack", "foolbox", "cleverhans", "adversarial-robustness-toolbox")
WEAKER_BY, DIFFERENT, CHANCE = 0.005, 0.02, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one implementation of one attack did to one model.

    Attributes:
        accuracy: share of the images that stand: right when clean, and at what the attack made of them.
        agreement: share of the images of which robench's says the same; None of robench itself.
        seconds: of the attack alone.
        problem: what breaks the rules and is no exception; empty where nothing does.
    """

    model: str
    attack: str
    library: str
    num_examples: int
    accuracy: float
    agreement: float | None
    seconds: float
    examples_per_second: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which images stand, (N,), and how long it took."""

    survives: Tensor
    seconds: float


def compare(models: Sequence[str], comparisons: Iterable[Comparison], num_examples: int) -> Iterator[Row]:
    """Yield the rows of every comparison of every model, robench's first."""
    dataset = load_dataset(DATASET)
    for model in models:
        victim = load_checkpoint(model)
        for comparison in comparisons:
            few = replace(comparison, num_examples=min(num_examples, comparison.num_examples))
            yield from _rows(model, few, {name: attacked(few, name, victim, dataset) for name in _names(few)})


def _names(comparison: Comparison) -> tuple[str, ...]:
    return "robench", *comparison.libraries


def attacked(comparison: Comparison, library: str, victim: Model, dataset: Dataset, seed: int = SEED) -> Outcome:
    """Return what an implementation does to the first images of the dataset, in batches as robench runs them."""
    pieces, seconds = [], 0.0
    with fixed_arithmetic(victim.device):
        for start in range(0, comparison.num_examples, BATCH_SIZE):
            batch = dataset.batch(start, min(start + BATCH_SIZE, comparison.num_examples))
            kind = comparison.declared.kind
            seeds = [example_seed(seed, dataset.identity.fingerprint, kind, example_id) for example_id in batch.ids]
            started = time.perf_counter()
            perturbed = _perturbed(comparison, library, batch, victim, ExampleDraws(seeds))
            seconds += time.perf_counter() - started
            pieces.append(_survivors(comparison, perturbed, batch, victim))
    return Outcome(torch.cat(pieces), seconds)


def _perturbed(comparison: Comparison, library: str, batch: Batch, victim: Model, draws: ExampleDraws) -> Perturbed:
    declared: Any = comparison.declared
    if library == "art":
        problem = problem_of(declared, batch, victim, draws, len(batch.ids))
        return Perturbed(inputs=run_art(declared, problem).clamp(0, 1))
    # Libraries' Square has trials of one kind, and those of robench's default are none of theirs.
    changes = {"trials": "as_drawn"} if isinstance(declared, Square) and library != "robench" else {}
    return perturb(replace(declared, backend=library, **changes), batch, victim, draws, len(batch.ids))


def _survivors(comparison: Comparison, perturbed: Perturbed, batch: Batch, victim: Model) -> Tensor:
    distances = IMAGES.rules.check_perturbed(perturbed.inputs, batch.inputs, comparison.declared, victim)
    with torch.no_grad():
        is_right = predicted(victim.outputs(perturbed.inputs)) == batch.targets
        was_right = predicted(victim.outputs(batch.inputs)) == batch.targets
    if comparison.radius is not None:
        is_right = is_right | (distances[comparison.norm] > float(comparison.radius) + 1e-6)
    return is_right & was_right


def _rows(model: str, comparison: Comparison, outcomes: dict[str, Outcome]) -> Iterator[Row]:
    own, count = outcomes["robench"].survives, comparison.num_examples
    for library, outcome in outcomes.items():
        num_same = int((outcome.survives == own).sum())
        yield Row(
            model=model,
            attack=comparison.name,
            library=library,
            num_examples=count,
            accuracy=float(outcome.survives.double().mean()),
            agreement=None if library == "robench" else num_same / count,
            seconds=round(outcome.seconds, 3),
            examples_per_second=round(count / outcome.seconds, 2),
            problem=problem_with(comparison, library, own, outcome.survives),
        )


def problem_with(comparison: Comparison, library: str, own: Tensor, theirs: Tensor) -> str:
    """Return what is wrong with robench beside a library; ``own`` and ``theirs`` say which images stand, (N,).

    Of few images one may differ, whatever the share; and random numbers may favour either side, as far as chance goes.
    """
    if (comparison.name, library) in EXCEPTIONS or library == "robench":
        return ""
    num_more, num_other = int(own.sum()) - int(theirs.sum()), int((own != theirs).sum())
    is_chance = not comparison.is_deterministic and exact_p_value(own.tolist(), theirs.tolist()) >= CHANCE
    if num_more > max(1, int(WEAKER_BY * len(own))) and not is_chance:
        return f"{num_more} more images stand against robench's"
    if comparison.is_deterministic and num_other > max(1, int(DIFFERENT * len(own))):
        return f"{num_other} verdicts differ"
    return ""


def agreements(subjects: Iterable[Subject], num_examples: int) -> Iterator[Agreement]:
    """Yield how often AutoAttack and pyautoattack agree, and pyautoattack with itself at another seed."""
    dataset = load_dataset(DATASET)
    for subject in subjects:
        victim = subject.victim(load_checkpoint(subject.checkpoint))
        comparison = Comparison(
            name=subject.name, declared=subject.declared, libraries=("autoattack",), num_examples=num_examples
        )
        runs = (("robench", SEED), ("autoattack", SEED), ("autoattack", SEED + 1))
        own, first, second = (attacked(comparison, library, victim, dataset, seed) for library, seed in runs)
        seconds = [each.seconds for each in (own, first, second)]
        yield agreement_of(subject.name, own.survives, first.survives, second.survives, seconds)


def manifest(settings: Mapping[str, Attack], num_examples: int) -> dict[str, Any]:
    """Return what the numbers rest on."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device_kind(torch.device("cpu")),
        "threads": 1,
        "versions": library_versions() | {name: version(name) for name in PACKAGES},
        "dataset": DATASET,
        "num_examples": num_examples,
        "batch_size": BATCH_SIZE,
        "seed": SEED,
        "settings": {name: to_plain(declared) for name, declared in settings.items()},
    }


@click.command()
@click.option("--model", "models", multiple=True, default=MODELS, help="A checkpoint of the registry; may be repeated.")
@click.option("--attack", "attacks", multiple=True, help="A comparison by its name; may be repeated; all by default.")
@click.option("--num-examples", default=NUM_EXAMPLES, type=click.IntRange(1), help="At most so many images.")
@click.option("--quick", is_flag=True, help="Few steps, and no ensembles.")
@click.option("--part", default="all", type=click.Choice(["all", "libraries", "agreement"]), help="One part alone.")
@click.option("--output", default=Path("reports"), type=click.Path(path_type=Path), help="Folder of the two files.")
def main(
    models: tuple[str, ...], attacks: tuple[str, ...], num_examples: int, quick: bool, part: str, output: Path
) -> None:
    """Compare robench's attacks with other libraries' at the same settings."""
    kept = output / "strength.json"
    document = json.loads(kept.read_text()) if part != "all" and kept.exists() else {}
    output.mkdir(parents=True, exist_ok=True)

    def save(changes: Mapping[str, Any]) -> None:
        document.update(changes)
        kept.write_text(json.dumps(document, indent=1) + "\n")
        (output / "strength.md").write_text(as_markdown(document))

    if part != "agreement":
        found = compared(models, attacks, num_examples, quick=quick)
        save(beside_others(document, found) if attacks and "rows" in document else found)
    if part != "libraries" and not quick and not attacks:
        for agreement in agreed(min(num_examples, NUM_OF_AGREEMENT)):
            save({"agreement": agreement})
    if any(row["problem"] for row in [*document.get("rows", ()), *document.get("agreement", {}).get("rows", ())]):
        raise SystemExit(1)


def compared(models: Sequence[str], attacks: Sequence[str], num_examples: int, *, quick: bool) -> dict[str, Any]:
    """Return the comparison with all libraries as values of JSON, and print its rows."""
    comparisons = [each for each in COMPARISONS if not attacks or each.name in attacks]
    if quick:
        comparisons = [shortened(each) for each in comparisons]
    rows = []
    for row in compare(models, comparisons, num_examples):
        rows.append(row)
        click.echo(
            f"{row.model}  {row.attack}  {row.library}  {100 * row.accuracy:.1f}  {row.seconds} s  {row.problem}"
        )
    settings = {each.name: each.declared for each in comparisons}
    return {"manifest": manifest(settings, num_examples), "rows": [asdict(row) for row in rows]}


def beside_others(document: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return some comparisons measured anew beside the others of a document, but for those that there are no more."""
    settings, date = found["manifest"]["settings"], found["manifest"]["date"]
    places = {each.name: place for place, each in enumerate(COMPARISONS)}
    anew = {(row["model"], row["attack"]) for row in found["rows"]}
    old = [row for row in document["rows"] if row["attack"] in places and (row["model"], row["attack"]) not in anew]
    models = list(dict.fromkeys([*MODELS, *(row["model"] for row in [*old, *found["rows"]])]))
    rows = sorted([*old, *found["rows"]], key=lambda row: (models.index(row["model"]), places[row["attack"]]))
    kept = {name: value for name, value in document["manifest"]["settings"].items() if name in places}
    dates = document["manifest"].get("measured_later", {}) | dict.fromkeys(settings, date)
    return {
        "manifest": document["manifest"] | {"settings": kept | settings, "measured_later": dates},
        "rows": rows,
    }


def agreed(num_examples: int) -> Iterator[dict[str, Any]]:
    """Yield how often AutoAttack agrees with pyautoattack as values of JSON after each model, and print it.

    A model takes up to half an hour: what is measured is not lost when a later one is interrupted.
    """
    about = manifest({each.name: each.declared for each in SUBJECTS}, num_examples)
    rows: list[dict[str, Any]] = []
    for row in agreements(SUBJECTS, num_examples):
        rows.append(asdict(row))
        click.echo(list(as_lines(rows[-1:]))[-1])
        yield {"manifest": about, "rows": list(rows)}


if __name__ == "__main__":
    main()
