"""Generic code knows no plug-in by name: it imports none, and has no string constant equal to a registered name.

Checked on the syntax trees; docstrings are exempt, and ``clean`` belongs to core. A further family of plug-ins is an
entry of ``NAMES`` and one of ``MODULES``.
"""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from sources import parsed

from robench.analyses import ANALYSES
from robench.attacks import ATTACKS
from robench.attention import ATTENTIONS
from robench.corruptions import TYPES
from robench.datasets import DATASET_KINDS, DATASETS
from robench.domains import DOMAINS
from robench.executors import EXECUTORS
from robench.metrics import METRICS
from robench.models import BACKBONES, RESIDUALS
from robench.perturbations import PERTURBATIONS
from robench.tasks import TASKS

PACKAGE = Path(__file__).parents[2] / "robench"
GENERIC = (
    "core",
    "declare",
    "scheduling",
    "evaluation",
    "store",
    "reports",
    "comparison",
    "papers",
    "exports",
    "leaderboard",
    "figures",
    "runs",
    "cli",
)


def modules_of(*paths: str) -> frozenset[str]:
    """Modules of ``module`` or ``module:name``."""
    return frozenset(path.partition(":")[0] for path in paths)


# By family: the registered names, and the modules that declare or compute one of them.
NAMES: Mapping[str, frozenset[str]] = {
    "attacks": frozenset(ATTACKS),
    "corruptions": frozenset(TYPES),
    "perturbations": frozenset(PERTURBATIONS) - {"clean"},
    "analyses": frozenset(ANALYSES),
    "attentions": frozenset(ATTENTIONS),
    "backbones": frozenset(BACKBONES),
    "residuals": frozenset(RESIDUALS),
    "datasets": frozenset(DATASETS),
    "formats of datasets": frozenset(DATASET_KINDS),
    "metrics": frozenset(METRICS),
    "domains": frozenset(DOMAINS),
    "tasks": frozenset(TASKS),
    "executors": frozenset(EXECUTORS),
}
MODULES: Mapping[str, frozenset[str]] = {
    "attacks": modules_of(*(path for each in ATTACKS.values() for path in (each.__module__, each.implementation))),
    "corruptions": modules_of(*TYPES.values()),
    "perturbations": modules_of(
        *(path for each in PERTURBATIONS.values() for path in (each.__module__, each.implementation))
    )
    - {"robench.perturbations.clean"},
    "analyses": modules_of(*(path for each in ANALYSES.values() for path in (each.__module__, each.implementation))),
    "attentions": modules_of(
        *(path for each in ATTENTIONS.values() for path in (each.__module__, each.implementation))
    ),
    "backbones": modules_of(*(path for each in BACKBONES.values() for path in (each.__module__, each.implementation))),
    "formats of datasets": modules_of(
        *(path for each in DATASET_KINDS.values() for path in (each.__module__, each.implementation))
    ),
    "metrics": modules_of(*(each.implementation for each in METRICS.values())),
    "domains": modules_of(
        *(path for each in DOMAINS for path in (f"robench.domains.{each}", DOMAINS[each].implementation))
    ),
    "tasks": modules_of(*(path for each in TASKS for path in (f"robench.tasks.{each}", TASKS[each].implementation)))
    | {"robench.tasks.classification_impl"},
    "executors": modules_of(*(path for each in EXECUTORS.values() for path in (each.__module__, each.implementation))),
}
# Words that mean something else where they stand: by file, the constants and why.
TIMM = "the library, whose release is named and whose scripts are run"
LAYOUT = "the layout of a file of weights, which core has a default for"
TOKENS = "the number of tokens of a layer, whatever its inputs"
ALLOWED_NAMES: Mapping[str, Mapping[str, str]] = {
    "cli/check_command.py": {"csv": "a form of tables"},
    "comparison/documents.py": {"csv": "a form of tables"},
    "comparison/many_to_one_documents.py": {"csv": "a form of tables", "control": "the model beside others"},
    "core/rendered.py": {"csv": "a form of tables"},
    "cli/doctor_command.py": {
        "python": "the interpreter",
        "timm": TIMM,
        "torchvision": "the library, whose release is named",
    },
    "cli/cost_command.py": {"tokens": TOKENS},
    "cli/export_command.py": {"images": "what the command writes", "parquet": "a form of tables"},
    "cli/growth_table.py": {"tokens": TOKENS},
    "cli/main.py": {"timm": TIMM},
    "cli/timm_command.py": {"timm": TIMM},
    "evaluation/arithmetic.py": {"timm": TIMM},
    "cli/terminal.py": {"plain": "a way of printing tables"},
    "cli/new_command.py": {"corruption": "the family that --draws is of"},
    "core/checkpoint.py": {"plain": LAYOUT},
    "core/plugins.py": {"python": "the word for code of the user's own, in all families", "corruption": "a family"},
    "exports/tables.py": {"csv": "a form of tables", "parquet": "a form of tables"},
    "leaderboard/__init__.py": {"csv": "a form of tables"},
    "papers/protocol.py": {
        "environment": "a field of protocols",
        "segmenter": "a recipe of papers, by the name of its code",
    },
    "papers/render.py": {"csv": "a form of tables"},
    "runs/growth.py": {"tokens": TOKENS},
    "reports/__init__.py": {"csv": "a form of tables"},
}
# The audit attacks a model in ways that its definition fixes.
AUDIT = "the audit is defined by these attacks"
CLASSIFIERS = "some checks of the audit are of classifiers alone"
LOSSES = "robench.tasks.classification_impl"
ALLOWED_IMPORTS: Mapping[str, Mapping[str, str]] = {
    "evaluation/probe.py": {
        "robench.attacks.apgd": AUDIT,
        "robench.attacks.apgd_impl": AUDIT,
        "robench.attacks.fgsm": AUDIT,
        "robench.attacks.pgd": AUDIT,
        "robench.attacks.square": AUDIT,
        LOSSES: CLASSIFIERS,
    },
    "evaluation/attention_audit.py": {"robench.attacks.patch_fool": AUDIT, "robench.attacks.pgd": AUDIT},
    "evaluation/chosen_attacks.py": {f"robench.attacks.{name}": AUDIT for name in ("apgd", "fmn", "pgd", "rays")},
    "evaluation/model_checks.py": {
        "robench.attacks.fgsm": AUDIT,
        "robench.tasks.classification_impl": CLASSIFIERS,
        LOSSES: CLASSIFIERS,
    },
}


def constants_of(source: str) -> set[str]:
    """Every string constant of a module that is no docstring; of a formatted string, its constant parts."""
    tree = parsed(source)
    # A string that is a statement of its own documents what stands before it.
    exempt = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in exempt)
    return {node.value for node in constants if isinstance(node.value, str)}


def imports_of(source: str) -> set[str]:
    """Every module that a module imports, wherever the statement stands; of a package, its names may be modules."""
    found: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


def met(package: Path, read: Callable[[str], set[str]], families: Mapping[str, frozenset[str]]) -> set[tuple[str, str]]:
    """Each file of generic code with each member of a family that ``read`` finds in it."""
    members = frozenset().union(*families.values())
    files = [path for layer in GENERIC for path in sorted((package / layer).rglob("*.py"))]
    return {(str(path.relative_to(package)), each) for path in files for each in read(path.read_text()) & members}


def allowed(exceptions: Mapping[str, Mapping[str, str]]) -> set[tuple[str, str]]:
    return {(path, each) for path, reasons in exceptions.items() for each in reasons}


def test_generic_code_has_no_name_of_a_plug_in_and_no_exception_is_idle() -> None:
    assert met(PACKAGE, constants_of, NAMES) == allowed(ALLOWED_NAMES)


def test_generic_code_imports_no_plug_in_and_no_exception_is_idle() -> None:
    assert met(PACKAGE, imports_of, MODULES) == allowed(ALLOWED_IMPORTS)


@pytest.mark.parametrize(
    "line",
    [
        'if kind == "pgd": pass',
        'NEAREST = ("cw",)',
        'def f() -> str:\n    """pgd"""\n    return f"{1}fab"',
        'TYPES = {"snow": 1}',
        'LIVE = "corruption"',
    ],
)
def test_a_planted_name_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "flags.py").write_text(line)
    assert len(met(tmp_path, constants_of, NAMES)) == 1


@pytest.mark.parametrize("line", ['"""pgd"""', 'KIND = "clean"', 'EXAMPLE = "{kind: pgd}"'])
def test_docstrings_clean_and_examples_are_no_names(tmp_path: Path, line: str) -> None:
    (tmp_path / "declare").mkdir()
    (tmp_path / "declare" / "columns.py").write_text(line)
    assert met(tmp_path, constants_of, NAMES) == set()


@pytest.mark.parametrize(
    ("line", "num_found"),
    [
        ("def f():\n    from robench.attacks.pgd import Pgd", 1),
        ("from robench.attacks import pgd", 1),
        ("import robench.corruptions.snow_impl", 1),
        ("from robench.attacks import ATTACKS", 0),
        ("from robench.attacks.base import Attack", 0),
        ("from robench.perturbations.clean import Clean", 0),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, line: str, num_found: int) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "transfer.py").write_text(line)
    assert len(met(tmp_path, imports_of, MODULES)) == num_found
