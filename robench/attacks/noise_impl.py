"""Noise within the budget, independent of the victim.

Source: Carlini et al. 2019, arXiv:1902.06705, section 4: what random search finds, every attack must find.
"""

from robench.attacks.noise import GaussianNoise, UniformNoise
from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import spread
from robench.core.seeds import Stream

NOISE = Stream(purpose="noise")


def uniform_noise(declaration: UniformNoise, problem: Problem) -> Reached:
    """Return inputs (B, ...) moved by noise drawn uniformly from [-epsilon, epsilon], clipped to the region."""
    noise = problem.draws.uniform(NOISE, problem.inputs.shape[1:])
    return Reached(problem.region.project(problem.inputs + (2.0 * noise - 1.0) * problem.region.epsilon))


def gaussian_noise(declaration: GaussianNoise, problem: Problem) -> Reached:
    """Return inputs (B, ...) with Gaussian noise: l2, a random direction of length epsilon; linf, that deviation."""
    noise = problem.region.freed(problem.draws.normal(NOISE, problem.inputs.shape[1:]))
    if problem.region.norm == "l2":
        lengths = noise.flatten(1).norm(dim=1).clamp(min=1e-12)
        noise = noise / spread(lengths, noise)
    return Reached(problem.region.project(problem.inputs + noise * problem.region.epsilon))
