"""Kept results to a leaderboard: cells, provenance, flags, ranks and lines of charts."""

from dataclasses import replace
from fractions import Fraction

import pytest
from leaderboard_examples import FINE, MASKED, NUM_EXAMPLES, TYPES, adv_suite, fill, shift_suite

from examples import CHECKPOINT, failure_of
from robench.attention.rpc import Rpc
from robench.core.errors import UsageError
from robench.core.records import Failure
from robench.declare import read_registries
from robench.leaderboard import arranged_board, leaderboard_of, ranked
from robench.leaderboard.build import OF_THE_BACKBONE, entry_of
from robench.models.foreign import Timm
from robench.models.vit import Vit
from robench.reports import report_of_store
from robench.store import MemoryStore

SKILLS = {"vit": 0.5, "symvit": 0.55, "rpc": 0.3}
ADV_COLUMNS = [
    "adv/clean/top1_accuracy", "adv/fgsm/top1_accuracy", "adv/pgd/top1_accuracy", "adv/pgd-half/top1_accuracy",
    "adv/linf-8/255/robust_accuracy", "adv/linf-4/255/robust_accuracy",
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
    assert found_report.notes[:-1] == plain.notes
    assert found_report.notes[-1].startswith("bold, or with an asterisk: the best of its column, or not")


def test_a_single_model_and_an_empty_table_have_no_best(store) -> None:
    for models in (["vit"], []):
        report = report_of_store(adv_suite(), store, models=models)
        assert ranked(report, adv_suite(), store) == report


def test_models_without_numbers_have_no_best() -> None:
    report = report_of_store(adv_suite(), MemoryStore(), models=["a", "b"])
    report = ranked(report, adv_suite(), MemoryStore())
    assert not any("bold" in note for note in report.notes)
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
