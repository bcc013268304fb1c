"""Contract of domains: ``check_domain(MY_DOMAIN, examples)``."""

from typing import Any

import torch
from torch import Tensor

from robench.core.columns import fields_of
from robench.core.errors import ContractError
from robench.core.outcomes import Outcome
from robench.domains.base import Domain
from robench.perturbations.clean import Clean
from robench.testing.expectations import refusal, require, run_checks, subject_of

__all__ = ["DOMAIN_CHECKS", "check_domain"]

# Any: rules ask for the model only if an attack has a budget after normalisation.
NO_MODEL: Any = None


def check_domain(declared: Domain, examples: Tensor) -> None:
    """Check that a domain fulfils all contracts of robench's own domains.

    Args:
        declared: the domain.
        examples: a batch (B, ...) of at least three valid inputs; the second and third differ.
    """
    run_checks(subject_of("domain", declared, Domain, "name"), DOMAIN_CHECKS, declared, examples)


def a_batch_of_examples_is_the_examples(declared: Domain, examples: Tensor) -> None:
    """Check that collating examples gives the batch, of the type that the rules state."""
    rules = declared.rules
    require(torch.equal(rules.collate(list(examples)), examples), "changes examples in a batch", "the same")
    require(examples.dtype == rules.dtype, f"has dtype {rules.dtype}", f"{examples.dtype}, as the examples")


def accepts_valid_inputs_and_refuses_others_by_name(declared: Domain, examples: Tensor) -> None:
    """Check that valid inputs are accepted, and values that are not finite refused with the name of the dataset."""
    rules = declared.rules
    rules.check_clean(examples, "d")
    broken = torch.full(examples.shape, torch.nan)
    found = refusal(lambda: rules.check_clean(broken, "d"), ContractError)
    require(found is None, f"{found} for inputs of NaN", "a ContractError")
    try:
        rules.check_clean(broken, "d")
    except ContractError as error:
        require("'d'" in str(error), f"refuses inputs by {str(error)!r}", "the name of the dataset")


def an_excerpt_is_an_example(declared: Domain, examples: Tensor) -> None:
    """Check that excerpts of examples are valid inputs."""
    rules = declared.rules
    rules.check_clean(rules.collate([rules.excerpt(each) for each in examples]), "d")


def unchanged_inputs_have_not_moved(declared: Domain, examples: Tensor) -> None:
    """Check that distances are columns of outcomes, one value per example, and 0 for unchanged inputs."""
    distances = declared.rules.check_perturbed(examples.clone(), examples, Clean(), NO_MODEL)
    unknown = distances.keys() - fields_of(Outcome).keys()
    require(not unknown, f"measures {sorted(unknown)}", f"some of {sorted(fields_of(Outcome))}")
    for name, values in distances.items():
        require(values.shape == (len(examples),), f"has {name} of shape {tuple(values.shape)}", "(B,)")
        require(not bool(values.any()), f"has {name} other than 0 for unchanged inputs", "0")


def distances_are_of_each_example_alone(declared: Domain, examples: Tensor) -> None:
    """Check that a changed example changes no other example's distances."""
    changed = examples.clone()
    changed[2] = examples[1]
    wanted = [row == 2 for row in range(len(examples))]
    for name, values in declared.rules.check_perturbed(changed, examples, Clean(), NO_MODEL).items():
        found = (values > 0).tolist()
        require(found == wanted, f"has {name} above 0 at {found}", f"{wanted}")


def audits_reach_every_input(declared: Domain, examples: Tensor) -> None:
    """Check that the budgets of audits are valid, and that the largest moves every value of the examples anywhere."""
    if declared.audit_epsilon is None:
        return
    rules = declared.rules
    half, valid = rules.half_range(examples), rules.valid(examples)
    values = (examples if valid is None else examples[valid]).double()
    span = float(values.max() - values.min())
    require(span <= 2 * half, f"has half range {float(half):g} for values of range {span:g}", "at least half of it")
    for epsilon in (declared.audit_epsilon, 2 * half):
        problem = declared.budget_problem("linf", epsilon)
        require(not problem, f"audits at a budget that {problem}", "a budget of the domain")


DOMAIN_CHECKS = (
    a_batch_of_examples_is_the_examples,
    accepts_valid_inputs_and_refuses_others_by_name,
    an_excerpt_is_an_example,
    unchanged_inputs_have_not_moved,
    distances_are_of_each_example_alone,
    audits_reach_every_input,
)
