"""Contract tests for plug-ins, the same that robench runs on its own.

As scikit-learn's ``check_estimator``: each function takes an instance of a declaration, needs no pytest, and raises an
AssertionError at the first broken contract, with one message that names the plug-in, what was found and what was
expected. In a test suite::

    from robench.testing import check_attack

    def test_my_attack() -> None:
        check_attack(MyAttack(epsilon=Fraction(8, 255)))

The modules contain the single checks (``attack.ATTACK_CHECKS`` and its like), which robench's tests run one by one.
"""

from robench.testing.analysis import check_analysis
from robench.testing.attack import check_attack
from robench.testing.attention import check_attention
from robench.testing.corruption import check_corruption
from robench.testing.dataset import check_dataset
from robench.testing.domain import check_domain
from robench.testing.executor import check_executor
from robench.testing.metric import check_metric
from robench.testing.task import check_task

__all__ = [
    "check_analysis",
    "check_attack",
    "check_attention",
    "check_corruption",
    "check_dataset",
    "check_domain",
    "check_executor",
    "check_metric",
    "check_task",
]
