"""Declarations of disturbances of episodes, of observations, actions and the world, and of attacks on observations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal

from annotated_types import Ge, Le

from robench.core.declared import DatasetDeclaration
from robench.declarations.base import LARGEST, FieldProblem, PerturbationBase, imported
from robench.domains.episodes import EPISODES

# Strengths at the severities 1 to 5. Of observations they are in deviations of the training set, of actions in the
# largest action; proportions are of values or commands that are lost, delays in steps, others factors, wind in m/s.
STRENGTHS: Final[Mapping[str, tuple[float, ...]]] = {
    "observation-noise": (0.05, 0.1, 0.2, 0.4, 0.8),
    "observation-uniform": (0.05, 0.1, 0.2, 0.4, 0.8),
    "observation-dropout": (0.1, 0.2, 0.4, 0.6, 0.8),
    "observation-delay": (1, 2, 3, 5, 8),
    "observation-quantisation": (0.25, 0.5, 1, 1.5, 2),
    "observation-bias": (0.125, 0.25, 0.5, 1, 2),
    "action-noise": (0.1, 0.2, 0.4, 0.6, 0.8),
    "action-delay": (1, 2, 3, 5, 8),
    "action-loss": (0.1, 0.2, 0.4, 0.6, 0.8),
    "mass": (1.1, 1.25, 1.5, 2, 3),
    "friction": (0.9, 0.75, 0.5, 0.35, 0.2),
    "gravity": (1.1, 1.25, 1.5, 1.75, 2),
    "wind": (1, 2, 4, 7, 10),
}
WORLDS: Final = ("mass", "friction", "gravity", "wind")
ShiftType = Literal[
    "observation-noise",
    "observation-uniform",
    "observation-dropout",
    "observation-delay",
    "observation-quantisation",
    "observation-bias",
    "action-noise",
    "action-delay",
    "action-loss",
    "mass",
    "friction",
    "gravity",
    "wind",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfEpisodes(PerturbationBase):
    domain: ClassVar[str] = EPISODES.name
    makes_inputs: ClassVar[bool] = False
    implementation: ClassVar[str] = "robench.perturbations.episode_shift_impl:unchanged"
    disturbing: ClassVar[str]

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: its inputs do not begin episodes."""
        if dataset.domain == self.domain:
            return []
        return [("", f"must be no {self.kind} on {dataset.name}, whose inputs ({dataset.domain}) begin no episodes")]

    def disturbance(self, seeds: Sequence[int], dataset: DatasetDeclaration) -> Any:
        """Return the ``tasks.base.Disturbance`` of one batch; see ``core.declared``."""
        return imported(self.disturbing)(self, seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeShift(_OfEpisodes):
    """Disturbance of every step of an episode, with draws of its own for each episode and step.

    ``observation-noise`` is Gaussian, ``observation-uniform`` uniform. Of ``observation-dropout`` each value is lost
    with a probability and stays as the policy last saw it. ``observation-delay`` shows an earlier observation,
    ``observation-quantisation`` the nearest multiple of a step, and ``observation-bias`` moves one value, drawn for the
    episode, by a constant. ``action-noise`` is Gaussian; with ``action-loss`` a command is lost and the last one is
    repeated; ``action-delay`` takes the command of some steps ago, at first zero. ``mass``, ``friction``, ``gravity``
    and ``wind`` change the environment.

    Attributes:
        type: disturbed quantity.
        severity: 0 for nothing, or 1 to 5.
    """

    kind: ClassVar[str] = "episode-shift"
    disturbing: ClassVar[str] = "robench.perturbations.episode_shift_impl:Shift"

    type: ShiftType
    severity: Annotated[int, Ge(0), Le(5)]

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: its environment has no such physics."""
        found = _OfEpisodes.problems_on(self, dataset)
        if found or self.type not in WORLDS:
            return found
        environment = str(getattr(dataset, "environment", ""))
        supported = imported("robench.environments.worlds_impl:known_worlds")(environment)
        if supported is None or self.type in supported:
            return []
        which = ", ".join(supported) or "no changes of physics"
        return [("type", f"must be no {self.type} on {dataset.name}, since {environment} supports {which}")]

    @property
    def strength(self) -> float | None:
        """Return the strength at the severity; None for nothing."""
        return None if self.severity == 0 else STRENGTHS[self.type][self.severity - 1]

    @property
    def grade(self) -> tuple[str, str, float] | None:
        """Return type and severity."""
        return self.type, "severity", float(self.severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationAttack(_OfEpisodes):
    """Change of each observation within a ball in l-infinity, in deviations of the training set.

    Sources: Zhang et al. 2020, arXiv:2003.08938 (SA-MDP). ``mad`` is the maximal action difference: ascent on the
    squared distance between the actions with and without the change, from a random start. ``context`` is ascent on the
    distance from the action in the same episode without any change so far, through the whole context. ``random`` is
    uniform noise, as a baseline.

    Attributes:
        epsilon: largest change of a value, in deviations of the training set.
        method: ``mad``, ``context`` or ``random``.
        num_steps: number of gradient steps; ``relative_step``: size of a step, times epsilon.
    """

    kind: ClassVar[str] = "observation-attack"
    disturbing: ClassVar[str] = "robench.perturbations.episode_shift_impl:Attack"
    is_attack: ClassVar[bool] = True
    reads_outputs: ClassVar[bool] = True

    epsilon: Annotated[Fraction, Ge(0), Le(LARGEST)]
    method: Literal["mad", "context", "random"] = "mad"
    num_steps: Annotated[int, Ge(1), Le(LARGEST)] = 10
    relative_step: Annotated[Fraction, Ge(0), Le(1)] = Fraction(1, 4)

    @property
    def grade(self) -> tuple[str, str, float] | None:
        """Return the attack and its budget."""
        steps = "" if self.method == "random" else f", {self.num_steps} steps of {float(self.relative_step):g}"
        return f"{self.method}{steps}", "epsilon (deviations)", float(self.epsilon)
