"""``robench run``: measures models under suites, stores the results, and prints the leaderboard or, dry, the plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from robench.cli.options import (
    all_seeds_option,
    audit_options,
    checked_trackers,
    device_speed_option,
    executor_options,
    json_option,
    keep_adversarial_option,
    log_to_option,
    measuring_options,
    only_option,
    option,
    part_option,
    precision_option,
)
from robench.cli.selection import OF_MODELS, Selection, selecting
from robench.cli.terminal import out, out_document, out_json, out_table, say
from robench.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from robench.core.protocols import Store
    from robench.core.report import Report
    from robench.runs import PreparedRun, RunRequest
    from robench.runs.outlook import Outlook
    from robench.runs.prepare import Table
    from robench.scheduling import Progress
    from robench.scheduling.estimates import Source

# Seconds of audits from which the plan names what shortens them.
LONG_AUDIT = 60
# Options that would change where or how much a smoke run measures or stores.
_CONTRADICTING = ("results", "limit", "all_examples", "keep_adversarial")


@click.command("run")
@selecting((*OF_MODELS, only_option, precision_option, all_seeds_option))
@measuring_options
@executor_options
@part_option(help="Measure one part of the run, such as 2/8: the second of eight, independently of the others.")
@option("--take-over", is_flag=True, help="After the part, measure what is left of the others.")
@option(
    "--ignore-ranks", is_flag=True, help="Measure everything here, also where srun or torchrun started more processes."
)
@keep_adversarial_option
@audit_options
@option(
    "--smoke",
    is_flag=True,
    help="Only check that the models run: 4 examples of each condition, no audit, nothing stored.",
)
@option(
    "--random-weights",
    is_flag=True,
    help="Rehearse with random weights in the place of the models' own; results go to the folder rehearsal of"
    " --results, and into no other table.",
)
@option(
    "--batch-size",
    type=click.Choice(["suite", "auto"]),
    default="suite",
    show_default=True,
    help="Rows of a pass: those of the suite, halved where memory is exhausted; or tried before with auto.",
)
@option("--dry-run", is_flag=True, help="Check everything and list what would be measured.")
@device_speed_option
@log_to_option
@json_option
def command(
    selection: Selection,
    smoke: bool,
    random_weights: bool,
    ignore_ranks: bool,
    dry_run: bool,
    device_speed: float | None,
    log_to: tuple[str, ...],
    as_json: bool,
    # Further options have the names and types of the request's fields.
    **settings: Any,
) -> int:
    """Measure models under suites, store every outcome, and print the leaderboard.

    Repeating the command measures only what is missing. Ctrl-C once finishes the shards under way; twice stops.
    """
    if device_speed is not None and not dry_run:
        raise UsageError("--device-speed is for the hours of --dry-run; add it")
    log_to, results = checked_trackers(log_to), selection.results
    from robench.cli.progress import WatchedRun, has_kept
    from robench.runs import REHEARSALS, PreparedRun, in_rounds, prepare, rehearsal_request, smoke_request
    from robench.runs.ranks import ALONE, as_rank, rank_of

    request = selection.request(**settings)
    if random_weights:
        request, results = rehearsal_request(request), results / REHEARSALS
    if smoke:
        request = smoke_request(request, _on_the_command_line(_CONTRADICTING))
    rank = ALONE if ignore_ranks or smoke else rank_of(os.environ, request.part)
    asked, request = request, as_rank(request, rank)
    store = _store(results, smoke=smoke, dry_run=dry_run)
    if request.limit_note:
        say(request.limit_note)
    count = len(request.checkpoints)
    say(f"checking data and weights of {count} model{'s' * (count != 1)}")
    prepared = prepare(request)
    if dry_run:
        print_plan(prepared, store, device_speed, as_json=as_json)
        return 0
    watch = WatchedRun(smoke=smoke)
    rank.check(prepared)
    tables = in_rounds(prepared, store, PreparedRun.tables, watch)
    (progress,), stopped_with = watch.filled.values(), watch.exit_code
    reports = [each.report for each in tables] if smoke else _ranked(tables, store, request.limit)
    if_lost = "nothing of a smoke run is kept" if smoke else kept_in(results, has_kept(progress))
    if rank.number == 0:
        headlines = [] if smoke or as_json else _headlines(tables, store, request)
        _print_reports(reports, headlines, as_json, if_lost)
    _say_how_it_ended(progress, is_interrupted=watch.is_stopped, smoke=smoke)
    if stopped_with:
        if log_to:
            say(f"Nothing was logged to {' and '.join(log_to)}; the same command logs the rows once all is measured.")
        return stopped_with
    if rank.number == 0:
        _log(log_to, asked, reports, is_rehearsal=random_weights)
    is_complete = not progress.num_left if request.part else all(report.is_complete for report in reports)
    return 0 if is_complete and not progress.num_failed else 1


def _store(results: Path, *, smoke: bool, dry_run: bool) -> Store:
    from robench.store import FolderStore, MemoryStore

    if smoke:
        return MemoryStore()
    store = FolderStore(results)
    if not dry_run:
        store.check_writable()
    return store


def _ranked(tables: Sequence[Table], store: Store, limit: int | None) -> list[Report]:
    """Return the table of each suite, in which the best of each column is marked where there are several models."""
    from robench.leaderboard import ranked

    return [ranked(each.report, each.suite, store, limit=limit, measurements=each.measurements) for each in tables]


def _headlines(tables: Sequence[Table], store: Store, request: RunRequest) -> list[str]:
    from robench.comparison.headline import headline_of

    return [headline_of(each.report, each.suite, store, limit=request.limit, seed=request.seed) for each in tables]


def _log(trackers: tuple[str, ...], request: RunRequest, reports: list[Report], *, is_rehearsal: bool) -> None:
    """Log the tables to trackers, or print why they are not; raises like ``log_tables``."""
    if not trackers:
        return
    if request.smoke or is_rehearsal:
        say(f"The rows of a {'smoke run' if request.smoke else 'rehearsal'} are not logged.")
    elif request.part:
        say("A part of a run is not logged; 'robench report --log-to' logs the whole table once all parts are done.")
    else:
        # Imported here: it needs more than help does.
        from robench.cli.report_command import log_tables

        log_tables(trackers, list(zip(request.suites, reports, strict=True)), request.limit)


def _say_how_it_ended(progress: Progress, *, is_interrupted: bool, smoke: bool) -> None:
    from robench.cli.progress import kept_text, say_failures

    say_failures(progress)
    if not progress.num_done and not progress.num_left:
        say("All was measured before, and nothing was left to do.")
    if is_interrupted:
        say(f"Interrupted. {kept_text(progress, smoke=smoke)}")


def _on_the_command_line(names: tuple[str, ...]) -> list[str]:
    """Return the options given on the command line itself, as written there."""
    context = click.get_current_context()
    written = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    return [f"--{name.replace('_', '-')}" for name in written]


def kept_in(results: Path, is_kept: bool) -> str:
    """Return where the results of a run are, for messages about lost output."""
    return f"what was measured is kept in {results}, and the same command prints it" if is_kept else "nothing was kept"


def _print_reports(reports: list[Report], headlines: list[str], as_json: bool, if_lost: str) -> None:
    from robench.reports import RENDERERS

    if not as_json:
        texts = [RENDERERS["text"](report).rstrip("\n") for report in reports]
        if headlines:
            texts = [f"{headline}\n\n{text}" for headline, text in zip(headlines, texts, strict=True)]
        out_document("\n\n".join(texts), if_lost=if_lost)
        return
    documents = [RENDERERS["json"](report) for report in reports]
    out_document(documents[0] if len(documents) == 1 else f"[{','.join(documents)}]", if_lost=if_lost)


def print_plan(prepared: PreparedRun, store: Store, flops_per_second: float | None = None, *, as_json: bool) -> None:
    """Print the shards that ``store`` lacks, their passes and their time by condition and by number of workers."""
    from robench.runs.outlook import outlook_of
    from robench.scheduling.display import duration

    outlook = outlook_of(prepared, store, flops_per_second)
    todo, num_shards = outlook.todo, len({shard.key for shard in prepared.mine})
    num_examples = sum(shard.stop - shard.start for shard in todo)
    if as_json:
        plan = {"shards": num_shards, "kept": num_shards - len(todo), "todo": len(todo), "examples": num_examples}
        out_json({**plan, **_document(outlook), "titles": [shard.header.title for shard in todo]})
        return
    out(f"{num_shards} shards, {num_shards - len(todo)} kept, {len(todo)} to do ({num_examples} examples)")
    if todo:
        out(*_lines_of_audits(prepared.request, outlook), *_lines(outlook))
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


def _lines_of_audits(request: RunRequest, outlook: Outlook) -> list[str]:
    """Return a line on audits, with what shortens them, if they take half of the time or more."""
    from robench.scheduling.display import duration

    seconds, of_all = outlook.of_audits.known_seconds, outlook.work.known_seconds
    if seconds < LONG_AUDIT or 2 * seconds < of_all:
        return []
    advice = "--audit quarter has fewer examples" if request.audit == "full" else "--audit none leaves them out"
    return [f"audits take {duration(seconds)} of {duration(of_all)}: {advice}"]


def _lines(outlook: Outlook) -> list[str]:
    from robench.scheduling.display import duration

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
