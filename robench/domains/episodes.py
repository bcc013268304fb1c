"""Declaration of the domain of episodes: what a policy reads before it acts.

An input (K, F) is the last K time steps of an episode, the present one last. Its features are the number of the step
from 0, the return that is still wanted, the observation, and the action, which is zero in the present step. The input
of an example is its first window, of one step. Steps with a number below 0 are padding, which trainings alone give.
"""

from robench.domains.base import Domain

# Features before the observation: the time step and the return to go.
NUM_BEFORE = 2

EPISODES = Domain(
    name="episodes",
    title="Time steps of an episode (K, F), float32: number, return to go, observation and action of each",
    implementation="robench.domains.episodes_impl:EpisodeRules",
    axes=("steps", "features"),
)
