"""What docs/series.md says of trainings is what their histories have; docs/tables.md counts the committed tables."""

import json
import re
from statistics import fmean, stdev

from conftest import ROOT
from presence import present


def test_the_page_of_tables_counts_what_the_committed_tables_have_measured() -> None:
    manifest = json.loads((ROOT / "reports" / "tables" / "manifest.json").read_text())
    said = re.search(
        r"Of the ([\d,]+) printed numbers (\d+) are measured: (\d+) \[counts\].*?(\d+) accuracies .*? and (\d+) on",
        (ROOT / "docs" / "tables.md").read_text(),
        re.DOTALL,
    )
    printed, measured, *parts = (int(each.replace(",", "")) for each in present(said).groups())
    assert (printed, measured) == (manifest["printed"], manifest["measured"])
    assert sum(parts) == measured


def test_what_selection_on_test_adds_is_that_of_the_histories() -> None:
    added = {}
    for path in (ROOT / "checkpoints").glob("japanese-vowels-[pt]*.history.json"):
        scored = [each["validation"] for each in json.loads(path.read_text())["epochs"] if each["validation"]]
        accuracies = [each["top1_accuracy"] for each in scored]
        added[path.name.removesuffix(".history.json")] = 100 * (max(accuracies) - accuracies[-1])
    said = re.search(
        r"adds (\d\.\d\d) points on average over\s+(\d+) trainings, and at most (\d\.\d) \(`([\w.-]+)@(\d)`\)",
        (ROOT / "docs" / "series.md").read_text(),
    )
    assert said is not None
    largest = max(added, key=lambda name: added[name])
    assert (float(said[1]), int(said[2])) == (round(fmean(added.values()), 2), len(added))
    assert (float(said[3]), f"{said[4]}-seed{said[5]}") == (round(added[largest], 1), largest)


def test_the_best_epochs_of_uwave_are_those_of_the_histories() -> None:
    text = (ROOT / "docs" / "series.md").read_text()
    histories = sorted((ROOT / "checkpoints").glob("uwave-gesture-library-*.history.json"))
    rows = re.findall(
        r"^\| [^|]+ \| (\d+) \| ([\d.]+), (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        (ROOT / "reports" / "series.md").read_text(),
        re.MULTILINE,
    )
    wanted, above_mean, above_last = [], [], []
    for path in histories:
        scored = [each for each in json.loads(path.read_text())["epochs"] if each["validation"]]
        values = [100 * each["validation"]["top1_accuracy"] for each in scored]
        first = scored[values.index(max(values))]["epoch"]
        numbers = (max(values), values[-1], fmean(values), stdev(values))
        wanted.append((len(values), first, *(round(each, 1) for each in numbers)))
        above_mean.append(max(values) - fmean(values))
        above_last.append(max(values) - values[-1])
    assert len(histories) >= 3
    found = [(int(count), int(epoch), float(best), *map(float, rest)) for count, best, epoch, *rest in rows]
    assert sorted(found) == sorted(wanted)
    said = re.search(
        r"standard deviation of ([\d.]+) to ([\d.]+) points.* is (\d+) to (\d+) points.*and (\d+) to (\d+) above",
        text,
        re.DOTALL,
    )
    deviations = [each[5] for each in wanted]
    assert [float(each) for each in present(said).groups()] == [
        *(min(deviations), max(deviations)),
        *(round(each(values)) for values in (above_mean, above_last) for each in (min, max)),
    ]
