"""Plan of a run, as ``robench run --dry-run`` prints it: what is left, how long it takes, and on how many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.cli.terminal import duration, out, out_json, out_table
from robench.runs.outlook import outlook_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robench.core.protocols import Store
    from robench.runs import PreparedRun
    from robench.runs.outlook import Outlook
    from robench.scheduling.pace import Source


def print_plan(prepared: PreparedRun, store: Store, *, as_json: bool) -> None:
    """Print the shards that ``store`` lacks, their passes and their time by condition and by number of workers."""
    outlook = outlook_of(prepared, store)
    todo, num_shards = outlook.todo, len({shard.key for shard in prepared.mine})
    num_examples = sum(shard.stop - shard.start for shard in todo)
    if as_json:
        plan = {"shards": num_shards, "kept": num_shards - len(todo), "todo": len(todo), "examples": num_examples}
        out_json({**plan, **_document(outlook), "titles": [shard.header.title for shard in todo]})
        return
    out(f"{num_shards} shards, {num_shards - len(todo)} kept, {len(todo)} to do ({num_examples} examples)")
    if todo:
        out(*_lines(outlook))
        left = [each for each in outlook.conditions if each.num_examples]
        rows = [
            [
                each.suite,
                each.condition,
                str(each.num_examples),
                "unknown" if each.seconds is None else duration(each.seconds),
                "; ".join(source.value for source in each.sources),
            ]
            for each in left
        ]
        out("")
        out_table(["suite", "condition", "examples", f"{_noun(outlook)} time", "estimated from"], rows)
        out("")
    out(*(f"  {shard.header.title}" for shard in todo))


def _document(outlook: Outlook) -> dict[str, object]:
    work = outlook.work
    return {
        "forward": work.forward,
        "backward": work.backward,
        "all_passes_known": work.is_whole,
        "seconds": work.seconds,
        "known_seconds": work.known_seconds,
        "device": outlook.device,
        "workers": outlook.num_workers,
        "seconds_until_end": outlook.seconds,
        "seconds_until_end_on_workers": {str(count): each for count, each in outlook.seconds_on.items()},
        "shards_by_source": {_text(source): count for source, count in _sources(outlook)},
        "conditions": [
            {
                "suite": each.suite,
                "condition": each.condition,
                "examples": each.num_examples,
                "seconds": each.seconds,
                "sources": [source.value for source in each.sources],
            }
            for each in outlook.conditions
        ],
    }


def _lines(outlook: Outlook) -> list[str]:
    work = outlook.work
    known = "at most" if work.is_whole else "more than"
    by = "" if outlook.elsewhere is None else f", by executor {outlook.elsewhere}"
    lines = [f"{known} {work.forward:,} forward and {work.backward:,} backward passes of examples{by}"]
    sources = "; ".join(f"{_text(source)} ({count} shards)" for source, count in _sources(outlook))
    if work.seconds is None:
        time = f"about {duration(work.known_seconds)} of {_noun(outlook)} time, and shards of unknown time"
        lines.append(f"{time if work.known_seconds else 'time unknown'}: {sources}")
        return lines
    lines.append(f"about {duration(work.seconds)} of {_noun(outlook)} time, from {sources}")
    if outlook.seconds is not None:
        where = f"in {outlook.num_workers} workers" if outlook.num_workers else "in this process"
        lines.append(f"about {duration(outlook.seconds)} until the end {where}")
    ends = ", ".join(f"{duration(seconds)} on {count}" for count, seconds in outlook.seconds_on.items())
    return [*lines, f"on other numbers of workers: {ends}"]


def _sources(outlook: Outlook) -> Iterable[tuple[Source | None, int]]:
    return sorted(outlook.work.sources.items(), key=lambda each: -each[1])


def _text(source: Source | None) -> str:
    return "unknown" if source is None else source.value


def _noun(outlook: Outlook) -> str:
    """Return the kind of processor whose time is counted."""
    if outlook.device is None:
        return "worker"
    return "CPU" if outlook.device.startswith("cpu") else "GPU"
