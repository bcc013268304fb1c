"""Domains: what inputs are; ``x.py`` declares one without torch, and names the rules that hold for its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.plugins import Plugins
from robench.domains.base import Domain
from robench.domains.images import IMAGES

if TYPE_CHECKING:
    from robench.core.protocols import Batch

_BUILTIN: dict[str, Domain] = {domain.name: domain for domain in (IMAGES,)}
DOMAINS = Plugins("domain", _BUILTIN, base=Domain, instances=True)

__all__ = ["DOMAINS", "Domain", "domain_of"]


def domain_of(batch: Batch) -> Domain:
    """Return the domain whose inputs a batch has."""
    return DOMAINS[batch.domain or IMAGES.name]
