"""Analyses of softmax by the number of tokens: its Lipschitz constant, and how far noise on the logits moves it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.analyses.base import AnalysisBase, Statistic, Subject
from robench.analyses.places import log_spaced
from robench.declarations.base import LARGEST, SEEDS, FieldProblem

# More would take minutes.
_MOST_DRAWS = 1_000_000_000
_TOKENS = "number of tokens"
_LIPSCHITZ = "Lipschitz constant of softmax"
_curve = partial(Statistic, axes=("x",), x=_TOKENS, is_of_examples=False)
_number = partial(Statistic, axes=(), is_of_examples=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTokens(AnalysisBase):
    """Common fields of the analyses of softmax by the number of tokens.

    Attributes:
        min_tokens, max_tokens: the fewest and the most tokens.
        num_sizes: numbers of tokens, evenly spaced on a logarithmic axis.
        num_samples: vectors of random logits for each number of tokens.
        scale: standard deviation of their normal distribution.
        seed: seed of the draws.
    """

    subject: ClassVar[Subject] = "formula"

    min_tokens: Annotated[int, Ge(2), Le(LARGEST)] = 100
    max_tokens: Annotated[int, Ge(4), Le(LARGEST)] = 10_000
    num_sizes: Annotated[int, Ge(3), Le(100)] = 13
    num_samples: Annotated[int, Ge(2), Le(LARGEST)] = 1000
    scale: Annotated[float, Ge(0), Le(10)] = 1.0
    seed: Annotated[int, Ge(0), Lt(SEEDS)] = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of tokens, from the fewest."""
        return log_spaced(self.min_tokens, self.max_tokens, self.num_sizes)

    def contradictions(self) -> list[FieldProblem]:
        """Refuse numbers of tokens that are too close for a fit, and more draws than end in minutes."""
        if self.max_tokens < 2 * self.min_tokens:
            least = f"at least {2 * self.min_tokens}, twice min_tokens"
            return [("max_tokens", f"must be {least}, got {self.max_tokens}")]
        most = _MOST_DRAWS // sum(self.sizes)
        if self.num_samples > most:
            tokens = f"{len(self.sizes)} numbers of up to {self.max_tokens} tokens"
            return [("num_samples", f"must be at most {most} for {tokens}, got {self.num_samples}")]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxLipschitz(OverTokens):
    """Smallest Lipschitz constant of softmax, with the fit a / sqrt(N) + b. Bilateral, remark 3.5 and figure 2.

    The paper does not state the set S of logits. Here S are the logits whose largest and smallest differ by at most
    ``logit_range``; ``local`` is the constant near random logits.

    Attributes:
        logit_range: largest difference of two logits of one vector.
    """

    kind: ClassVar[str] = "softmax-lipschitz"
    implementation: ClassVar[str] = "robench.analyses.softmax_bounds_impl:softmax_lipschitz"
    title: ClassVar[str] = "how far softmax moves at most for a change of its logits"
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "lipschitz": _curve(meaning=_LIPSCHITZ),
        "fit": _curve(meaning="a / sqrt(N) + b", beside="lipschitz"),
        "a": _number(meaning="a of the fit"),
        "b": _number(meaning="b of the fit"),
        "exponent": _number(meaning="exponent of N"),
        "local": Statistic(meaning=f"{_LIPSCHITZ} near random logits", axes=("x",), x=_TOKENS),
        "local_fit": _curve(meaning="a / sqrt(N) + b, near random logits", beside="local"),
        "local_a": _number(meaning="a of the fit near random logits"),
        "local_b": _number(meaning="b of the fit near random logits"),
        "local_exponent": _number(meaning="exponent of N, near random logits"),
    }

    num_samples: Annotated[int, Ge(2), Le(LARGEST)] = 200
    logit_range: Annotated[float, Gt(0), Le(100)] = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxNoise(OverTokens):
    """Change |softmax(c + eta) - softmax(c)| by normal noise eta on the logits c. Bilateral, figure 2.

    The paper does not state the distribution of c. Here each sample has logits and noise of its own, both normal.

    Attributes:
        noise: standard deviation of the noise.
    """

    kind: ClassVar[str] = "softmax-noise"
    implementation: ClassVar[str] = "robench.analyses.softmax_bounds_impl:softmax_noise"
    title: ClassVar[str] = "how far noise on the logits moves softmax"
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "change": Statistic(meaning="change of softmax by noise", axes=("x",), x=_TOKENS),
        "asymptote": _curve(meaning="change of softmax by noise, for many tokens", beside="change"),
    }

    noise: Annotated[float, Gt(0), Le(10)] = 1.0
