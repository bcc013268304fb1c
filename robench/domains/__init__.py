"""Domains: what inputs are; ``x.py`` declares one without torch, and names the rules that hold for its inputs."""

from __future__ import annotations

from robench.core.plugins import Plugins
from robench.domains.base import Domain
from robench.domains.images import IMAGES

_BUILTIN: dict[str, Domain] = {domain.name: domain for domain in (IMAGES,)}
DOMAINS = Plugins("domain", _BUILTIN, base=Domain, instances=True)

__all__ = ["DOMAINS", "Domain"]
