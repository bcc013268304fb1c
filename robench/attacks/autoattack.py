"""Declaration of AutoAttack: a sequence of attacks, each run on the examples that survive the previous ones."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from robench.attacks.apgd import Apgd
from robench.attacks.base import CLASSES_NEEDED, Attack, BoundedAttack, Norm, Stop, fields_but
from robench.attacks.fab import Fab
from robench.attacks.square import Square
from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError
from robench.core.identity import Plain, to_plain
from robench.declarations.base import DeclarationBase, FieldProblem

MOST_TARGETS, MOST_L1_TARGETS = 9, 5
SHARED_FIELDS = ("norm", "space", "clip", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoAttack(BoundedAttack):
    """Ensemble of attacks with early stopping. Croce & Hein 2020, arXiv:2003.01690, section 5.

    Attributes:
        variant: members of the ensemble: ``standard``, ``plus`` or ``rand`` (20 draws per gradient, for victims that
            draw random numbers), as published in the paper's code; ``standard-rescaled``, in which Square's steps are
            rescaled to its 5,000 queries and no trial is idle (stronger, but not the published protocol); or
            ``few-classes``, standard without the ratio of logits, which needs four classes: the second APGD takes the
            margin to each other class; or ``custom``, given by ``members``.
        members: declarations of the attacks of a custom ensemble in running order, cheap ones first, all with this
            norm, budget, space, clipping and labels. Minimum-norm attacks count within this budget.
        returns: the first point that fools the victim, or else the point of smallest margin (``best``); or the point
            that the paper's code returns (``published``): that of the member that fools the victim, for APGD the last
            fooling point of its search; the clean input if no member succeeds or if it is already misclassified. Top-5,
            loss and confidence are recorded only with ``published``, for that point; they are not a worst case.
    """

    kind: ClassVar[str] = "autoattack"
    implementation: ClassVar[str] = "robench.attacks.autoattack_impl:autoattack"
    # A new version of a member is a new version of the ensembles that contain it.
    # One more: the trials of Square became those of AutoAttack's code.
    version: ClassVar[int] = Apgd.version + Fab.version + Square.version - 1
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2", "l1")

    variant: Literal["standard", "plus", "rand", "standard-rescaled", "few-classes", "custom"]
    members: tuple[DeclarationBase, ...] = ()
    returns: Literal["best", "published"] = "best"

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the ensemble cannot be applied to a dataset, including the reasons of its members."""
        if problems := BoundedAttack.problems_on(self, dataset):
            return problems
        attacks = self._attacks((dataset.num_classes or 1 + MOST_TARGETS) - 1)
        return self._of_members([attack.problems_on(dataset) for attack in attacks])

    def problems_with_classes(self, num_classes: int, where: str) -> list[FieldProblem]:
        """Return why the ensemble needs more classes: a member does."""
        problems = BoundedAttack.problems_with_classes(self, num_classes, where)
        attacks = self._attacks(max(num_classes - 1, 1))
        if problems or self.variant == "custom":
            return problems or self._of_members([each.problems_with_classes(num_classes, where) for each in attacks])
        return [
            (
                "variant",
                f"must be few-classes or custom {where}: its {attack.kind} with loss {attack.loss} needs at least "
                f"{CLASSES_NEEDED[attack.loss]}, got {self.variant}",
            )
            for attack in attacks
            if num_classes < CLASSES_NEEDED.get(attack.loss, 0)
        ][:1]

    def _of_members(self, of_members: Sequence[Sequence[FieldProblem]]) -> list[FieldProblem]:
        for number, (field, message) in ((number, each) for number, found in enumerate(of_members) for each in found):
            if self.variant == "custom":
                return [(f"members.{number}{f'.{field}' if field else ''}", message)]
            return [("variant", f"{f'{field} ' if field else ''}{message}; take variant custom, with other members")]
        return []

    @property
    def per_budget(self) -> Plain:
        """Return kind, version and fields without the budget, also of the members."""
        members = [each.per_budget if isinstance(each, BoundedAttack) else to_plain(each) for each in self.members]
        return fields_but(self, "epsilon", "members") | {"members": members}

    @property
    def stop(self) -> Stop:
        """Return ``at_success``: each attack runs on the examples that survive the previous ones."""
        return "at_success"

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """Sum the passes of all its attacks, for a model of ten classes or more."""
        passes = [each for attack in self._attacks(MOST_TARGETS) if (each := attack.most_passes) is not None]
        if len(passes) < len(self._attacks(MOST_TARGETS)):
            return None
        return sum(forward for forward, _ in passes), sum(backward for _, backward in passes)

    def attacks(self, num_classes: int) -> tuple[Attack, ...]:
        """Return the attacks in running order, with at most as many targets as there are other classes.

        Raises:
            DeclarationError: a loss needs more classes than the model has.
        """
        for field, message in self.problems_with_classes(num_classes, f"with a model of {num_classes} classes"):
            raise DeclarationError(f"{field or self.kind} of {self.kind} {message}")
        return self._attacks(max(num_classes - 1, 1))

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: members are for custom ensembles and share the threat model."""
        problems = BoundedAttack.contradictions(self)
        if self.labels == "predicted":
            problems.append(("labels", "must be true for autoattack, which uses early stopping, got predicted"))
        if self.variant == "custom":
            return problems + (_problems_of(self.members, self) if self.members else [NO_MEMBERS])
        if self.members:
            problems.append(("members", f"must be empty with variant {self.variant}, which has its own, got some"))
        return problems

    def _attacks(self, num_others: int) -> tuple[Attack, ...]:
        targeted_fab = self._fab(num_targets=min(MOST_TARGETS, num_others))
        match self.variant:
            case "custom":
                return tuple(member for member in self.members if isinstance(member, Attack))
            case "rand":
                return self._apgd(num_draws=20), self._apgd(loss="dlr", num_draws=20)
            case "plus":
                restarted = (
                    self._apgd(num_restarts=5),
                    self._apgd(loss="dlr", num_restarts=5),
                    self._fab(num_restarts=5),
                )
                return *restarted, self._square(), self._targeted(min(MOST_TARGETS, num_others)), targeted_fab
            case "standard" | "standard-rescaled" | "few-classes":
                schedule: Literal["rescaled", "fixed"] = "rescaled" if self.variant == "standard-rescaled" else "fixed"
                loss = "margin-targeted" if self.variant == "few-classes" else "dlr-targeted"
                return *self._standard_apgd(num_others, loss), targeted_fab, self._square(schedule=schedule)

    # Any: fields of the constructed declarations.
    def _apgd(self, **fields: Any) -> Apgd:
        stop: Stop = "never" if self.returns == "published" else "at_success"
        returns = self.returns
        return Apgd(**self._shared, epsilon=self.epsilon, stop=stop, returns=returns, num_steps=100, **fields)

    def _targeted(self, num_targets: int, loss: str = "dlr-targeted", **fields: Any) -> Apgd:
        return self._apgd(loss=loss, num_restarts=num_targets, **fields)

    def _standard_apgd(self, num_others: int, loss: str) -> tuple[Apgd, Apgd]:
        """Return the two APGD attacks of standard, which in l1 have other parameters (Croce & Hein 2021)."""
        if self.norm != "l1":
            return self._apgd(), self._targeted(min(MOST_TARGETS, num_others), loss)
        shrinking = {"radii": "shrinking"}
        return self._apgd(num_restarts=5, **shrinking), self._targeted(
            min(MOST_L1_TARGETS, num_others), loss, **shrinking
        )

    def _fab(self, **fields: Any) -> Fab:
        return Fab(**self._shared, epsilon=self.epsilon, stop="at_success", num_steps=100, num_final_steps=0, **fields)

    def _square(self, schedule: Literal["rescaled", "fixed"] = "fixed") -> Square:
        fields = {**self._shared, "epsilon": self.epsilon, "returns": self.returns, "schedule": schedule}
        trials: Literal["changing", "as_drawn"] = "as_drawn" if schedule == "fixed" else "changing"
        return Square(**fields, trials=trials, stop="at_success", num_queries=5000, p_init=0.8)

    @property
    def _shared(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SHARED_FIELDS}


NO_MEMBERS = ("members", "must be at least one attack with variant custom, got none")


def _problems_of(members: Sequence[DeclarationBase], ensemble: AutoAttack) -> list[FieldProblem]:
    problems = []
    for number, member in enumerate(members):
        if not isinstance(member, Attack):
            problems.append(("members", f"must be attacks, got {member.kind} in members[{number}]"))
            continue
        given = {field.name for field in fields(member)}
        if member.pixels != "real":
            wanted = "must have pixels real, whose points the ensemble rounds"
            problems.append(("members", f"{wanted}, got {member.pixels} in members[{number}]"))
        for name in ("epsilon", "backend", *SHARED_FIELDS):
            wanted, found = getattr(ensemble, name), getattr(member, name) if name in given else None
            if found not in (None, wanted):
                problems.append(
                    ("members", f"must have {name} {wanted}, as the ensemble, got {found} in members[{number}]")
                )
    return problems
