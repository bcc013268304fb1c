"""Base class of what every perturbation declares: attacks, corruptions, and what is above both."""

from __future__ import annotations

from robench.core.declared import PerturbationDeclaration
from robench.declarations.base import DeclarationBase


class PerturbationBase(DeclarationBase, PerturbationDeclaration):
    """Base class of perturbations, with the neutral answers of ``core.declared.PerturbationDeclaration``.

    A declaration overrides those that are not its own. ``implementation`` names a ``core.protocols.Perturbation``, or
    the function of an attack (``attacks.base``).
    """
