"""Declaration of the domain of texts: strings, as their Unicode code points."""

from __future__ import annotations

from robench.domains.base import Domain

TEXT = Domain(
    name="text",
    title="Texts, code points (T,) int32",
    implementation="robench.domains.text_impl:RULES",
)
