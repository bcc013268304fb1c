"""The commands of the page on submissions run."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from test_rescore_command import MODEL, change_record, record_of_shard

from robench.core.columns import Values
from robench.store import FolderStore


def test_the_commands_of_the_page_on_submissions_run(
    robench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "submitting.md").read_text()
    commands = [shlex.split(line) for line in re.findall(r"^ *(robench .*)$", page, re.MULTILINE)]
    used = [command[1] for command in commands]
    assert used == ["validate", "run", "report", "export", "rescore", "rescore", "baseline", "check"]
    registry = yaml.safe_load((ROOT / "checkpoints.yaml").read_text())["checkpoints"]
    entry = {key: value for key, value in registry[MODEL].items() if key != "seeds"}
    entry["weights"]["uri"] = str(ROOT / entry["weights"]["uri"])
    (tmp_path / "registry.yaml").write_text(yaml.safe_dump({"checkpoints": {"my-vit": entry}}))
    monkeypatch.chdir(tmp_path)
    for command in commands:
        options = command[1:]
        if options[0] not in ("validate", "check"):
            options += ["--limit", "2"]
        if options[0] == "run":
            options += ["--executor", "serial", "--no-audit"]
        if options[0] == "check":
            options += ["--workers", "1"]
        ended = robench(*options)
        assert ended.code == 0, (command, ended.stderr)
    # It compares the first examples.
    store = FolderStore(tmp_path / "results")
    record = record_of_shard(store, "pgd")
    change_record(store, record, correct_top1=Values(~record.outcomes.column("correct_top1")))
    assert robench(*commands[4][1:], "--limit", "2").code == 1
