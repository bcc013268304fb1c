"""Domains of inputs: ``x.py`` declares a domain without torch, and names the rules of its inputs."""

from robench.core.plugins import Plugins
from robench.core.protocols import Batch
from robench.domains.base import CHANNELS, Domain
from robench.domains.episodes import EPISODES
from robench.domains.images import IMAGES
from robench.domains.series import SERIES
from robench.domains.texts import TEXTS
from robench.domains.tokens import TOKENS

_BUILTIN: dict[str, Domain] = {
    domain.name: domain
    for domain in (
        IMAGES,
        TEXTS,
        SERIES,
        TOKENS,
        EPISODES,
    )
}
DOMAINS = Plugins("domain", _BUILTIN, base=Domain, instances=True)

__all__ = ["CHANNELS", "DOMAINS", "Domain", "domain_of"]


def domain_of(batch: Batch) -> Domain:
    """Return the domain of a batch's inputs."""
    return DOMAINS[batch.domain or IMAGES.name]
