"""Fast gradient sign method: one step along the gradient's sign.

Source: Goodfellow et al. 2015, arXiv:1412.6572, section 4: x' = x + epsilon * sign(gradient of the loss); in other
norms the step of length epsilon along which the loss rises fastest.
Differences: x' is cut to [0, 1], as foolbox and torchattacks do and the paper does not. Where the gradient is zero the
sign is zero and the pixel stays. The cross-entropy is of the true label (cleverhans takes the predicted one).
"""

from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd_impl import step_along
from robench.attacks.problem import Problem, Reached


def fgsm(declaration: Fgsm, problem: Problem) -> Reached:
    """Return points (B, ...) of the region, one step of length epsilon from the clean inputs."""
    here = problem.at(search=0, step=0)
    seen = here.differentiate(problem.inputs, problem.loss(declaration.loss), declaration.num_draws)
    step = step_along(seen.gradient(), problem, problem.inputs)
    return Reached(problem.region.project(problem.inputs + problem.region.epsilon * step))
