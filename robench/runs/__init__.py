"""Whole runs, shared by ``robench run`` and ``robench.run``, without any printing.

This layer is below the two composition roots (``cli``, ``api``), which may not import each other.
"""

from robench.runs.check import check_request, suites_to_check
from robench.runs.chosen_models import ChosenModels, choose_models
from robench.runs.devices import choose_workers
from robench.runs.prepare import PreparedRun, measure, prepare
from robench.runs.request import REHEARSALS, RunRequest, rehearsal_request, smoke_request
from robench.runs.rescoring import rescore_results
from robench.runs.rounds import in_rounds
from robench.runs.transfer import PreparedTransfer, prepare_transfer, with_attack

__all__ = [
    "REHEARSALS",
    "ChosenModels",
    "PreparedRun",
    "PreparedTransfer",
    "RunRequest",
    "check_request",
    "choose_models",
    "choose_workers",
    "in_rounds",
    "measure",
    "prepare",
    "prepare_transfer",
    "rehearsal_request",
    "rescore_results",
    "smoke_request",
    "suites_to_check",
    "with_attack",
]
