"""What every metric promises, over the whole registry."""

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from robench.metrics import METRICS
from robench.testing.metric import METRIC_CHECKS, computed


@pytest.mark.parametrize("name", METRICS)
class TestMetricContract:
    @pytest.mark.parametrize("check", METRIC_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_metric_promises(self, name: str, check: Any) -> None:
        check(METRICS[name])

    def test_it_is_registered_under_its_own_name(self, name: str) -> None:
        assert METRICS[name].name == name

    def test_it_is_frozen(self, name: str) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            METRICS[name].unit = "per cent"  # type: ignore[misc]  # on purpose

    def test_it_has_an_interval(self, name: str) -> None:
        if not METRICS[name].interval:
            return
        estimate = computed(METRICS[name])
        assert estimate.low is not None
        assert estimate.high is not None


def test_importing_metrics_is_light():
    heavy = {"torch", "numpy", "scipy", "pandas", "pyarrow", "sklearn"}
    code = f"import sys, robench.metrics; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
