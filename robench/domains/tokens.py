"""Declaration of the domain of tokens: sequences of whole numbers of a fixed length, padded on the right by 0."""

from robench.domains.base import Domain

# Sequences (T,) and pairs of them (2, T) are inputs alike, so that no axes are declared.
TOKENS = Domain(
    name="tokens",
    title="Tokens (T,) or pairs of sequences (2, T), int64 from 1, padded on the right by 0",
    implementation="robench.domains.tokens_impl:TokenRules",
    shown_as="sequence",
)
