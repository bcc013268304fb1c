"""Results that were kept before are found again: no key of what is shipped changes unnoticed."""

import json

from golden_keys import GOLDEN, golden_keys


def test_the_keys_of_all_shipped_suites_and_checkpoints_are_those_that_were_written_down() -> None:
    """To accept a change: ``python tests/golden_keys.py``."""
    golden = json.loads(GOLDEN.read_text())
    keys = golden_keys()
    assert keys.keys() == golden.keys()
    for kind, named in keys.items():
        assert named.keys() == golden[kind].keys()
        for name, found in named.items():
            assert found == golden[kind][name], f"{kind}: {name}"


def test_different_conditions_have_different_keys() -> None:
    """One dataset under two names of one condition is the only way to the same key."""
    keys = golden_keys()["suites"]
    for name, found in keys.items():
        assert len(set(found.values())) >= len(found) - 1, name
    assert keys["digits-adv"]["clean"] == keys["digits-autoattack"]["clean"]
