"""Notes beside the numbers of a row, and the provenance of a report."""

from collections.abc import Iterable, Mapping, Sequence

from robench.core.flags import COUPLED_ROWS
from robench.core.records import Provenance
from robench.core.report import Cell
from robench.core.shard import EXACT_DTYPE, TF32, is_compiled, number_format
from robench.core.suite import Column, Condition
from robench.metrics.intervals import INTERVAL
from robench.reports.selection import Coverage

# Names that one note is about; it counts the others.
SHOWN = 5
# Beginnings of notes on where numbers come from, after the names of models.
OF_SEEDS, OF_DEVICES = "mean over training seeds", "measured on different kinds of device"


def listed(names: Sequence[str], noun: str) -> str:
    """Return the first names and the number of the others.

    >>> listed(list("abcdef"), "models"), listed(list("abcdefg"), "models")
    ('a, b, c, d, e, f', 'a, b, c, d, e and 2 more models')
    """
    if len(names) <= SHOWN + 1:
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more {noun}"


def grouped_notes(rows: Sequence[tuple[str, Iterable[str]]], of_all: str = "all models: ") -> list[str]:
    """Return each note once, after the names of the rows that have it; ``of_all`` replaces the names of all rows.

    >>> grouped_notes([("a", ["slow", "old"]), ("b", ["slow"])])
    ['all models: slow', 'a: old']
    """
    names: dict[str, dict[str, None]] = {}
    for name, notes in rows:
        for note in notes:
            names.setdefault(note, {})[name] = None
    return [
        f"{of_all if len(found) == len(rows) > 1 else listed([*found], 'models') + ': '}{note}"
        for note, found in names.items()
    ]


def notes_of(
    columns: Sequence[Column], coverages: Mapping[str, Coverage], conditions: Sequence[Condition] = ()
) -> tuple[str, ...]:
    """Return one sentence for each failed condition and each mix of devices, and one for ignored measurements.

    A mix of devices names the numbers that depend on it.

    ``conditions`` are named if their outcomes depend on the other examples of a batch, if their attack returned values
    outside [0, 1], and if their scores describe the point that an attack's published code returns.
    """
    notes = []
    for coverage in (each for each in coverages.values() if each.failures):
        count = len(coverage.failures)
        shards = "1 shard" if count == 1 else f"{count} shards"
        notes.append(f"{coverage.condition}: {shards} failed; first error: {coverage.failures[0].error}")
    notes += [*_device_notes(columns, coverages), *_memory_notes(coverages)]
    if older := [coverage.condition for coverage in coverages.values() if coverage.has_older]:
        notes.append(f"{', '.join(older)}: older measurements are left out (weights, data or settings changed since)")
    measured = [each for each in conditions if coverages[each.name].records]
    for condition in measured:
        if attack := condition.perturbation.batch_dependence:
            notes.append(f"{condition.name}: batch-dependent: {attack}")
    notes += [*_clamped_notes(coverages, conditions), *_reading_notes(coverages, conditions)]
    return (
        *notes,
        *(
            f"{condition.name}: scores describe the point that the attack's published code returns, not a worst case"
            for condition in measured
            if condition.perturbation.returns_published_point
        ),
    )


def coupled_note(batch_size: int) -> str:
    """Return the sentence for a model whose rows influence each other."""
    return (
        f"coupled rows: every number holds at batch size {batch_size} only, because the examples of a batch influence "
        "each other"
    )


def limit_notes(coverages: Iterable[Coverage]) -> list[str]:
    """Return a sentence on the conditions that lack examples because their runs had a limit; none if there are none."""
    limits = {each.condition: each.limit for each in coverages if each.missing and each.limit is not None}
    if not limits:
        return []
    most = max(limit for limit in limits.values() if limit is not None)
    return [f"{listed([*limits], 'conditions')}: measured with --limit {most} alone; add it for the numbers of these"]


def caveats_of(coverages: Iterable[Coverage]) -> list[str]:
    """Return the sentences on the training of a model's weights, each once."""
    found = (record.shard.caveat for coverage in coverages for record in coverage.records)
    return list(dict.fromkeys(each for each in found if each))


def precision_note(precision: str) -> str:
    """Return the sentence for a row whose model ran in another precision than float32."""
    means = {EXACT_DTYPE: [], TF32: ["products of TF32"]}.get(number_format(precision), ["torch.autocast"])
    how = " and ".join([*means, *(["torch.compile"] if is_compiled(precision) else [])])
    return (
        f"the model's passes ran in {precision} ({how}), its inputs, perturbations and scores "
        "are float32; compare with rows in the same precision only"
    )


def bias_notes(columns: Sequence[Column], cells: Mapping[str, Cell]) -> list[str]:
    """Return a sentence on the largest bias of a bootstrap, in points; none where no number has one."""
    estimates = {column.label: cells[column.key].estimate for column in columns}
    biases = {label: each.bias for label, each in estimates.items() if each is not None and each.bias is not None}
    if not biases:
        return []
    label = max(biases, key=lambda each: abs(biases[each]))
    return [f"the bootstrap's bias is at most {100 * abs(biases[label]):.2f} points ({label})"]


def are_coupled(coverages: Iterable[Coverage]) -> bool:
    """Return whether a model is coupled, by its entry when a record was made, or by its audit."""
    return any(
        record.shard.coupled or any(flag.name == COUPLED_ROWS and flag.is_raised for flag in record.flags)
        for coverage in coverages
        for record in coverage.records
    )


def provenance_of(measured: Iterable[Provenance], seed: int, intervals: Iterable[str] = (INTERVAL,)) -> dict[str, str]:
    """Return versions, kinds of device, seed and method of intervals behind a report; distinct values are joined."""
    releases, devices = releases_and_devices(measured)
    return {
        **releases,
        **({"devices": ", ".join(devices)} if devices else {}),
        "seed": str(seed),
        "interval": "; ".join(intervals),
    }


def releases_and_devices(measured: Iterable[Provenance]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the releases of each library, distinct ones joined by commas, and the kinds of device."""
    releases: dict[str, set[str]] = {}
    devices: set[str] = set()
    for provenance in measured:
        devices.add(provenance.device)
        for library, release in provenance.versions.items():
            releases.setdefault(library, set()).add(release)
    return {library: ", ".join(sorted(releases[library])) for library in sorted(releases)}, tuple(sorted(devices))


def _device_notes(columns: Sequence[Column], coverages: Mapping[str, Coverage]) -> list[str]:
    mixed: dict[str, list[str]] = {}
    for column in columns:
        devices = sorted(set().union(*(coverages[condition].devices for condition in column.conditions)))
        if len(devices) > 1:
            mixed.setdefault(", ".join(devices), []).append(column.label)
    return [f"{OF_DEVICES} ({devices}): {listed(labels, 'numbers')}" for devices, labels in mixed.items()]


def _memory_notes(coverages: Mapping[str, Coverage]) -> list[str]:
    """Return a sentence for each condition whose passes were smaller than its batches."""
    notes = []
    for coverage in coverages.values():
        smaller = [each.provenance.rows_per_pass for each in coverage.records if each.provenance.rows_per_pass]
        if smaller:
            notes.append(
                f"{coverage.condition}: memory was too small for the batch size: passes of {min(smaller)} rows or more "
                f"in {len(smaller)} of {len(coverage.records)} shards"
            )
    return notes


def _clamped_notes(coverages: Mapping[str, Coverage], conditions: Sequence[Condition]) -> list[str]:
    notes = []
    for condition in conditions:
        outcomes = [record.outcomes for record in coverages[condition.name].records]
        if num_clamped := sum(int(each.known("num_clamped").sum()) for each in outcomes):
            kind, num_inputs = condition.perturbation.drawn_as, sum(map(len, outcomes))
            notes.append(
                f"{condition.name}: {num_clamped} of {num_inputs} inputs returned by {kind} were clamped to [0, 1]"
            )
    return notes


def _reading_notes(coverages: Mapping[str, Coverage], conditions: Sequence[Condition]) -> list[str]:
    """Return the counts of what a model's tokenizer does not read of texts, equal ones in one note."""
    names: dict[str, list[str]] = {}
    for column, what in (
        ("num_lost", "words that the model's tokenizer reads as unknown pieces, or without some of their letters"),
        ("num_cut", "tokens beyond the context of the model, which are cut off"),
    ):
        for condition in conditions:
            outcomes = [record.outcomes for record in coverages[condition.name].records]
            if num_texts := sum(int(each.known(column).sum()) for each in outcomes):
                count, total = sum(int(each.filled(column, 0).sum()) for each in outcomes), sum(map(len, outcomes))
                names.setdefault(f"{num_texts} of {total} texts have {count} {what}", []).append(condition.name)
    return [f"{', '.join(found)}: {note}" for note, found in names.items()]
