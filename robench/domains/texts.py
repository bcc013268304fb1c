"""Declaration of the domain of texts: strings, as their Unicode code points."""

from robench.domains.base import Domain

TEXTS = Domain(
    name="texts",
    title="Texts, code points (T,) int32",
    implementation="robench.domains.texts_impl:TextRules",
    axes=("characters",),
    shown_as="text",
)
