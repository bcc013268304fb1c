"""Gradients that an attack follows: a model's own, or others of the same outputs (formulas: docs/protocols.md)."""

from typing import Any, Literal

from robench.core.errors import ContractError

Gradients = Literal[
    "own",
    "through_solvers",
    "through_constants",
    "implicit",
    "smooth",
    "sparse_part",
    "within_kernel",
    "outside_kernel",
    "mechanism",
]
# Of attacks that do not know the mechanism.
PLAIN_GRADIENTS = ("own", "through_solvers")
# What any model has: its own where it solves nothing and offers no others.
OF_ANY_MODEL = (*PLAIN_GRADIENTS, "mechanism")


def check_gradients(gradients: Gradients, model: Any) -> None:
    """Refuse a model (``core.protocols.Model``) without these gradients.

    Raises:
        ContractError: no layer of it has them.
    """
    offered = getattr(model, "gradient_modes", ())
    if gradients not in (*OF_ANY_MODEL, *offered):
        have = " or ".join((*OF_ANY_MODEL, *offered))
        raise ContractError(f"no layer of it has gradients {gradients}, and all would be its own: take {have}")
