"""The page on CIFAR-10: its suites, models and findings are those that there are."""

import csv
import re
import runpy
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import ROOT
from results_pages import PAGES
from scipy import stats

from robench.declare import read_registry, shipped_registry
from robench.training.history import history_path, read_history

# Of the suite, those within a ball first.
AWARE = ("mechanism", "distance", "attention-fool", "patch-fool")
FINDINGS: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "cifar10_findings.py"))
REPORT = ROOT / "reports" / "cifar10"
CIFAR10 = PAGES["cifar10"]
PAGE = (ROOT / "docs" / "cifar10.md").read_text()
# Larger models are in tests/slow/test_large_cifar10_models.py, smaller ones are those of the second edition.
OF_CIFAR10 = {name: each for name, each in read_registry(shipped_registry()).items() if name.startswith("cifar10-")}
ENTRIES = {name: each for name, each in OF_CIFAR10.items() if not name.startswith(("cifar10-l-", "cifar10-s-"))}
SMALL = {name: each for name, each in OF_CIFAR10.items() if name.startswith("cifar10-s-")}
# Has the weights of softmax.
PLUGGED = "cifar10-pro-plugged-vit"
PUBLISHED = [
    name
    for name, each in ENTRIES.items()
    if each.weights.sha256 and each.smoothing is None and not name.startswith(PLUGGED)
]


def test_every_suite_of_the_page_is_described_and_measured() -> None:
    assert {*re.findall(r"`(cifar10-[a-z-]+)`", PAGE)} >= {table.suite for table in CIFAR10.tables}
    tables = CIFAR10.path.read_text()
    assert "not measured" not in tables
    assert tables.count("| clean top-1 accuracy |") == 4


def test_the_models_of_the_second_edition_differ_as_those_of_the_first() -> None:
    small, first = SMALL["cifar10-s-vit"], ENTRIES["cifar10-vit"]
    assert fields_that_differ(small.architecture, first.architecture) == {"patch_size", "dim", "num_heads"}
    assert fields_that_differ(small.training, first.training) == {"num_epochs", "learning_rate"}
    for each in SMALL.values():
        assert fields_that_differ(each.architecture, small.architecture) <= {"attention"}
        assert fields_that_differ(each.training, small.training) <= {"auxiliary_weight", "seed"}
        if (of_first := ENTRIES.get(each.entry.replace("-s-", "-"))) is not None:
            assert each.architecture.attention == of_first.architecture.attention
            assert each.training.auxiliary_weight == of_first.training.auxiliary_weight


def test_each_of_its_mechanisms_has_three_rates_on_the_same_images() -> None:
    found = read_registry(ROOT / "examples" / "cifar10-2" / "rates.yaml")
    models = ("vit", "symvit", "rpc-symvit", "bilateral-vit", "twicing-vit", "primal-vit", "rkde-vit")
    rates = (0.001, 0.002, 0.004)
    assert [*found] == [f"{model}-rate-{rate}" for model in models for rate in rates]
    for (name, each), rate in zip(found.items(), rates * len(models), strict=True):
        small = SMALL[f"cifar10-s-{name.partition('-rate-')[0]}"]
        assert each.architecture == small.architecture
        assert replace(each.training, learning_rate=0.002, held_out=0) == small.training
        assert (each.training.learning_rate, each.training.held_out) == (rate, 0.1)


def test_all_entries_have_one_backbone_and_one_recipe() -> None:
    assert len(ENTRIES) >= 10
    first = ENTRIES["cifar10-vit"]
    differing = {"attention", "auxiliary_weight", "seed"}
    for name, each in ENTRIES.items():
        if each.smoothing is not None:
            continue
        noise = {"noise_scale"} if "noise" in name else set()
        adversarial = {field for field in FIELDS if field.startswith("adversarial")} if "adversarial" in name else set()
        for ours, theirs in ((each.architecture, first.architecture), (each.training, first.training)):
            assert fields_that_differ(ours, theirs) <= differing | adversarial | noise, name


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_weights_have_a_whole_history_and_a_score(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.training is not None
    path = ROOT / entry.weights.uri
    is_left_out = name.endswith(("@3", "@4"))
    assert path.exists() is not is_left_out
    history = read_history(history_path(path))
    assert (history.checkpoint, len(history.epochs)) == (name, entry.training.total_epochs)
    last = history.epochs[-1].validation
    assert last is not None
    # The stored weights are rounded.
    assert last.top1_accuracy == pytest.approx(entry.expected["top1_accuracy"], abs=0.002)


def test_clean_accuracies_are_within_5_points_of_softmax() -> None:
    """Of models that are trained on clean images."""
    softmax = ENTRIES["cifar10-vit"].expected["top1_accuracy"]
    for name in PUBLISHED:
        if not ("adversarial" in name or "noise" in name):
            assert ENTRIES[name].expected["top1_accuracy"] == pytest.approx(softmax, abs=0.05), name


FIELDS = list(type(ENTRIES["cifar10-vit"].training).__dataclass_fields__)  # type: ignore[union-attr]


def fields_that_differ(ours: Any, theirs: Any) -> set[str]:
    return {name for name in ours.__dataclass_fields__ if getattr(ours, name) != getattr(theirs, name)}


class TestFindings:
    """Each sentence is what reports/cifar10 has."""

    SOFTMAX = "cifar10-vit"
    NAMES: ClassVar = {"primal, last layer": "primal-vit", "bilateral": "bilateral-vit", "twicing": "twicing-vit"} | {
        "symmetric": "symvit",
        "RPC": "rpc-symvit",
        "robust KDE": "rkde-vit",
    }
    LABELS: ClassVar = {
        "clean": ("cifar10-adv", "clean/top1_accuracy"),
        "noise": ("cifar10-adv", "noise/top1_accuracy"),
        "pgd-1": ("cifar10-adv", "pgd-1/top1_accuracy"),
        "pgd-2": ("cifar10-adv", "pgd-2/top1_accuracy"),
        "cifar-10-c-live": ("cifar10-c", "cifar-10-c-live/mean_error"),
    }

    @cached_property
    def text(self) -> str:
        (found,) = re.findall(r"## Findings\n(.*?)\n##+ ", PAGE, re.DOTALL)
        return " ".join(found.split())

    @cached_property
    def readme(self) -> str:
        return (REPORT / "README.md").read_text()

    @cached_property
    def gains(self) -> dict[tuple[str, str, str], list[str]]:
        """Cells of the table of gains after model, baseline and number, by these three."""
        lines = self.readme.splitlines()
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| cifar10-")]
        return {(model, baseline, label.split()[0]): cells for model, baseline, label, *cells in rows}

    def of_seeds(self, entry: str, suite: str, key: str) -> list[float]:
        """The number of each seed, of the leaderboard."""
        with (REPORT / "leaderboard.csv").open(newline="") as file:
            listed = [row for row in csv.DictReader(file) if not row["seeds"]]
        rows = [row for row in listed if row["model"].partition("@")[0] == f"cifar10-{entry}"]
        return [float(row["value"]) for row in rows if (row["suite"], row["column"]) == (suite, key) and row["value"]]

    def test_four_gains_are_decided_by_welch_of_all_that_are_planned(self) -> None:
        decided = {
            key: cells[2] for key, cells in self.gains.items() if cells[3].startswith(("supported", "contradicted"))
        }
        planned = sum(map(len, FINDINGS["COLUMNS"].values())) * len(FINDINGS["PAIRS"])
        assert len(self.gains) == planned
        assert not any("one seed" in cells[3] for cells in self.gains.values())
        primal, rpc = ("cifar10-primal-vit", self.SOFTMAX), ("cifar10-rpc-symvit", self.SOFTMAX)
        assert [*decided] == [(*rpc, "clean"), (*rpc, "pgd-2"), (*primal, "clean"), (*primal, "noise")]
        rpc_clean, rpc_pgd, clean, noise = decided.values()
        found = f"Primal clean {clean} and noise {noise}, RPC clean {rpc_clean} and PGD 2/255 {rpc_pgd}"
        assert f"correction over {planned} gains on 2,000 images decide four ({found})" in self.text
        of_all = re.findall(r"^- cifar10-(\S+) above cifar10-(\S+) (\S+): p = (.*)$", self.readme, re.MULTILINE)
        assert [names[:2] for names in of_all if float(names[3]) < 0.05] == [("rpc-symvit", "symvit")]
        assert f"RPC's loss to its control, symmetric attention ({of_all[0][2]})" in self.text

    def test_the_table_is_that_of_the_report_with_the_cost(self) -> None:
        """Points and p-values are compared with scipy's in tests/slow/test_cifar10_findings.py."""
        rows = re.findall(r"^\| [^|]+ images \| ([\d.]+) \| (.* \(p = .*) \|$", self.readme, re.MULTILINE)
        assert len(rows) == 6
        assert f"| softmax | {' | '.join(softmax for softmax, _ in rows)} | |" in self.text
        names = [name.removeprefix("cifar10-") for name in FINDINGS["MODELS"][1:]]
        for name, model in self.NAMES.items():
            cells = [re.findall(r"(\S+) \(p = (.*)\)", row.split(" | ")[names.index(model)])[0] for _, row in rows]
            is_bold = [place < 4 and float(p_value) < 0.05 for place, (_, p_value) in enumerate(cells)]
            shown = [f"**{each}**" if bold else each for (each, _), bold in zip(cells, is_bold, strict=True)]
            own, softmax = (self.of_seeds(each, "", "costs/multiply_adds/products")[0] for each in (model, "vit"))
            assert f"| {name} | {' | '.join(shown)} | {100 * (own / softmax - 1):+.0f} % |" in self.text

    def test_the_chances_of_finding_are_those_of_the_report(self) -> None:
        rows = re.findall(r"^\| .* images \| ([\d.]+) \| (\d+) % \| (\d+) % \| (\d+) % \|", self.readme, re.MULTILINE)
        assert len(rows) == 4
        ends = [(min(each), max(each)) for each in (list(map(float, column)) for column in zip(*rows, strict=True))]
        deviation, one, two, three = ends
        text = "1 point in {:.0f} to {:.0f} % of cases, of 2 points in {:.0f} to {:.0f} %, of 3 in {:.0f} to {:.0f} %"
        assert text.format(*one, *two, *three) in self.text
        assert f"Seeds deviate by {deviation[0]:.1f} to {deviation[1]:.1f} points" in self.text

    def test_budgets_seeds_and_checks(self) -> None:
        models = ("vit", *self.NAMES.values())
        autoattack = [self.of_seeds(each, "cifar10-autoattack", "autoattack/top1_accuracy") for each in models]
        assert max(value for each in autoattack for value in each) == pytest.approx(0.001)
        assert {len(each) for each in autoattack} == {3}, "three under APGD"
        counts = {len(self.of_seeds(each, *self.LABELS[column])) for each in models for column in self.LABELS}
        assert counts == {5}, "five training seeds"
        for model, form in (
            ("vit", "softmax has {:.1f} % under PGD at 8/255 and {:.1f} % clean"),
            ("rpc-symvit", "RPC {:.1f} % and {:.1f} %"),
        ):
            ((kept,), (clean,)) = (
                self.of_seeds(f"adversarial-{model}", "cifar10-adv", f"{each}/top1_accuracy")
                for each in ("pgd-8", "clean")
            )
            assert form.format(100 * kept, 100 * clean) in self.text
        assert len(self.text.split("| RPC |")[1].split()) < 300
        checks = (REPORT / "README.md").read_text()
        (number,) = re.findall(r"(\d+) checks were made, and 1 raise a doubt", checks)
        assert f"Of {int(number):,} checks, audits included, one raises a doubt (ProAttention, below)" in self.text
        (doubt,) = re.findall(rf"^- {PLUGGED}@2, cifar10-adv: margins change by (\S+)% more than", checks, re.MULTILINE)
        assert f"margins change by {doubt} % more than gradients explain" in PAGE
        assert "without an audit" not in checks

    def test_transferred_examples(self) -> None:
        rows = [
            [float(cell.split()[0]) for cell in line.strip("| ").split(" | ")[2:]]
            for line in (REPORT / "transfer.md").read_text().splitlines()
            if line.startswith("| cifar10-")
        ]
        own = [row[place] for place, row in enumerate(rows)]
        near = rows[0][3], rows[3][0]
        others = [
            value for at, row in enumerate(rows) for place, value in enumerate(row) if place != at and value not in near
        ]
        assert f"leave {min(others)} to {max(others)} % right (" in self.text
        assert f"a model's own {min(own)} to {max(own)} %" in self.text
        assert f"(between softmax and bilateral {near[0]} and {near[1]} %)" in self.text
        adaptive = re.findall(
            r"^\| cifar10-\w.*: top-1 accuracy \| .* \| (\S+) \[.*?\] \| (\S+) \[.*?\] \|$",
            CIFAR10.path.read_text(),
            re.MULTILINE,
        )
        assert max(abs(float(value)) for pair in adaptive for value in pair) == 2.0
        assert len(adaptive) == len(rows)

    def test_two_codes_of_autoattack_fool_the_same_images(self) -> None:
        found = re.findall(
            r"^- (\S+): .* fooled by robench alone: (.*); by pyautoattack alone: (.*)$",
            (REPORT / "README.md").read_text(),
            re.MULTILINE,
        )
        names = ("vit", "rpc-symvit", "primal-vit", "adversarial-vit")
        assert found == [(f"cifar10-{name}", "none", "none") for name in names]
        left = {
            name: float(share)
            for name, share in re.findall(r"^- cifar10-(\S+): ([\d.]+) \[", self.readme, re.MULTILINE)
        }
        trained = round(3 * left.pop("adversarial-vit"))
        assert f"adversarially trained softmax keeps {trained}, softmax, RPC and Primal at most seven" in self.text
        assert round(3 * max(left.values())) == 7


class TestAttention:
    """Each number of the finding on attacks that know attention is that of reports/cifar10."""

    REPORT = (REPORT / "attention.md").read_text()

    @cached_property
    def text(self) -> str:
        (found,) = re.findall(r"### Attacks that know attention\n(.*?)\n\nThis says", PAGE, re.DOTALL)
        return " ".join(found.split())

    def rows(self, heading: str) -> dict[str, dict[str, str]]:
        """Cells of the table under a heading, by model and column."""
        lines = [line for line in self.REPORT.split(f"## {heading}\n")[1].split("\n## ")[0].splitlines() if "|" in line]
        columns, _, *rows = [[each.strip() for each in line.split("|")[1:-1]] for line in lines]
        return {row[0]: dict(zip(columns[1:], row[1:], strict=True)) for row in rows}

    @staticmethod
    def matrix(condition: str) -> np.ndarray[Any, Any]:
        """Accuracies of targets (rows) on examples made on sources (columns), in per cent."""
        part = (REPORT / "attention-transfer.md").read_text().split(f"## {condition}\n")[1].split("\n## ")[0]
        lines = [line for line in part.splitlines() if line.startswith("| cifar10-")]
        return np.array([[float(cell.split()[0]) for cell in line.strip("| ").split(" | ")[2:]] for line in lines])

    def test_no_attack_that_knows_attention_finds_more(self) -> None:
        rows = self.rows("Do they find more than plain PGD?")
        cells = {(model, name): row[name] for model, row in rows.items() for name in row if name in AWARE}
        assert f"({len(cells)} tests; all intervals end above -3)" in self.text
        found = {key: re.findall(r"[+-]\d+\.\d", cell) for key, cell in cells.items()}
        assert min(float(low) for _, low, _ in found.values()) > -3
        decided = {key for key, cell in cells.items() if "p = " in cell}
        assert decided == {("primal-vit", "distance"), ("primal-vit", "patch-fool")}
        assert "(+19.0 and +5.7, p = 0.004)" in self.text
        assert [found[key][0] for key in sorted(decided)] == ["+19.0", "+5.7"]
        for names, text in ((AWARE[:2], "by -0.3 to +0.7 points"), (AWARE[2:], "by -1.2 to +1.5 (")):
            changes = sorted({float(each[0]) for key, each in found.items() if key[1] in names and key not in decided})
            assert text.startswith(f"by {changes[0]:+.1f} to {changes[-1]:+.1f}")
            assert text in self.text

    def test_under_one_patch_robust_kde_keeps_most(self) -> None:
        rows = self.rows("One patch of 4 x 4 pixels")
        kept = {model: row["all"] for model, row in rows.items()}
        numbers = [kept[each] for each in ("rpc-symvit", "vit", "primal-vit", "rkde-vit")]
        assert "RPC keeps {} %, softmax {}, Primal {}, robust KDE {}".format(*numbers) in self.text
        trained = {model: float(each) for model, each in kept.items() if "adversarial" not in model}
        assert (min(trained, key=trained.__getitem__), max(trained, key=trained.__getitem__)) == (
            "rpc-symvit",
            "rkde-vit",
        )
        seeds = {model: [float(each) for each in row["each seed under all"].split(", ")] for model, row in rows.items()}
        assert f"({min(seeds['rkde-vit'])}) is above softmax's best ({max(seeds['vit'])})" in self.text
        assert min(seeds["rkde-vit"]) > max(seeds["vit"])
        assert f"softmax keeps {kept['adversarial-vit']} %" in self.text
        assert "| +9.8 | undecided (p = 0.22) |" in self.REPORT
        assert "undecided over seeds (+9.8, p = 0.22; four to nine seeds would decide)" in self.text
        assert "| 4 to 9 seeds |" in self.REPORT

    def test_transfer_is_best_by_momentum_alone(self) -> None:
        plain, others = self.matrix("mi"), ~np.eye(7, dtype=bool)
        more = {name: (self.matrix(name) - plain)[others].mean() for name in ("pna", "tgr")}
        assert f"PNA leaves {more['pna']:.1f} points more on average, TGR {more['tgr']:.1f}." in self.text
        as_good = {name: int((self.matrix(name) <= plain)[1:, 0].sum()) for name in more}
        assert as_good == {"tgr": 2, "pna": 1}
        assert "From softmax TGR is as good on two of six mechanisms, PNA on one." in self.text
        patches = [self.matrix(name)[others] for name in ("patch-attention", "patch-fool")]
        assert "47 to 70 % are right" in self.text
        assert (int(min(each.min() for each in patches)), round(max(each.max() for each in patches))) == (47, 70)
        assert abs(patches[0].mean() - patches[1].mean()) < 0.5


def test_proattention_with_softmaxs_weights_is_what_the_leaderboard_says() -> None:
    (text,) = re.findall(r"### ProAttention with the weights of softmax\n(.*?)\n### ", PAGE, re.DOTALL)
    softmax, plugged = (ENTRIES[name] for name in ("cifar10-vit", PLUGGED))
    for seed in ("", "@1", "@2"):
        ours, theirs = (ENTRIES[f"{name}{seed}"].weights for name in (PLUGGED, "cifar10-vit"))
        assert (ours.uri, ours.sha256) == (theirs.uri, theirs.sha256)
    assert fields_that_differ(softmax.architecture, plugged.architecture) == {"attention"}
    with (REPORT / "leaderboard.csv").open(newline="") as file:
        values = {
            (row["model"], row["column"]): 100 * float(row["value"])
            for row in csv.DictReader(file)
            if row["suite"] == "cifar10-adv" and row["num_examples"] == "2000" and row["value"] and not row["seeds"]
        }
    labels = {"clean": "clean", "PGD 1/255": "pgd-1", "PGD 2/255": "pgd-2"}
    for label, condition in labels.items():
        of_softmax, of_plugged = (
            [values[f"{name}{seed}", f"{condition}/top1_accuracy"] for seed in ("", "@1", "@2")]
            for name in ("cifar10-vit", PLUGGED)
        )
        found = stats.ttest_ind(of_plugged, of_softmax, equal_var=False)
        low, high = found.confidence_interval()
        difference = np.mean(of_plugged) - np.mean(of_softmax)
        (cells,) = re.findall(rf"^\| {label} \| (.*), p = (\S+) \|$", text, re.MULTILINE)
        numbers = [float(each) for each in re.findall(r"[-+]?\d+\.\d", cells[0])]
        assert numbers == pytest.approx([np.mean(of_softmax), np.mean(of_plugged), difference, low, high], abs=0.0501)
        assert cells[1] == f"{14 * found.pvalue:.2g}"


def test_how_strong_attacks_are_is_what_the_tables_say() -> None:
    found: dict[tuple[str, str], dict[str, str]] = {}
    for part in (REPORT / "strength.md").read_text().split("\n## "):
        title, *lines = part.splitlines()
        if not title.startswith("cifar10-"):
            continue
        model, norm = title.partition(" on cifar-10")[0].split(", ")
        rows = (line.strip("| ").split("|") for line in lines if re.match(r"\| (?!attack )[a-z]", line))
        found[model, norm] = {name.strip(): value.split()[0] for name, value, *_ in rows}
    stated = PAGE.partition("### How strong each attack is")[2].partition("\n### ")[0].partition("\n## ")[0]
    quoted = re.findall(r"^\| (l\S+(?: \(\S+\))?) \| (.*) \|$", stated, re.MULTILINE)
    assert [norm for norm, _ in quoted] == list(dict.fromkeys(norm for _, norm in found))
    for norm, attacks in quoted:
        for name, *values in re.findall(r"([a-z-]+) (\d+\.\d) / (\d+\.\d)", attacks):
            for model, value in zip(("cifar10-vit", "cifar10-adversarial-vit"), values, strict=True):
                (key,) = {name, f"{name}-{norm}", f"{name}-{norm[4:-1]}"} & found[model, norm].keys()
                assert found[model, norm][key] == value, (model, norm, name)
    libraries = {name for attacks in found.values() for name in attacks if name.endswith(("-foolbox", "-torchattacks"))}
    for attacks in found.values():
        for name in libraries & attacks.keys():
            own = name.rpartition("-")[0]
            assert float(attacks[own]) >= float(attacks[name]) - 1, name
