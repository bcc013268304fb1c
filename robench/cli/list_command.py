"""``robench list`` and ``robench show``: all that can be named on the command line, as plain values and in words."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import yaml
from click.shell_completion import CompletionItem

from robench.analyses import ANALYSES
from robench.attacks import ATTACKS
from robench.attention import ATTENTIONS
from robench.cli.names import beginning_with, given_registries
from robench.cli.options import json_option, option, registry_option
from robench.cli.terminal import out_document, out_entries, out_json
from robench.core.budgets import spelling_of
from robench.core.checkpoint import Checkpoint
from robench.core.columns import fields_of
from robench.core.errors import RobenchError, UnknownNameError
from robench.core.identity import Plain, to_plain
from robench.core.inert import printable
from robench.core.plugins import Claim, Plugins, strays
from robench.core.suite import Suite
from robench.corruptions import COMMON_CORRUPTIONS, CORRUPTIONS, EXTRA_CORRUPTIONS, SERIES_TYPES, TYPES
from robench.datasets import DATASETS
from robench.datasets.user import UserDataset
from robench.declarations.base import DeclarationBase
from robench.declare import find_datasets, find_suite, read_registries, shipped_suites
from robench.declare.schema import fields_problem
from robench.declare.sweeps import KEY, SweepEntry
from robench.domains import DOMAINS
from robench.executors import EXECUTORS
from robench.metrics import METRICS, Metric
from robench.models import BACKBONES, RESIDUALS
from robench.perturbations import PERTURBATIONS
from robench.perturbations.sweep import Sweep
from robench.tasks import TASKS, Task
from robench.training import TRAININGS

Entry = dict[str, Plain]
_COLUMNS = ("name", "summary")
# Smaller families are shorter as they are.
_LEAST_FOLDED = 5
SWEEP_EXAMPLE = "{kind: fgsm, epsilons: [2/255, 4/255, 8/255], carry: true}"
LIVE = "generated on the fly at a severity from 1 to 5"


def _models(registries: Sequence[Path]) -> list[Entry]:
    names = (
        *("task", "architecture", "weights", "preprocessing", "training_data", "trained_on", "source", "licence"),
        *("expected", "training", "coupled", "patches", "smoothing"),
    )
    return [
        {
            "name": each.name,
            "summary": summary_of(each),
            **{name: to_plain(getattr(each, name)) for name in names},
            **{name: text for name, text in (("paper", each.paper), ("code", each.code)) if text},
        }
        for each in read_registries(registries).values()
    ]


def _suite(suite: Suite, path: Path) -> Entry:
    return {
        "name": suite.name,
        "summary": suite.description.strip(),
        **{name: getattr(suite, name) for name in ("version", "seed", "task", "batch_size")},
        "conditions": [
            {
                "name": condition.name,
                "dataset": None if suite.lacks_dataset else condition.dataset.name,
                "perturbation": to_plain(condition.perturbation),
                "num_examples": condition.num_examples,
                **({"batch_dependent": attack} if (attack := condition.perturbation.batch_dependence) else {}),
            }
            for condition in suite.conditions
        ],
        "metrics": list(suite.metrics),
        "columns": [column.key for column in suite.columns],
        "file": str(path),
    }


def _family(members: Plugins[Any], described: Callable[[str, Any], Entry]) -> list[Entry]:
    """Return an entry for each member, including third-party and broken ones."""
    entries: list[Entry] = []
    for name, member in members.loaded():
        claim = next(iter(members.claims_of(name)), None)
        if claim is None:
            entries.append({"name": name, **described(name, member)})
        elif isinstance(member, type) and (wrong := fields_problem(member)):
            entries.append(_broken(name, str(members.refusal(name, wrong)), claim))
        else:
            entry = {"name": name, **described(name, member)}
            entries.append(entry | {"summary": f"{entry['summary']} [{claim.owner}]", **_from(claim)})
    entries += [_broken(name, message, members.claims_of(name)[0]) for name, message in members.broken()]
    return entries + [_broken(claim.name, f"{claim.owner}: {wrong}", claim) for claim, wrong in strays().items()]


def _broken(name: str, message: str, claim: Claim) -> Entry:
    return {"name": name, "summary": f"broken: {message}", "broken": message, **_from(claim)}


def _from(claim: Claim) -> Entry:
    return {"distribution": claim.distribution, "distribution_version": claim.release}


def _declared(name: str, declaration: type[DeclarationBase], prefix: str = "") -> Entry:
    description = inspect.getdoc(declaration) or ""
    return {
        "summary": prefix + description.split("\n\n")[0].replace("\n", " "),
        "description": description,
        "version": declaration.version,
        "fields": _fields(declaration),
    }


def _fields(declaration: type) -> Entry:
    hints = get_type_hints(declaration)
    described: Entry = {}
    for field in dataclasses.fields(declaration):
        is_required = field.default is field.default_factory is dataclasses.MISSING
        default = {} if field.default is dataclasses.MISSING else {"default": to_plain(field.default)}
        described[field.name] = {"type": type_in_words(hints[field.name]), "required": is_required, **default}
    return described


def _datasets(registries: Sequence[Path]) -> list[Entry]:
    known = find_datasets(registries)
    users = [(name, known[name]) for name in known if name not in DATASETS]
    return [
        *_family(DATASETS, _dataset),
        *({"name": name, **_dataset(name, declared)} for name, declared in users),
    ]


def _dataset(name: str, declared: Any) -> Entry:
    return {"summary": declared.title, **_without_kind(to_plain(declared))}


def _without_kind(plain: Plain) -> Entry:
    assert isinstance(plain, dict)
    return {name: value for name, value in plain.items() if name not in ("kind", "name", "maker")}


def _metric(name: str, metric: Metric) -> Entry:
    return {"summary": metric.title, **_without_kind(to_plain(dataclasses.asdict(metric)))}


def _task(name: str, task: Task) -> Entry:
    columns = ", ".join(fields_of(task.outcome))
    return {"summary": task.title, "metric": task.metric, "losses": [*task.losses, "objective"], "columns": columns}


def _attacks(registries: Sequence[Path]) -> list[Entry]:
    others = {name: declared for name, declared in PERTURBATIONS.builtin.items() if name not in ATTACKS.builtin}
    own = [{"name": name, **_declared(name, declared)} for name, declared in others.items()]
    return [*own, *_family(ATTACKS, _declared), _sweep()]


def _sweep() -> Entry:
    """Return sweeps as files have them: fields beside those of the attack, and an example."""
    described = _declared(Sweep.kind, Sweep)
    del described["description"]
    usage = f"Any attack with a budget, with {KEY} in place of epsilon, and the fields below."
    return {"name": Sweep.kind, **described, "usage": usage, "fields": _fields(SweepEntry), "example": SWEEP_EXAMPLE}


def _corruptions(registries: Sequence[Path]) -> list[Entry]:
    own: list[Entry] = [
        {"name": name, "summary": f"{_set_of(name)}, {LIVE}", "implementation": path} for name, path in TYPES.items()
    ]
    own += [
        {"name": name, "summary": f"Corruption of time series, {LIVE}", "implementation": path}
        for name, path in SERIES_TYPES.items()
    ]
    return [*own, *_family(CORRUPTIONS, lambda name, member: _declared(name, member, f"{_set_of(name)}: "))]


def _set_of(corruption: str) -> str:
    is_published = corruption in (*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS)
    return "One of ImageNet-C's corruptions" if is_published else "None of ImageNet-C's corruptions"


# Maps a kind to a function from further registry files to its entries, each with `name` and `summary`.
CATALOGUE: Mapping[str, Callable[[Sequence[Path]], list[Entry]]] = {
    "models": _models,
    "suites": lambda registries: [_suite(find_suite(name), path) for name, path in shipped_suites().items()],
    "attacks": _attacks,
    "corruptions": _corruptions,
    "datasets": _datasets,
    "attentions": lambda registries: _family(ATTENTIONS, _declared),
    "metrics": lambda registries: _family(METRICS, _metric),
    "backbones": lambda registries: _family(BACKBONES, _declared),
    "residuals": lambda registries: _family(RESIDUALS, _declared),
    "trainings": lambda registries: _family(TRAININGS, _declared),
    "domains": lambda registries: _family(DOMAINS, lambda name, domain: {"summary": domain.title}),
    "tasks": lambda registries: _family(TASKS, _task),
    "executors": lambda registries: _family(EXECUTORS, _declared),
    "analyses": lambda registries: _family(ANALYSES, _declared),
}


@click.command("list")
@click.argument("kind", type=click.Choice(list(CATALOGUE)))
@option("--all", "show_all", is_flag=True, help="A row for each member of a large family such as imagenet-c/TYPE/1.")
@registry_option
@json_option
def command(kind: str, show_all: bool, registries: tuple[Path, ...], as_json: bool) -> int:
    """List all models, suites, or plug-ins of a family, including those of other distributions.

    Families of many names that differ after a slash are one row each, unless --all is given; --json has every name.
    """
    entries = CATALOGUE[kind](registries)
    rows = [tuple(str(entry[column]) for column in _COLUMNS) for entry in entries]
    out_entries(as_json, entries, _COLUMNS, rows if show_all else _folded(rows))
    return 0


def _folded(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return one row for each large family of names with the same beginning, in place of its first member."""
    families: dict[str, list[str]] = {}
    for name, _ in rows:
        if "/" in name:
            families.setdefault(name.partition("/")[0], []).append(name)
    large = {family: names for family, names in families.items() if len(names) >= _LEAST_FOLDED}
    folded: dict[str, tuple[str, ...]] = {}
    for name, summary in rows:
        names = large.get(name.partition("/")[0], []) if "/" in name else []
        if names:
            folded[_pattern(names)] = (_pattern(names), f"{len(names)}, {names[0]} to {names[-1]}; --all lists them")
        else:
            folded[name] = (name, summary)
    return list(folded.values())


def _pattern(names: Sequence[str]) -> str:
    """Return the parts that all names share, with ``*`` for the others.

    >>> _pattern(["imagenet-c/fog/1", "imagenet-c/fog/2"])
    'imagenet-c/fog/*'
    """
    parts = [name.split("/") for name in names]
    length = min(map(len, parts))
    shared = [each[0] if len(set(each)) == 1 else "*" for each in zip(*(part[:length] for part in parts), strict=True)]
    return "/".join(shared)


def complete_anything(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of every kind: models, suites, attacks and other plug-ins, but for kinds that cannot be read."""
    names: list[str] = []
    for listed in CATALOGUE.values():
        with suppress(RobenchError):
            names += [str(entry["name"]) for entry in listed(given_registries(context))]
    return beginning_with(incomplete, names)


@click.command("show")
@click.argument("name", shell_complete=complete_anything)
@registry_option
@json_option
def show_command(name: str, registries: tuple[Path, ...], as_json: bool) -> int:
    """Show everything known about NAME, of any kind."""
    entries = [(kind, entry) for kind, listed in CATALOGUE.items() for entry in listed(registries)]
    found = [{"is_one_of": kind, **entry} for kind, entry in entries if entry["name"] == name]
    if not found:
        raise UnknownNameError("name", name, [str(entry["name"]) for _, entry in entries])
    for entry in found:
        entry |= _content_of(name, registries) if entry["is_one_of"] == "datasets" else {}
    if as_json:
        out_json(found)
    else:
        out_document("---\n".join(map(_yaml, found)))
    return 0


def _content_of(name: str, registries: Sequence[Path]) -> Entry:
    """Return the classes of a registry's dataset in their order, with their numbers of examples, and notes on them."""
    if not isinstance((datasets := find_datasets(registries))[name], UserDataset):
        return {}
    # Imported here, since it loads torch.
    from robench.datasets.verification import verify

    verification = next(verify(name, None, datasets=datasets))
    notes: list[Plain] = [printable(each.message) for each in verification.findings]
    return {"classes": dict(verification.classes), **({"notes": notes} if notes else {})}


def _yaml(entry: Entry) -> str:
    text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
    # YAML does not escape bidi marks and the like unless it escapes everything outside ASCII.
    is_inert = text.replace("\n", "").isprintable()
    return text if is_inert else yaml.safe_dump(entry, sort_keys=False, allow_unicode=False)


def summary_of(checkpoint: Checkpoint) -> str:
    """Return smoothing, backbone, mechanisms with settings, variants of training, seed, data and source of a model."""
    training = checkpoint.training
    variant = getattr(training, "variant", "")
    parts = (
        "" if checkpoint.smoothing is None else checkpoint.smoothing.title,
        ", ".join(_parts_of(checkpoint.architecture)),
        variant,
        f"seed {training.seed}" if checkpoint.seed_of is not None and training is not None else "",
        checkpoint.training_data,
        checkpoint.source,
    )
    return "; ".join(part for part in parts if part)


def _parts_of(architecture: object) -> Iterator[str]:
    """Yield the kind of a backbone, its first member, others that are not the default, and settings given in words."""
    yield str(getattr(architecture, "kind", ""))
    # The first member, attention, is what most entries differ in.
    is_first = True
    for name, value, is_default in _fields_of(architecture):
        if isinstance(value, DeclarationBase):
            settings = ", ".join(
                f"{below} {_shown(setting)}" for below, setting, is_usual in _fields_of(value) if not is_usual
            )
            if settings or not is_default or is_first:
                yield f"{name} {value.kind}{f' ({settings})' if settings else ''}"
            is_first = False
        elif isinstance(value, str | bool) and not is_default:
            yield f"{name} {_shown(value)}"


def _fields_of(declaration: object) -> list[tuple[str, object, bool]]:
    """Return name and value of each field, and whether the value is the default one."""
    if not dataclasses.is_dataclass(declaration):
        return []
    found = []
    for field in dataclasses.fields(declaration):
        default: object = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        value = getattr(declaration, field.name)
        found.append((field.name, value, value == default))
    return found


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(map(_shown, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, DeclarationBase):
        return value.kind
    if isinstance(value, Fraction):
        return spelling_of(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# Any: annotations have no common type.
def type_in_words(hint: Any) -> str:
    """Return the values that a field of an annotated type takes in a file.

    >>> type_in_words(tuple[Fraction, ...]), type_in_words(Literal["best", "last"] | None)
    ('list of fraction', 'best | last | null')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return type_in_words(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " | ".join(map(type_in_words, arguments))
    if origin is tuple:
        items = dict.fromkeys(type_in_words(each) for each in arguments if each is not Ellipsis)
        return f"list of {' or '.join(items)}"
    if origin is Mapping:
        return f"mapping from {type_in_words(arguments[0])} to {type_in_words(arguments[1])}"
    return _of_class(hint)


def _of_class(hint: Any) -> str:
    if hint is NoneType:
        return "null"
    if hint is Fraction:
        return "fraction"
    if not isinstance(hint, type):
        return str(hint)
    if issubclass(hint, DeclarationBase):
        return "mapping with kind"
    return "mapping" if dataclasses.is_dataclass(hint) else hint.__name__
