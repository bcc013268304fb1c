"""Base class of the declarations of all perturbations: attacks, corruptions, sweeps and clean inputs."""

from __future__ import annotations

from robench.core.declared import PerturbationDeclaration
from robench.declarations.base import DeclarationBase


class PerturbationBase(DeclarationBase, PerturbationDeclaration):
    """Base class of perturbations, with the neutral defaults of ``core.declared.PerturbationDeclaration``.

    A declaration overrides the defaults that do not apply. ``implementation`` names a ``core.protocols.Perturbation``,
    or the function of an attack (``attacks.base``).
    """
