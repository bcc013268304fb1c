"""Kept results to a leaderboard: cells, provenance, flags, ranks, charts, and what a file of settings may say."""

import csv
import io
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from leaderboard_examples import FINE, MASKED, NUM_EXAMPLES, TYPES, adv_suite, fill, shift_suite
from scipy.stats import binomtest

from examples import CHECKPOINT, failure_of
from robench.attention.rpc import Rpc
from robench.comparison.pairing import ordinals
from robench.core.checkpoint import Weights
from robench.core.errors import DeclarationError, UsageError
from robench.core.records import Failure
from robench.declare import read_registries
from robench.declare.document import document_from_python
from robench.declare.yaml_source import read_yaml
from robench.leaderboard import RENDERERS, arranged_board, board_columns, leaderboard_of, ranked, settings_of
from robench.leaderboard.board import Settings
from robench.leaderboard.build import OF_THE_BACKBONE, entry_of
from robench.leaderboard.costs import cost_columns
from robench.metrics.contributions import Contributions, Sample
from robench.models.foreign import Timm
from robench.models.vit import Vit
from robench.reports import report_of_store
from robench.store import MemoryStore

SKILLS = {"vit": 0.5, "symvit": 0.55, "rpc": 0.3}
ADV_COLUMNS = [
    "adv/clean/top1_accuracy", "adv/fgsm/top1_accuracy", "adv/pgd/top1_accuracy", "adv/pgd-half/top1_accuracy",
    "adv/linf-4/255/robust_accuracy", "adv/linf-8/255/robust_accuracy",
]  # fmt: skip


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    kept = MemoryStore()
    fill(kept, adv_suite(), SKILLS, half=["rpc"], flags={"vit": (MASKED, FINE), "symvit": (FINE,)})
    fill(kept, shift_suite(), {"vit": 0.5, "symvit": 0.55})
    return kept


def board_of(store, *suites, **options):
    return leaderboard_of(suites or (adv_suite(), shift_suite()), store, **options)


@pytest.fixture(scope="module")
def board(store):
    return board_of(store)


def test_numbers_are_those_of_the_reports(store, board) -> None:
    for suite in (adv_suite(), shift_suite()):
        for row in report_of_store(suite, store).rows:
            (found,) = [each for each in board.rows if each.model == row.model]
            assert {key: found.cells[f"{suite.name}/{key}"] for key in row.cells} == dict(row.cells)


def test_columns_of_several_suites_have_the_suite_in_their_names(store, board) -> None:
    assert [column.key for column in board.columns][:6] == ADV_COLUMNS
    assert board.columns[0].label == "adv: clean top-1 accuracy"
    assert board_of(store, adv_suite()).columns[0].label == "clean top-1 accuracy"
    assert board.title == "adv, version 1; shift, version 2"


def test_models_come_by_name_or_as_asked_for(store, board) -> None:
    assert [row.model for row in board.rows] == ["rpc", "symvit", "vit"]
    asked = board_of(store, models=["vit", "nobody", "rpc", "vit"])
    assert [row.model for row in asked.rows] == ["vit", "nobody", "rpc"]
    cell = asked.rows[1].cells[ADV_COLUMNS[0]]
    assert (cell.estimate, cell.num_examples, cell.missing) == (None, 0, NUM_EXAMPLES)


def test_a_model_of_one_suite_has_gaps_in_the_other(board) -> None:
    rpc = board.rows[0]
    # Clean examples are the same in both.
    assert rpc.cells["shift/clean/top1_accuracy"] == rpc.cells["adv/clean/top1_accuracy"]
    assert list(rpc.measured) == ["adv/clean", "adv/fgsm", "adv/pgd", "adv/pgd-half", "shift/clean"]
    others = [cell for key, cell in rpc.cells.items() if key.startswith("shift/") and "clean" not in key]
    assert {cell.estimate for cell in others} == {None}
    assert {cell.missing for cell in others} == {NUM_EXAMPLES}


def test_each_condition_has_its_provenance(board) -> None:
    (measured,) = board.rows[0].measured["adv/pgd"]
    assert measured.checkpoint == "rpc"
    assert (measured.condition, measured.budget, measured.dataset) == ("pgd", "8/255", "digits")
    assert (measured.seed, measured.batch_size, measured.dataset_size) == (0, 20, 600)
    assert (measured.num_examples, measured.missing) == (NUM_EXAMPLES, 0)
    assert (len(measured.measurement_key), len(measured.weights_digest)) == (32, 64)
    assert measured.devices == ("cpu",)
    assert measured.versions == {"numpy": "2.3", "torch": "2.15"}


def test_columns_name_the_conditions_that_they_read(board) -> None:
    columns = {column.key: column for column in board.columns}
    assert columns["adv/linf-8/255/robust_accuracy"].measurements == ("adv/clean", "adv/fgsm", "adv/pgd")
    assert columns["shift/sweep@4/255/top1_accuracy"].measurements == ("shift/sweep",)
    assert len(columns["shift/digits-c/contrast/corruption_error"].measurements) == 5


def test_flags_that_suites_share_are_there_once(store) -> None:
    twin = adv_suite(name="twin")
    rows = {row.model: row for row in board_of(store, adv_suite(), twin).rows}
    assert [each for each in rows["vit"].raised if each == MASKED] == [MASKED]
    assert rows["vit"].flag_suites[rows["vit"].flags.index(MASKED)] == ("adv", "twin")
    assert rows["symvit"].flags is not None
    assert FINE in rows["symvit"].flags
    assert board_of(store, shift_suite()).rows[0].flags is None


def test_failures_are_notes_that_name_the_suite() -> None:
    kept = MemoryStore()
    fill(kept, adv_suite(), {"vit": 0.5}, half=["vit"])
    record = next(iter(kept.records(lambda shard: shard.condition == "fgsm")))
    shard = replace(record.shard, key="9" * 32, start=60, stop=120)
    failure: Failure = failure_of(shard, "out of memory")
    kept.put(failure)
    assert any("out of memory" in note for note in board_of(kept, adv_suite()).rows[0].notes)
    assert board_of(kept).rows[0].notes[0].startswith("adv: fgsm: 1 shard failed")


def test_the_best_is_the_best_and_the_far_ones_are_distinguishable(store) -> None:
    kept = MemoryStore()
    fill(kept, adv_suite(), {"good": 0.6, "as-good": 0.6, "bad": 0.2})
    board = board_of(kept, adv_suite())
    for key in ADV_COLUMNS:
        ranks = {row.model: row.ranks[key] for row in board.rows}
        values = {row.model: row.cells[key].estimate.value for row in board.rows}
        (best,) = [model for model, rank in ranks.items() if rank.is_best]
        assert values[best] == max(values.values())
        assert ranks[best].p is None
        assert ranks[best].is_close
        assert not ranks["bad"].is_close
        assert ranks["bad"].p <= ranks["bad"].adjusted < 0.05
    assert set(board.pairs) == set(ADV_COLUMNS)
    assert set(board.pairs[ADV_COLUMNS[0]]) == {(0, 1), (0, 2), (1, 2)}


def test_numbers_that_are_no_proportion_are_ranked_and_tested_by_permutation(board) -> None:
    ranks = {row.model: row.ranks.get("shift/digits-c/mean_error") for row in board.rows}
    estimates = {row.model: row.cells["shift/digits-c/mean_error"].estimate for row in board.rows}
    assert ranks["rpc"] is None
    better = min(("vit", "symvit"), key=lambda model: estimates[model].value)
    assert ranks[better].is_best
    (other,) = {"vit", "symvit"} - {better}
    assert ranks[better].p is None
    assert 0 < ranks[other].p < 1
    assert ranks[better].is_close
    assert ranks[other].is_close == (ranks[other].p > 0.05)


def test_a_sweep_is_a_curve(board) -> None:
    curve = next(each for each in board.curves if each.group == "shift")
    assert curve.title == "sweep: top-1 accuracy"
    assert curve.x_label == "budget, linf"
    assert [tick for _, tick in curve.ticks] == ["0", "2/255", "4/255", "8/255"]
    assert [x for x, _ in curve.ticks] == [float(Fraction(each)) for each in ("0", "2/255", "4/255", "8/255")]
    values = [point.value for point in curve.lines["vit"]]
    cells = next(row.cells for row in board.rows if row.model == "vit")
    keys = [f"shift/sweep@{budget}/top1_accuracy" for budget in ("0", "2/255", "4/255", "8/255")]
    assert values == [cells[key].estimate.value for key in keys]
    assert [point.value for point in curve.lines["rpc"]] == [None] * 4


def test_corruptions_are_profiles_over_severities(board) -> None:
    profiles = board.profiles
    assert [(chart.group, chart.title) for chart in profiles] == [("shift: digits-c", kind) for kind in TYPES]
    assert [tick for _, tick in profiles[0].ticks] == ["1", "2", "3", "4", "5"]
    errors = [row.cells["shift/digits-c/mean_error"].estimate for row in board.rows if row.model == "vit"]
    accuracies = [point.value for chart in profiles for point in chart.lines["vit"]]
    assert sum(accuracies) / len(accuracies) == pytest.approx(1 - errors[0].value)


def test_a_half_measured_corruption_is_a_gap_in_its_profile() -> None:
    kept = MemoryStore()
    suite = shift_suite(batches_per_shard=3)
    fill(kept, suite, {"vit": 0.5}, half=["vit"])
    values = [point.value for chart in board_of(kept, suite).profiles for point in chart.lines["vit"]]
    assert values.count(None) == 5
    assert len(values) == 10


def test_a_limit_holds_for_all() -> None:
    kept = MemoryStore()
    fill(kept, adv_suite(), {"vit": 0.5}, limit=60)
    assert board_of(kept, adv_suite()).rows == ()
    (row,) = board_of(kept, adv_suite(), limit=60).rows
    assert row.limit == 60
    assert row.cells[ADV_COLUMNS[0]].estimate.num_examples == 60


def test_training_seeds_are_a_row_with_their_mean_and_points() -> None:
    kept = MemoryStore()
    seeds = ("vit", "vit@1", "vit@2")
    fill(kept, shift_suite(), dict.fromkeys(seeds, 0.5) | {"symvit": 0.5})
    board = board_of(kept, shift_suite(), average_seeds=True)
    symvit, vit = board.rows
    assert (symvit.model, symvit.seeds) == ("symvit", ())
    assert (vit.model, vit.seeds) == ("vit", seeds)
    estimate = vit.cells["shift/sweep@4/255/top1_accuracy"].estimate
    single = {row.model: row for row in board_of(kept, shift_suite()).rows}
    values = [single[each].cells["shift/sweep@4/255/top1_accuracy"].estimate.value for each in seeds]
    assert list(estimate.of_seeds) == values
    assert estimate.value == pytest.approx(sum(values) / 3)
    assert [each.checkpoint for each in vit.measured["shift/sweep"]] == list(seeds)
    # Pairing examples says nothing of means over training seeds, and one checkpoint has no seeds to test.
    assert {rank.p for row in board.rows for rank in row.ranks.values()} == {None}
    points = [board.profiles[0].lines["vit"][0].value, *(row_profile(kept, each) for each in seeds)]
    assert points[0] == pytest.approx(sum(points[1:]) / 3)


def row_profile(store, model):
    return board_of(store, shift_suite(), models=[model]).profiles[0].lines[model][0].value


def test_two_suites_of_one_name_are_refused(store) -> None:
    with pytest.raises(UsageError, match="two suites are named 'adv'; rename one of them"):
        board_of(store, adv_suite(), adv_suite(version=2))


def test_entries_describe_models(store) -> None:
    registry = read_registries()
    board = board_of(store, checkpoints={"vit": registry["digits-boost-vit"]})
    entries = {row.model: row.entry for row in board.rows}
    assert entries["rpc"] is None
    assert entries["vit"] == entry_of(registry["digits-boost-vit"])
    assert entries["vit"].attention == "softmax + boost"


@pytest.mark.parametrize(
    ("architecture", "attention", "words"),
    [
        (CHECKPOINT.architecture, "rpc", "vit, 4 layers, width 64, 4 heads, 32 px"),
        (replace(CHECKPOINT.architecture, attention=Rpc(formula="released")), "rpc (released)", "vit, 4 layers"),
        (Timm(name="resnet18"), OF_THE_BACKBONE, "resnet18"),
        (Vit(image_size=32, patch_size=8, num_classes=10, depth=2, dim=8, num_heads=2), "softmax", "vit, 2 layers"),
    ],
)
def test_an_entry_has_family_attention_and_size(architecture, attention, words) -> None:
    entry = entry_of(replace(CHECKPOINT, architecture=architecture))
    assert entry.family == architecture.kind
    assert entry.attention == attention
    assert entry.architecture.startswith(words)
    assert (entry.training_data, entry.source, entry.licence) == ("digits", "here", "MIT")


def test_a_ranked_report_is_the_report_with_the_leaderboards_ranks(store, board) -> None:
    suite = adv_suite()
    plain = report_of_store(suite, store)
    found_report = ranked(plain, suite, store)
    assert [row.model for row in found_report.rows] == [row.model for row in plain.rows]
    of_board = {row.model: row for row in board_of(store, suite).rows}
    for row, before in zip(found_report.rows, plain.rows, strict=True):
        assert replace(row, ranks={}) == before
        found = of_board[row.model]
        assert {f"adv/{key}": rank for key, rank in row.ranks.items()} == dict(found.ranks)
    assert any(rank.p is not None for row in found_report.rows for rank in row.ranks.values())
    assert found_report.notes == plain.notes
    assert found_report.tests.startswith("two-sided exact McNemar; p times 6 columns of the suite and")


def test_a_single_model_and_an_empty_table_have_no_best(store) -> None:
    for models in (["vit"], []):
        report = report_of_store(adv_suite(), store, models=models)
        assert ranked(report, adv_suite(), store) == report


def test_models_without_numbers_have_no_best() -> None:
    report = report_of_store(adv_suite(), MemoryStore(), models=["a", "b"])
    report = ranked(report, adv_suite(), MemoryStore())
    assert report.tests == ""
    assert all(row.ranks == {} for row in report.rows)


@pytest.mark.parametrize("sort", ["adv/pgd/top1_accuracy", "pgd/top1_accuracy"])
def test_an_arranged_board_keeps_pairs_with_their_rows(board, sort: str) -> None:
    if sort.startswith("adv"):
        with pytest.raises(UsageError, match="no column is named 'adv/pgd/top1_accuracy'"):
            arranged_board(board, sort=sort)
        return
    arranged = arranged_board(board, columns=["pgd", "fgsm*"], sort=sort)
    values = [row.cells["adv/pgd/top1_accuracy"].estimate for row in arranged.rows]
    numbers = [each.value for each in values if each is not None]
    assert numbers == sorted(numbers, reverse=True)
    assert {column.column.key for column in arranged.columns} == {"fgsm/top1_accuracy", "pgd/top1_accuracy"}

    def named(of) -> set:
        key = "adv/pgd/top1_accuracy"
        return {(frozenset(of.rows[place].model for place in pair), p) for pair, p in of.pairs[key].items()}

    assert named(arranged) == named(board)
    assert all(first < second for pairs in arranged.pairs.values() for first, second in pairs)


LEVELS = {"a": 0.62, "b": 0.6, "c": 0.45, "d": 0.2, "half": 0.6}
FGSM = "adv/fgsm/top1_accuracy"


def settings(**fields):
    return settings_of(document_from_python({"leaderboard": fields}, "settings"), board_columns([adv_suite()]))


@pytest.fixture(scope="module")
def ready():
    kept = MemoryStore()
    fill(kept, adv_suite(), LEVELS, half=["half"])
    return kept


@pytest.fixture(scope="module")
def settled(ready):
    chosen = settings(
        title="Robust *attention*",
        headline=["fgsm", "clean/top1_accuracy", "adv/linf-4*"],
        sort={"column": "fgsm/top1_accuracy", "direction": "worst-first"},
        note="A note.",
    )
    entry = replace(
        CHECKPOINT, paper="https://arxiv.org/abs/2402.04617?a=1&b=2", code="javascript:alert(1)",
        weights=Weights(uri="hf-hub:owner/repository/model.safetensors", sha256=None), training_data="digits | <b>",
    )  # fmt: skip
    return leaderboard_of([adv_suite()], ready, checkpoints={"a": entry}, settings=chosen)


class TestFiles:
    def test_every_problem_has_its_line(self, tmp_path) -> None:
        path = tmp_path / "board.yaml"
        path.write_text(
            "leaderboard:\n"
            "  titel: x\n"
            "  headline:\n"
            "    - pgd/top1_acuracy\n"
            "    - clean\n"
            "  sort: {column: robust_accuracy, direction: up}\n"
            "  note: 3\n"
            "extra: 1\n"
        )
        with pytest.raises(DeclarationError) as found:
            settings_of(read_yaml(path), board_columns([adv_suite()]), cost_columns(["products"]))
        lines = [line.strip() for line in found.value.lines[1:]]
        assert found.value.num_problems == len(lines) == 6
        assert lines[0] == "line 2: leaderboard.titel: unknown field 'titel'. Did you mean 'title'?"
        assert lines[1].startswith("line 4: leaderboard.headline[0]: no column is named 'pgd/top1_acuracy'. Did you")
        assert "'pgd/top1_accuracy'" in lines[1]
        assert any("'up'" in line and "best-first" in line for line in lines[2:4])
        assert any("sort by one of adv/linf-4/255/robust_accuracy, adv/linf-8/255" in line for line in lines[2:4])
        assert lines[4] == "line 7: leaderboard.note: must be text, got 3; put it in quotes"
        assert lines[5].startswith("line 8: extra: unknown field 'extra'")

    def test_costs_may_come_first_and_are_not_sorted_by(self) -> None:
        def of(**fields):
            document = document_from_python({"leaderboard": fields}, "settings")
            return settings_of(document, board_columns([adv_suite()]), cost_columns(["products"]))

        assert of(headline=["costs/parameters", "fgsm"]).headline == ("costs/parameters", FGSM)
        with pytest.raises(DeclarationError, match="costs have no test, and so no ranks"):
            of(sort={"column": "costs/parameters"})

    def test_of_several_suites_a_column_needs_its_suite(self) -> None:
        columns = board_columns([adv_suite(), shift_suite()])

        def of(name):
            document = document_from_python({"leaderboard": {"sort": {"column": name}}}, "settings")
            return settings_of(document, columns)

        assert of("shift/clean/top1_accuracy").sort == "shift/clean/top1_accuracy"
        with pytest.raises(DeclarationError, match="sort by one of adv/clean/top1_accuracy, shift/clean/top1_accuracy"):
            of("clean/top1_accuracy")


class TestRanks:
    def test_a_rank_counts_the_models_that_mcnemar_finds_better(self, ready, settled) -> None:
        verdicts = {}
        for record in sorted(ready.records(lambda shard: shard.condition == "fgsm"), key=lambda each: each.shard.start):
            found = record.outcomes.column("correct_top1")
            verdicts[record.shard.checkpoint] = np.append(verdicts.get(record.shard.checkpoint, []), found)
        complete = [model for model, right in verdicts.items() if len(right) == NUM_EXAMPLES]
        assert sorted(complete) == ["a", "b", "c", "d"]

        def is_better(one, other) -> bool:
            wins, losses = ((verdicts[one] > verdicts[other]).sum(), (verdicts[one] < verdicts[other]).sum())
            p_value = binomtest(int(wins), int(wins + losses)).pvalue if wins + losses else 1.0
            # Six columns of the suite, and four other models in the table.
            return bool(wins > losses and min(1, p_value * 6 * 4) <= 0.05)

        wanted = {one: 1 + sum(is_better(other, one) for other in complete) for one in complete}
        assert {row.model: row.rank for row in settled.rows} == {**wanted, "half": None}
        assert sorted(wanted.values()) == [1, 1, 3, 4]

    def test_what_is_missing_has_no_rank_and_says_so(self, settled) -> None:
        assert [(row.model, row.unranked) for row in settled.rows if row.rank is None] == [
            ("half", "its number is missing: — (60 of 120 missing)")
        ]

    def test_rows_are_in_order_of_the_number_and_missing_ones_last(self, ready, settled) -> None:
        values = [cell.estimate and cell.estimate.value for cell in (row.cells[FGSM] for row in settled.rows)]
        assert values[-1] is None
        assert values[:-1] == sorted(values[:-1])
        best_first = leaderboard_of([adv_suite()], ready, settings=Settings(sort=FGSM))
        assert [row.model for row in best_first.rows][:4] == [row.model for row in settled.rows][3::-1]
        # Tests of pairs are by place, and belong to the same models in either order.
        places = {row.model: place for place, row in enumerate(settled.rows)}
        others = {row.model: place for place, row in enumerate(best_first.rows)}
        pair = tuple(sorted((places["a"], places["d"]))), tuple(sorted((others["a"], others["d"])))
        assert settled.pairs[FGSM][pair[0]] == best_first.pairs[FGSM][pair[1]]

    def test_only_models_that_can_be_tested_against_each_other_are_ranked(self) -> None:
        def of(first: int, right: int):
            ids = np.array([f"{place:03}" for place in range(first, first + 200)])
            return Contributions((Sample(ids, np.arange(200) < right),))

        testable = {
            "good": of(0, 180),
            "bad": of(0, 40),
            "elsewhere": of(100, 199),
            "seeds": (0.9, 0.91),
            "infinite": (0.9, float("inf")),
        }
        values = {"elsewhere": 0.995, "seeds": 0.905, "good": 0.9, "untested": 0.5, "bad": 0.2, "infinite": 0.1}
        found = ordinals(values, testable, lower_is_better=False, num_columns=3, num_models=6)
        assert found == {
            "good": 1,
            "bad": 2,
            "elsewhere": "it was measured on other examples than the ranked models",
            "seeds": "it is a mean over training seeds, and a single checkpoint is ranked",
            "infinite": "it is a mean over training seeds, and a single checkpoint is ranked",
            "untested": "its number cannot be tested",
        }
        reverse_order = ordinals({"good": 0.9, "bad": 0.2}, testable, lower_is_better=True, num_columns=3, num_models=6)
        assert reverse_order == {"good": 2, "bad": 1}
        alone = ordinals({"good": 0.9, "seeds": 0.9}, testable, lower_is_better=False, num_columns=1, num_models=2)
        assert set(alone.values()) == {
            "no other model can be tested against it, on the same examples or over training seeds"
        }

    def test_the_number_of_columns_and_models_decides(self) -> None:
        ids = np.array([f"{place:03}" for place in range(100)])
        # 8 against 0 examples: p = 2 / 2^8 = 0.0078, six tests of which are 0.047 and seven 0.055.
        testable = {
            name: Contributions((Sample(ids, np.arange(100) < right),)) for name, right in (("x", 58), ("y", 50))
        }
        values = {"x": 0.58, "y": 0.5}
        for num_columns, num_models, rank in ((6, 2, 2), (7, 2, 1), (2, 4, 2), (2, 5, 1)):
            found = ordinals(values, testable, lower_is_better=False, num_columns=num_columns, num_models=num_models)
            assert found == {"x": 1, "y": rank}


class TestFormats:
    def test_markdown_has_title_note_two_tables_and_the_models(self, settled) -> None:
        text = RENDERERS["md"](settled)
        assert text.startswith("# Robust \\*attention\\*\n\nA note.\n\n| model")
        first, second, models = [block for block in text.split("\n\n") if block.startswith("|")]
        heads = [cell.strip() for cell in first.splitlines()[0].split("|")[1:-1]]
        assert heads[:3] == ["model", "rank", "fgsm top-1 accuracy"]
        assert "clean top-1 accuracy" in first
        assert "pgd top-1 accuracy" in second
        assert "fgsm top-1 accuracy" not in second
        assert "[https://arxiv.org/abs/2402.04617?a=1&amp;b=2](<https://arxiv.org/abs/2402.04617?a=1&b=2>)" in models
        assert "(<https://huggingface.co/owner/repository>)" in models
        assert "| javascript:alert(1) |" in models
        assert "digits \\| &lt;b&gt;" in models
        assert "- No rank: half: its number is missing" in text
        # A note on a column of the second table.
        assert "- linf-8/255 robust accuracy: examples that are right under all of" in text
        assert "p times 6 columns of the suite and 4 other models" in text

    def test_json_and_csv_have_rank_and_reason(self, settled) -> None:
        document = json.loads(RENDERERS["json"](settled))
        assert document["settings"]["headline"] == [FGSM, "adv/clean/top1_accuracy", "adv/linf-4/255/robust_accuracy"]
        assert [column["key"] for column in document["columns"]][:3] == document["settings"]["headline"]
        ranks = {row["model"]: row.get("rank", row.get("unranked")) for row in document["rows"]}
        lines = list(csv.DictReader(io.StringIO(RENDERERS["csv"](settled))))
        assert {line["model"]: line["rank"] or line["unranked"] for line in lines} == {
            model: str(rank) for model, rank in ranks.items()
        }
        assert {line["column"] for line in lines if line["is_headline"] == "True"} == {
            key.removeprefix("adv/") for key in document["settings"]["headline"]
        }
        entry = document["rows"][[row["model"] for row in document["rows"]].index("a")]["entry"]
        assert entry["links"] == ["paper", "weights"]

    def test_latex_has_title_and_two_tables(self, settled) -> None:
        text = RENDERERS["latex"](settled)
        assert text.count("\\begin{tabular}") == 2
        assert "Robust *attention*" in text.split("\\begin{tabular}")[0]

    def test_the_page_links_addresses_alone(self, settled) -> None:
        page = RENDERERS["html"](settled)
        assert "<title>Robust *attention*</title>" in page
        assert page.count("<a href=") == 2
        assert '<a href="https://arxiv.org/abs/2402.04617?a=1&amp;b=2" rel="noopener noreferrer nofollow">' in page
        assert "<td>javascript:alert(1)</td>" in page
        assert "<td>digits | &lt;b&gt;</td>" in page
        assert page.count("<td>2026-11-21</td>") == len(LEVELS)
