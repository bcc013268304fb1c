"""``robench cost``: parameters, multiply-adds, seconds and memory of models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from robench.attention import ATTENTIONS
from robench.cli.growth_table import print_growth, print_protocol, spread_text
from robench.cli.names import complete_models, models_of_registry
from robench.cli.options import json_option, number_option, option, registry_option, results_option
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.errors import DeclarationError, UsageError
from robench.costs import DEFAULT_RULE, PROTOCOLS, RULES, TOKENS, Limits
from robench.declare import find_checkpoints, read_registries

_GROWTH = "growth"
_MOST = 65_536
_TOKENS_FORM = f"--tokens must be whole numbers from 1 to {_MOST:,}, such as 64,128,256"
_SHAPE_FORM = "--input-shape must be whole numbers from 1, such as 3,32,32"


@click.command("cost")
@click.argument("models", nargs=-1, metavar="MODEL...", shell_complete=complete_models)
@registry_option
@option("--rule", "rules", multiple=True, type=click.Choice(list(RULES)), help="Rule of counting; default: all.")
@option("--counts-only", is_flag=True, help="Only parameters and multiply-adds, which are exact on any machine.")
@option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    help="Batch size, warm-ups and repeats; default: brief, of --growth growth.",
)
@number_option("--batch-size", "Examples in a pass, in place of the protocol's.")
@option(
    "--ratio-to",
    metavar="MODEL|ATTENTION",
    help="Also measure, in turns, another model, or each model with this attention, such as softmax.",
)
@option("--input-shape", metavar="C,H,W", help="Shape of an input, for models that declare none.")
@option(
    "--growth",
    "is_growth",
    is_flag=True,
    help="One attention layer of DeiT-tiny's width by its number of tokens; MODEL is an attention or a model with it.",
)
@option("--tokens", metavar="N,N,...", help=f"Numbers of tokens of --growth; default: {','.join(map(str, TOKENS))}.")
@option(
    "--max-gigabytes", type=float, default=4.0, show_default=True, help="Predicted memory above which --growth ends."
)
@option("--max-seconds", type=float, default=60.0, show_default=True, help="The same of all passes of a size.")
@option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@results_option
@json_option
def command(
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    rules: tuple[str, ...],
    counts_only: bool,
    protocol: str | None,
    batch_size: int | None,
    ratio_to: str | None,
    input_shape: str | None,
    is_growth: bool,
    tokens: str | None,
    max_gigabytes: float,
    max_seconds: float,
    device: str,
    results: Path,
    as_json: bool,
) -> int:
    """Count parameters and multiply-adds of each MODEL, and measure seconds and memory of inference and training.

    Weights are random, so that none are needed. Measurements are kept in the folder costs of --results. With --growth
    all attention mechanisms are measured unless some are named.
    """
    if counts_only and (ratio_to is not None or batch_size is not None):
        raise UsageError("--counts-only measures nothing: leave out --ratio-to and --batch-size")
    if is_growth and (ratio_to is not None or input_shape is not None):
        raise UsageError("--growth is of single layers of tokens: leave out --ratio-to and --input-shape")
    if not is_growth and (tokens is not None or not models):
        raise UsageError("--tokens is of --growth: add it" if models else "name a MODEL, or add --growth")
    name = protocol or (_GROWTH if is_growth else "brief")
    chosen = PROTOCOLS[name]
    conditions: dict[str, Any] = {
        "protocol": None if counts_only else replace(chosen, batch_size=batch_size or chosen.batch_size),
        "protocol_name": name,
        "device": device,
        "results": results,
    }
    if is_growth:
        limits = Limits(seconds=max_seconds, bytes=1e9 * max_gigabytes)
        sizes = TOKENS if tokens is None else _numbers(tokens, _TOKENS_FORM)
        found = _growths(models, registries, conditions | {"tokens": tuple(sorted(set(sizes))), "limits": limits})
    else:
        shape = None if input_shape is None else _numbers(input_shape, _SHAPE_FORM)
        asked = {"rules": rules or tuple(RULES), "ratio_to": ratio_to, "input_shape": shape}
        found = _costs(models, registries, conditions | asked)
    if as_json:
        out_json(found)
    elif is_growth:
        print_growth(found, rules or (DEFAULT_RULE,))
    else:
        _print(found, rules or tuple(RULES))
    return 0


def _costs(names: Sequence[str], registries: Sequence[Path], conditions: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted = find_checkpoints(models_of_registry(names, registries), registries)
    from robench.runs.costs import CostRequest, cost_document

    request = CostRequest(**conditions)
    known = read_registries(registries)
    found = []
    for each in wanted:
        if request.protocol is not None:
            say(f"{each.name}: measuring")
        found.append(cost_document(each, known, request))
    return found


def _growths(names: Sequence[str], registries: Sequence[Path], conditions: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the growth of the named mechanisms, or of all whose fields have defaults."""
    from robench.runs.growth import GrowthRequest, attention_named, growth_document

    request = GrowthRequest(**conditions)
    known = read_registries(registries)
    declared = {}
    for name in dict.fromkeys(names or ATTENTIONS):
        try:
            declared[name] = attention_named(name, known)
        except DeclarationError as error:
            if names:
                raise
            say(f"{name} is left out: {error}")
    found = []
    for name, attention in declared.items():
        if request.protocol is not None:
            say(f"{name}: measuring")
        found.append(growth_document(name, attention, request))
    return found


def _numbers(text: str, form: str) -> tuple[int, ...]:
    """Return whole numbers separated by commas. Raises UsageError, which states the ``form``."""
    parts = text.split(",")
    if not all(each.isascii() and each.isdigit() and 0 < int(each) <= _MOST for each in parts):
        raise UsageError(f"{form}, got {text!r}")
    return tuple(map(int, parts))


def _print(found: Sequence[Mapping[str, Any]], rules: Sequence[str]) -> None:
    first = found[0]
    kinds = [kind for kind in ("inference", "training") if kind in first]
    has_ratio = first.get("ratio_to") is not None
    header = ["model", "parameters", *(f"multiply-adds ({rule})" for rule in rules)]
    for kind in kinds:
        header += [f"{kind}, ms a sample", *([f"ratio to {first['ratio_to']}"] if has_ratio else []), "peak memory"]
    rows = []
    for each in found:
        row = [each["model"], f"{each['parameters']:,}", *(_giga(each, rule) for rule in rules)]
        for kind in kinds:
            values = each[kind]
            row.append(spread_text(values["seconds"], 1e3))
            row += [spread_text(values["ratio"], 1)] if has_ratio else []
            row.append(f"{values['peak_bytes'] / 1e6:,.1f} MB")
        rows.append(row)
    out_table(header, rows, ["left", *["right"] * (len(header) - 1)])
    out("", *(f"{rule}: {RULES[rule].meaning}." for rule in rules))
    if kinds:
        print_protocol(first)


def _giga(found: Mapping[str, Any], rule: str) -> str:
    counts = [found[name][rule] for name in ("multiply_adds", "training_multiply_adds")]
    texts = [f"{count / 1e9:.4f} G" for count in counts]
    return texts[0] if counts[0] == counts[1] else f"{texts[0]}, training {texts[1]}"
