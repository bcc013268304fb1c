"""Explanations of one model's results, from made-up outcomes: settings, budgets, flags, failures and examples."""

import json
from dataclasses import replace

import pytest
from leaderboard_examples import FINE, MASKED, NUM_EXAMPLES, adv_suite, fill, shift_suite

from examples import failure_of
from robench.core.errors import IncompleteError, UnknownNameError, UsageError
from robench.core.inert import printable
from robench.reports import explain, report_of_store
from robench.store import MemoryStore


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    kept = MemoryStore()
    fill(kept, adv_suite(), {"vit": 0.5, "rpc": 0.3}, half=["rpc"], flags={"vit": (MASKED, FINE)})
    fill(kept, shift_suite(), {"vit": 0.5})
    return kept


def test_a_sweep_has_a_row_for_each_budget_with_its_own_number(store) -> None:
    suite = shift_suite()
    views = {view.name: view for view in explain(suite, store, "vit").views}
    assert [name for name in views if name.startswith("sweep")] == [f"sweep@{each}" for each in ("0", *_BUDGETS)]
    row = report_of_store(suite, store, models=["vit"]).rows[0]
    for budget in _BUDGETS:
        view = views[f"sweep@{budget}"]
        assert view.budget == f"linf-{budget}"
        assert view.settings == {"relative_step": "1/4", "num_steps": 4}
        assert view.cells["top-1 accuracy"] == row.cells[f"sweep@{budget}/top1_accuracy"]


_BUDGETS = ("2/255", "4/255", "8/255")


def test_turned_examples_are_right_when_clean_and_wrong_under_the_attack(store) -> None:
    explained = explain(adv_suite(), store, "vit")
    verdicts = {}
    for record in store.records(lambda shard: (shard.checkpoint, shard.seed) == ("vit", 0)):
        for outcome in record.outcomes:
            verdicts[record.shard.condition, outcome.example_id] = outcome.correct_top1
    for name in ("fgsm", "pgd"):
        wanted = [each for (condition, each), right in verdicts.items() if condition == name and not right]
        wanted = [each for each in wanted if verdicts["clean", each]]
        (view,) = [view for view in explained.views if view.name == name]
        assert view.num_turned == len(wanted) > 0
        assert set(view.turned) <= set(wanted)
    assert explained.views[0].num_turned is None


def test_what_is_not_complete_names_no_examples(store) -> None:
    explained = explain(adv_suite(), store, "rpc")
    missing = [view for view in explained.views if view.num_in < NUM_EXAMPLES]
    assert missing
    assert all(view.num_turned is None for view in missing)
    assert f"of {NUM_EXAMPLES}" in explained.render("text")


def test_raised_flags_say_what_was_found_what_to_do_and_whose_rule_it_is(store) -> None:
    text = explain(adv_suite(), store, "vit").render("text")
    assert "zero gradients: 40 % of the gradients are zero (0.4, limit 0.1)" in text
    assert "    what to do: attack with square\n    rule: Carlini et al. 2019" in text
    assert "not raised: coupled rows" in text


def test_nothing_audited_is_said(store) -> None:
    explained = explain(shift_suite(), store, "vit")
    flags = explained.flags
    assert ("Flags: not audited" in explained.render("text")) == (flags is None)
    unaudited = replace(explained, flags=None)
    assert "Flags: not audited, so that nobody has looked" in unaudited.render("text")
    assert json.loads(unaudited.render("json"))["flags"] is None


def test_failed_shards_are_named_with_their_error() -> None:
    whole, store = MemoryStore(), MemoryStore()
    fill(whole, adv_suite(), {"vit": 0.5})
    for record in whole.records(lambda shard: True):
        is_lost = (record.shard.condition, record.shard.start) == ("pgd", 60)
        store.put(failure_of(record.shard, "CUDA out of memory") if is_lost else record)
    explained = explain(adv_suite(), store, "vit")
    assert explained.failures == ("vit / pgd / examples 60-119: CUDA out of memory",)
    assert "Failures:\n  vit / pgd / examples 60-119: CUDA out of memory" in explained.render("text")


def test_an_example_has_its_outcome_under_every_budget(store) -> None:
    record = next(store.records(lambda shard: shard.condition == "sweep"))
    wanted = record.outcomes.ids.tolist()[0]
    explained = explain(shift_suite(), store, "vit", example=wanted)
    assert {outcome.example_id for outcome in explained.outcomes.values()} == {wanted}
    assert len(explained.outcomes) == len(explained.views)
    assert explained.outcomes["sweep@4/255"].epsilon == "4/255"
    assert "correct top1" in explained.render("text")


def test_unknown_models_examples_and_suites_are_refused(store) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'vit'"):
        explain(adv_suite(), store, "vitt")
    with pytest.raises(UsageError, match="no outcome of example 'x' is kept; ids are such as"):
        explain(adv_suite(), store, "vit", example="x")
    with pytest.raises(IncompleteError, match="no results of suite 'adv'"):
        explain(adv_suite(), MemoryStore(), "vit")


def test_foreign_texts_are_printed_inert(store) -> None:
    evil = "a\x1b[31mb\nc"
    explained = explain(adv_suite(), store, "vit", example=next(store.records(lambda shard: True)).outcomes.ids[0])
    hostile = replace(explained, model=evil, failures=(evil,), notes=(evil,), example=evil)
    text = hostile.render("text")
    assert printable(text.replace("\n", "")) == text.replace("\n", "")
    assert json.loads(hostile.render("json"))["model"] == evil
