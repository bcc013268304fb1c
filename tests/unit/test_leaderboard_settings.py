"""Leaderboards with settings: what a file may say, ranks by their definition, and both in every format."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from leaderboard_examples import NUM_EXAMPLES, adv_suite, fill, shift_suite
from scipy.stats import binomtest

from examples import CHECKPOINT
from robench.comparison.pairing import ordinals
from robench.core.checkpoint import Weights
from robench.core.errors import DeclarationError
from robench.declare.document import document_from_python
from robench.declare.yaml_source import read_yaml
from robench.leaderboard import RENDERERS, board_columns, leaderboard_of, settings_of
from robench.leaderboard.board import Settings
from robench.leaderboard.costs import cost_columns
from robench.metrics.contributions import Contributions, Sample
from robench.store import MemoryStore

SKILLS = {"a": 0.62, "b": 0.6, "c": 0.45, "d": 0.2, "half": 0.6}
FGSM = "adv/fgsm/top1_accuracy"


def settings(**fields):
    return settings_of(document_from_python({"leaderboard": fields}, "settings"), board_columns([adv_suite()]))


@pytest.fixture(scope="module")
def store():
    kept = MemoryStore()
    fill(kept, adv_suite(), SKILLS, half=["half"])
    return kept


@pytest.fixture(scope="module")
def board(store):
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
    return leaderboard_of([adv_suite()], store, checkpoints={"a": entry}, settings=chosen)


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
        assert lines[1].startswith(
            "line 4: leaderboard.headline[0]: no column is named 'pgd/top1_acuracy'. Did you mean"
        )
        assert "'pgd/top1_accuracy'" in lines[1]
        assert any("'up'" in line and "best-first" in line for line in lines[2:4])
        assert any("sort by one of adv/linf-8/255/robust_accuracy, adv/linf-4/255" in line for line in lines[2:4])
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
    def test_a_rank_counts_the_models_that_mcnemar_finds_better(self, store, board) -> None:
        verdicts = {}
        for record in sorted(store.records(lambda shard: shard.condition == "fgsm"), key=lambda each: each.shard.start):
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
        assert {row.model: row.rank for row in board.rows} == {**wanted, "half": None}
        assert sorted(wanted.values()) == [1, 1, 3, 4]

    def test_what_is_missing_has_no_rank_and_says_so(self, board) -> None:
        assert [(row.model, row.unranked) for row in board.rows if row.rank is None] == [
            ("half", "its number is missing: — (60 of 120 missing)")
        ]

    def test_rows_are_in_order_of_the_number_and_missing_ones_last(self, store, board) -> None:
        values = [cell.estimate and cell.estimate.value for cell in (row.cells[FGSM] for row in board.rows)]
        assert values[-1] is None
        assert values[:-1] == sorted(values[:-1])
        best_first = leaderboard_of([adv_suite()], store, settings=Settings(sort=FGSM))
        assert [row.model for row in best_first.rows][:4] == [row.model for row in board.rows][3::-1]
        # Tests of pairs are by place, and belong to the same models in either order.
        places = {row.model: place for place, row in enumerate(board.rows)}
        others = {row.model: place for place, row in enumerate(best_first.rows)}
        pair = tuple(sorted((places["a"], places["d"]))), tuple(sorted((others["a"], others["d"])))
        assert board.pairs[FGSM][pair[0]] == best_first.pairs[FGSM][pair[1]]

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
        reversed_order = ordinals(
            {"good": 0.9, "bad": 0.2}, testable, lower_is_better=True, num_columns=3, num_models=6
        )
        assert reversed_order == {"good": 2, "bad": 1}
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
    def test_markdown_has_title_note_two_tables_and_the_models(self, board) -> None:
        text = RENDERERS["md"](board)
        assert text.startswith("# Robust \\*attention\\*\n\nA note.\n\n| model")
        first, second, models = [block for block in text.split("\n\n") if block.startswith("|")]
        assert [cell.strip() for cell in first.splitlines()[0].split("|")[1:-1]][:3] == [
            "model",
            "rank",
            "fgsm top-1 accuracy",
        ]
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

    def test_json_and_csv_have_rank_and_reason(self, board) -> None:
        document = json.loads(RENDERERS["json"](board))
        assert document["settings"]["headline"] == [FGSM, "adv/clean/top1_accuracy", "adv/linf-4/255/robust_accuracy"]
        assert [column["key"] for column in document["columns"]][:3] == document["settings"]["headline"]
        ranks = {row["model"]: row.get("rank", row.get("unranked")) for row in document["rows"]}
        lines = list(csv.DictReader(io.StringIO(RENDERERS["csv"](board))))
        assert {line["model"]: line["rank"] or line["unranked"] for line in lines} == {
            model: str(rank) for model, rank in ranks.items()
        }
        assert {line["column"] for line in lines if line["is_headline"] == "True"} == {
            key.removeprefix("adv/") for key in document["settings"]["headline"]
        }
        entry = document["rows"][[row["model"] for row in document["rows"]].index("a")]["entry"]
        assert entry["links"] == ["paper", "weights"]

    def test_latex_has_title_and_two_tables(self, board) -> None:
        text = RENDERERS["latex"](board)
        assert text.count("\\begin{tabular}") == 2
        assert "Robust *attention*" in text.split("\\begin{tabular}")[0]

    def test_the_page_links_addresses_alone(self, board) -> None:
        page = RENDERERS["html"](board)
        assert "<title>Robust *attention*</title>" in page
        assert page.count("<a href=") == 2
        assert '<a href="https://arxiv.org/abs/2402.04617?a=1&amp;b=2" rel="noopener noreferrer nofollow">' in page
        assert "<td>javascript:alert(1)</td>" in page
        assert "<td>digits | &lt;b&gt;</td>" in page
        assert page.count("<td>2026-11-21</td>") == len(SKILLS)
