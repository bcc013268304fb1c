"""Numbers of ``robench cost`` in words, and tables of ``--growth``: costs of a layer by its number of tokens."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from robench.cli.terminal import out, out_table
from robench.costs import RULES


def print_growth(found: Sequence[Mapping[str, Any]], rules: Sequence[str]) -> None:
    """Print a table of each kind of cost, and what was left out."""
    is_measured = any("inference" in size for each in found for size in each["sizes"])
    if is_measured:
        _print_kind(found, "ms a sample", lambda size: spread_text(size["inference"]["seconds"], 1e3), "seconds")
        _print_kind(
            found, "peak memory, MB", lambda size: f"{size['inference']['peak_bytes'] / 1e6:,.1f}", "peak_bytes"
        )
    for rule in rules:
        _print_kind(found, f"multiply-adds, G ({rule})", _giga_of(rule), "multiply_adds", rule)
    out(*(f"{rule}: {RULES[rule].meaning}." for rule in rules))
    out("exponent: b of cost = a tokens^b, least squares of the logarithms over the larger half of a row's sizes.")
    for each in found:
        for reason, sizes in groupby(each["left_out"], key=lambda size: size["reason"]):
            out(f"{each['attention']} of {', '.join(str(size['tokens']) for size in sizes)} tokens left out: {reason}.")
    if is_measured:
        print_protocol(next(each for each in found if each["sizes"]))


def print_protocol(found: Mapping[str, Any]) -> None:
    """Print how and where seconds were measured."""
    protocol = found["protocol"]
    out(
        f"Batches of {protocol['batch_size']}, {protocol['warm_ups']:,} warm-ups, {protocol['repeats']:,} timed"
        " passes: median [quartiles].",
        f"Measured on {found['device']}, {found['threads']} threads, torch {found['versions']['torch']}.",
    )


def spread_text(values: Mapping[str, float], scale: float) -> str:
    """Return a median with its quartiles, each times ``scale``."""
    median, low, high = (f"{scale * values[name]:.3g}" for name in ("median", "low", "high"))
    return f"{median} [{low}, {high}]"


def _print_kind(
    found: Sequence[Mapping[str, Any]],
    title: str,
    text_of: Callable[[Mapping[str, Any]], str],
    exponent: str,
    rule: str | None = None,
) -> None:
    tokens = sorted({size["tokens"] for each in found for size in [*each["sizes"], *each["left_out"]]})
    rows = []
    for each in found:
        texts = {size["tokens"]: text_of(size) for size in each["sizes"]}
        fitted = each["exponents"].get(exponent)
        fitted = fitted[rule] if fitted is not None and rule is not None else fitted
        rows.append(
            [each["attention"], *(texts.get(size, "") for size in tokens), "" if fitted is None else f"{fitted:.2f}"]
        )
    out_table([title, *map(str, tokens), "exponent"], rows, ["left", *["right"] * (len(tokens) + 1)])
    out("")


def _giga_of(rule: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda size: f"{size['multiply_adds'][rule] / 1e9:.4f}"
