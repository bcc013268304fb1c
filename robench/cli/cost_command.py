"""``robench cost``: parameters, multiply-adds, seconds and memory of models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from robench.cli.names import complete_models, models_of_registry
from robench.cli.options import json_option, number_option, option, registry_option, results_option
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.errors import UsageError
from robench.costs import PROTOCOLS, RULES
from robench.declare import find_checkpoints, read_registries


@click.command("cost")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", shell_complete=complete_models)
@registry_option
@option("--rule", "rules", multiple=True, type=click.Choice(list(RULES)), help="Rule of counting; default: all.")
@option("--counts-only", is_flag=True, help="Only parameters and multiply-adds, which are exact on any machine.")
@option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    default="brief",
    show_default=True,
    help="Batch size, warm-ups and repeats.",
)
@number_option("--batch-size", "Examples in a pass, in place of the protocol's.")
@option(
    "--ratio-to",
    metavar="MODEL|ATTENTION",
    help="Also measure, in turns, another model, or each model with this attention, such as softmax.",
)
@option("--input-shape", metavar="C,H,W", help="Shape of an input, for models that declare none.")
@option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@results_option
@json_option
def command(
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    rules: tuple[str, ...],
    counts_only: bool,
    protocol: str,
    batch_size: int | None,
    ratio_to: str | None,
    input_shape: str | None,
    device: str,
    results: Path,
    as_json: bool,
) -> int:
    """Count parameters and multiply-adds of each MODEL, and measure seconds and memory of inference and training.

    Weights are random, so that none are needed. Measurements are kept in the folder costs of --results.
    """
    if counts_only and (ratio_to is not None or batch_size is not None):
        raise UsageError("--counts-only measures nothing: leave out --ratio-to and --batch-size")
    chosen = PROTOCOLS[protocol]
    shape = None if input_shape is None else _shape(input_shape)
    wanted = find_checkpoints(models_of_registry(models, registries), registries)
    from robench.runs.costs import CostRequest, cost_document

    request = CostRequest(
        rules=rules or tuple(RULES),
        protocol=None if counts_only else replace(chosen, batch_size=batch_size or chosen.batch_size),
        protocol_name=protocol,
        device=device,
        ratio_to=ratio_to,
        input_shape=shape,
        results=results,
    )
    known = read_registries(registries)
    found = []
    for each in wanted:
        if not counts_only:
            say(f"{each.name}: measuring")
        found.append(cost_document(each, known, request))
    if as_json:
        out_json(found)
        return 0
    _print(found, request.rules)
    return 0


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(each.isascii() and each.isdigit() and 0 < int(each) <= 65_536 for each in parts):
        raise UsageError(f"--input-shape must be whole numbers from 1, such as 3,32,32, got {text!r}")
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
            row.append(_spread(values["seconds"], 1e3))
            row += [_spread(values["ratio"], 1)] if has_ratio else []
            row.append(f"{values['peak_bytes'] / 1e6:,.1f} MB")
        rows.append(row)
    out_table(header, rows, ["left", *["right"] * (len(header) - 1)])
    out("", *(f"{rule}: {RULES[rule].meaning}." for rule in rules))
    if kinds:
        protocol = first["protocol"]
        out(
            f"Batches of {protocol['batch_size']}, {protocol['warm_ups']:,} warm-ups, {protocol['repeats']:,} timed"
            " passes: median [quartiles].",
            f"Measured on {first['device']}, {first['threads']} threads, torch {first['versions']['torch']}.",
        )


def _giga(found: Mapping[str, Any], rule: str) -> str:
    counts = [found[name][rule] for name in ("multiply_adds", "training_multiply_adds")]
    texts = [f"{count / 1e9:.4f} G" for count in counts]
    return texts[0] if counts[0] == counts[1] else f"{texts[0]}, training {texts[1]}"


def _spread(values: Mapping[str, float], scale: float) -> str:
    median, low, high = (f"{scale * values[name]:.3g}" for name in ("median", "low", "high"))
    return f"{median} [{low}, {high}]"
