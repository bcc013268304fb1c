"""MLflow's client as robench uses it: it keeps runs in a file, chatters, and refuses what the real one refuses."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.stdout.write("chatter of a tracker\n")
os.write(1, b"chatter of a library")
FILE = Path(os.environ["FAKE_FILE"])
assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


class MlflowClient:
    def __init__(self):
        self.runs = json.loads(FILE.read_text()) if FILE.exists() else []

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name) if any(run["place"] == name for run in self.runs) else None

    def create_experiment(self, name):
        assert self.get_experiment_by_name(name) is None
        return name

    def search_runs(self, places, query, max_results):
        found = [run for run in self.runs if [run["place"]] == places and query == _query(run["tags"]["robench_key"])]
        return [self._seen(run) for run in found[:max_results]]

    def create_run(self, place, run_name, tags):
        self.runs.append({"place": place, "name": run_name, "tags": tags, "params": {}, "metrics": {}, "points": 0})
        return self._seen(self.runs[-1])

    def log_batch(self, run_id, metrics=(), params=(), tags=()):
        run = self.runs[run_id]
        assert len(metrics) <= 1000
        if os.environ.get("FAKE_INTERRUPT"):
            raise KeyboardInterrupt
        run["metrics"] |= {name: value for name, value, _, _ in metrics}
        run["points"] += len(metrics)
        for name, value in params:
            assert run["params"].setdefault(name, value) == value
        run["tags"] |= dict(tags)

    def set_terminated(self, run_id, status="FINISHED"):
        self.runs[run_id]["status"] = status
        FILE.write_text(json.dumps(self.runs))

    def _seen(self, run):
        data = SimpleNamespace(metrics=dict(run["metrics"]), params=dict(run["params"]))
        return SimpleNamespace(info=SimpleNamespace(run_id=self.runs.index(run)), data=data)


def _query(key):
    return f"tags.robench_key = '{key}'"
