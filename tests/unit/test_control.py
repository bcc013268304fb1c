"""Policies in closed loop: the Decision Transformer beside a loop, training windows, disturbances, and episodes."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robench.attention.primal import Primal
from robench.attention.softmax import Softmax
from robench.core.errors import BudgetExceededError, ContractError
from robench.datasets import DATASETS, open_dataset
from robench.datasets.trajectories_impl import Trajectory
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare import find_suite
from robench.metrics.control import _lowest_tenth
from robench.models.build import build
from robench.models.decision import DecisionTransformer
from robench.models.loaded import LoadedModel
from robench.perturbations.episode_shift import STRENGTHS, EpisodeShift, ObservationAttack
from robench.scheduling.estimates import passes_of, weighted_passes
from robench.tasks.base import Disturbance, Scales
from robench.tasks.control import CONTROL
from robench.tasks.control_impl import RULES
from robench.training.decisions_impl import Windows, squared_error

SMALL: Any = {
    **{"num_observations": 3, "num_actions": 1, "dim": 8, "num_heads": 2, "feedforward": 16, "depth": 2},
    **{"context": 5, "max_steps": 200, "return_scale": 100.0},
}
NUM = 4


def model_of(attention: Any, **changes: Any) -> Any:
    torch.manual_seed(0)
    made: Any = build(DecisionTransformer(**SMALL, attention=attention, **changes)).double().eval()
    made.observation_mean.copy_(torch.tensor([0.1, -0.2, 0.3]))
    made.observation_std.copy_(torch.tensor([0.5, 0.7, 2.0]))
    made.action_scale.fill_(2.0)
    return made


def windows(num_steps: int, rows: int = 2) -> Tensor:
    found = torch.randn(rows, num_steps, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found[..., 0] = torch.arange(7, 7 + num_steps)
    return found


def action_by_loop(model: Any, window: Tensor, num_padded: int = 0) -> Tensor:
    """Return the action of the last step of a window (K, F), token by token, the first tokens being of padding."""
    tokens = []
    for step, wanted, *rest in window.tolist():
        seen, done = (torch.tensor(part, dtype=torch.float64) for part in (rest[:3], rest[3:]))
        time = model.embed_step.weight[int(step)]
        for part in (
            model.embed_return.weight[:, 0] * wanted / 100 + model.embed_return.bias,
            model.embed_observation.weight @ ((seen - model.observation_mean) / model.observation_std)
            + model.embed_observation.bias,
            model.embed_action.weight @ (done / 2) + model.embed_action.bias,
        ):
            tokens.append(model.embed_norm(part + time))
    for block in model.blocks:
        given = [block.norm1(token) for token in tokens]
        # Primal's means are over padding too; softmax leaves it out, and padding attends to padding.
        starts = [
            3 * num_padded * (place >= 3 * num_padded and not hasattr(block.attn, "we")) for place in range(len(tokens))
        ]
        mixed = [attended(block.attn, given[start : place + 1]) for place, start in enumerate(starts)]
        tokens = [token + each for token, each in zip(tokens, mixed, strict=True)]
        tokens = [token + block.mlp(block.norm2(token)) for token in tokens]
    return (model.head(model.norm(tokens[-2]))).tanh() * 2


def attended(attention: Any, given: list[Tensor]) -> Any:
    """Return the output for the last of some tokens (C,), from it and those before it."""
    heads = []
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        if hasattr(attention, "we"):
            projected = [attention.qk(token) for token in given]
            query = torch.stack([each[:8][part] for each in projected]).mean(0)
            key = torch.stack([each[8:][part] for each in projected]).mean(0)
            scores = torch.cat([query / query.norm() @ attention.we[head], key / key.norm() @ attention.wr[head]])
            heads.append(attention.concate_weight(scores))
            continue
        projected = [attention.qkv(token) for token in given]
        query = projected[-1][:8][part]
        weights = [math.exp(float(query @ each[8:16][part]) / 2) for each in projected]
        values = [weight * each[16:][part] for weight, each in zip(weights, projected, strict=True)]
        heads.append(torch.stack(values).sum(0) / sum(weights))
    return attention.proj(torch.cat(heads))


@pytest.mark.parametrize(
    "attention",
    [
        Softmax(),
        Primal(num_directions=3, data_dependent=False),
        Primal(num_directions=3, data_dependent=False, layers=(1,)),
    ],
    ids=["softmax", "primal", "last"],
)
@pytest.mark.parametrize("num_steps", [1, 5])
def test_the_decision_transformer_is_its_reference_token_by_token(attention: Any, num_steps: int) -> None:
    model, given = model_of(attention), windows(num_steps)
    with torch.no_grad():
        found = model(given)
        assert torch.stack([action_by_loop(model, each) for each in given]) == pytest.approx(found.numpy(), abs=1e-10)
        changed = given.clone()
        changed[:, -1, -1] += 5
        assert torch.equal(model(changed), found), "an action depends on itself"


@pytest.mark.parametrize("attention", [Softmax(), Primal(num_directions=3, data_dependent=False, layers=(1,))])
def test_released_padding_is_read_by_primal_attention_alone(attention: Any) -> None:
    model, given = model_of(attention, padding="released"), windows(2, rows=3)
    padding = torch.tensor([0, 0, *model.observation_mean.tolist(), 0], dtype=torch.float64).expand(3, 6)
    with torch.no_grad():
        found = model(given)
        wanted = [action_by_loop(model, torch.cat([padding, each]), num_padded=3) for each in given]
        assert torch.stack(wanted) == pytest.approx(found.numpy(), abs=1e-10)
        without = model_of(attention)(given)
        # Padding of another length in a batch, as in trainings, changes no other row.
        longer = windows(5, rows=2)
        longer[1, :3] = padding
        longer[1, :3, 0] = -1
        assert model(longer)[0] == pytest.approx(model(longer[:1])[0].numpy(), abs=1e-12)
        assert model(longer)[1] == pytest.approx(model(longer[1:, 3:])[0].numpy(), abs=1e-12)
    assert torch.allclose(found, without) == isinstance(attention, Softmax)


def test_windows_of_training_are_those_of_episodes_and_padding_is_not_learned() -> None:
    episodes = [
        Trajectory(np.full((n, 2), n, np.float32), np.full((n, 1), -n, np.float32), np.arange(1.0, n + 1), ends=True)
        for n in (3, 2)
    ]
    found = Windows(episodes, 2)
    inputs, targets = found.of(np.array([1, 2, 3]))
    assert found.num_steps == 5
    # Step, return to go, two observations and an action of each step.
    assert inputs[0].tolist() == [[1, 5, 3, 3, -3], [2, 3, 3, 3, -3]]
    assert inputs[1].tolist() == [[2, 3, 3, 3, -3], [0, 0, 0, 0, 0]]
    assert inputs[2].tolist() == [[0, 3, 2, 2, -2], [1, 2, 2, 2, -2]]
    assert targets[1].tolist() == [[-3, 1], [0, 0]]
    left, of_left = Windows(episodes, 2, is_padded_left=True).of(np.array([1, 2]))
    assert left.tolist() == [inputs[0].tolist(), [[-1, 0, 0, 0, -10], [2, 3, 3, 3, -3]]]
    assert of_left[1, :, 1].tolist() == [0, 1]
    actions = torch.zeros(3, 2, 1)
    assert float(squared_error(actions, targets)) == pytest.approx((9 + 9 + 9 + 4 + 4) / 5)
    actions[1, 1] = 100
    assert float(squared_error(actions, targets)) == pytest.approx(7)


class Controller(nn.Module):
    """Stand-in policy: it pushes with the speed far from the top, and against it near the top."""

    context = 1

    def forward(self, window: Tensor) -> Tensor:
        cosine, sine, speed = window[:, -1, 2], window[:, -1, 3], window[:, -1, 4]
        angle = torch.atan2(sine, cosine)
        near = (-10 * angle - 2 * speed).clamp(-2, 2)
        return torch.where(cosine > 0.9, near, 2 * speed.sign())[:, None]


# Of the shipped set with 200 steps.
PENDULUM: Any = replace(DATASETS["pendulum"], max_steps=40)


def played(disturbance: Disturbance | None = None, module: nn.Module | None = None, rows: int = NUM) -> dict[str, Any]:
    batch = open_dataset(PENDULUM, data_root=None, preprocessing=NoPreprocessing(inputs="episodes")).batch(0, rows)
    model = LoadedModel(module or Controller(), NoPreprocessing(inputs="episodes"), task=CONTROL)
    columns = RULES.play(model, batch.inputs, batch.targets, range(rows), PENDULUM, disturbance, "mine")
    return {name: each.array for name, each in columns.items()}


def test_an_episode_is_the_plain_loop_over_gymnasium_and_rows_are_alone() -> None:
    import gymnasium

    dataset = open_dataset(PENDULUM, data_root=None, preprocessing=NoPreprocessing(inputs="episodes"))
    found = played()
    for row in range(NUM):
        environment = gymnasium.make("Pendulum-v1", max_episode_steps=40)
        observation, _ = environment.reset(seed=int(dataset[row][1]))
        total, num_steps, has_ended = 0.0, 0, False
        while not has_ended:
            window = torch.zeros(1, 1, 6)
            window[0, 0, 2:5] = torch.from_numpy(observation)
            observation, reward, is_over, is_cut, _ = environment.step(Controller()(window)[0].numpy())
            total, num_steps, has_ended = total + float(reward), num_steps + 1, is_over or is_cut
        assert (found["total_return"][row], found["num_steps"][row]) == (total, num_steps)
    assert (played(rows=2)["total_return"] == found["total_return"][:2]).all()
    assert not found["ended_early"].any()
    assert (found["num_steps"] == 40).all()


@pytest.mark.parametrize("kind", sorted(set(STRENGTHS) - {"friction", "wind"}))
def test_severity_zero_changes_nothing_and_five_much(kind: Any) -> None:
    clean = played()["total_return"]
    nothing, much = (EpisodeShift(type=kind, severity=each) for each in (0, 5))
    assert (played(nothing.disturbance(range(NUM), PENDULUM))["total_return"] == clean).all()
    assert (played(much.disturbance(range(NUM), PENDULUM))["total_return"] != clean).all()
    alone = played(much.disturbance(range(2), PENDULUM), rows=2)["total_return"]
    assert (alone == played(much.disturbance(range(NUM), PENDULUM))["total_return"][:2]).all()


def shown_by(kind: Any, severity: int, observations: Tensor) -> Tensor:
    """What a policy sees (T, B, 3) of observations (T, B, 3) whose deviations are 1, 2 and 4."""
    shift: Any = EpisodeShift(type=kind, severity=severity).disturbance(range(observations.shape[1]), PENDULUM)
    scales = Scales(np.array([1.0, 2.0, 4.0]), np.ones(1))
    windows = torch.nn.functional.pad(observations, (2, 1))[:, :, None]
    return torch.stack(
        [shift.observed(step, window.clone(), None, scales)[:, -1, 2:5] for step, window in enumerate(windows)]
    )


def test_policies_see_what_the_table_of_disturbances_says() -> None:
    given, unit = torch.randn(40, 50, 3, generator=torch.Generator().manual_seed(2)), torch.tensor([1.0, 2.0, 4.0])
    assert torch.equal(shown_by("observation-delay", 3, given)[3:], given[:-3])
    assert torch.equal(shown_by("observation-delay", 3, given)[:3], given[:1].expand(3, -1, -1))
    noise = (shown_by("observation-noise", 2, given) - given) / unit
    assert noise.std(dim=(0, 1)).numpy() == pytest.approx([0.1, 0.1, 0.1], rel=0.1)
    uniform = (shown_by("observation-uniform", 5, given) - given) / unit
    assert 0.75 < uniform.abs().max() <= 0.8 + 1e-5
    steps = shown_by("observation-quantisation", 3, given) / unit
    assert torch.equal(steps, steps.round())
    assert ((steps * unit - given).abs() <= unit / 2 + 1e-5).all()
    moved = (shown_by("observation-bias", 4, given) - given) / unit
    assert moved.sum(2).numpy() == pytest.approx(np.ones((40, 50)), abs=1e-5)
    assert (moved - moved[:1]).abs().max() < 1e-5
    assert (moved[0].sum(0) > 8).all()
    seen = shown_by("observation-dropout", 3, given)
    kept = seen == given
    assert float(kept.float().mean()) == pytest.approx(0.6, abs=0.03)
    assert torch.equal(seen[1:][~kept[1:]], seen[:-1][~kept[1:]])


def test_actions_reach_the_environment_as_the_table_of_disturbances_says() -> None:
    actions, scales = np.random.default_rng(0).normal(size=(40, 50, 2)), Scales(np.ones(3), np.array([1.0, 3.0]))

    def acted(kind: Any, severity: int) -> Any:
        shift: Any = EpisodeShift(type=kind, severity=severity).disturbance(range(50), PENDULUM)
        return np.stack([shift.acted(step, each.copy(), scales) for step, each in enumerate(actions)])

    assert np.array_equal(acted("action-delay", 2)[2:], actions[:-2])
    assert not acted("action-delay", 2)[:2].any()
    assert ((acted("action-noise", 3) - actions) / scales.actions).std((0, 1)) == pytest.approx([0.4, 0.4], rel=0.1)
    found = acted("action-loss", 3)
    is_kept = (found == actions).all(2)
    assert is_kept.mean() == pytest.approx(0.6, abs=0.05)
    assert np.array_equal(found[1:][~is_kept[1:]], found[:-1][~is_kept[1:]])


def test_the_action_difference_of_an_attack_is_not_below_that_of_noise() -> None:
    module = model_of(Softmax()).float()
    window = windows(5, rows=20).float()
    scales = Scales(np.array([0.5, 0.7, 2.0]), np.ones(1))

    def distance(method: Any) -> Tensor:
        attack = ObservationAttack(epsilon=Fraction(1, 2), method=method, num_steps=5)
        found = attack.disturbance(range(20), PENDULUM).observed(3, window.clone(), module, scales)
        moved = (found - window)[:, -1, 2:5].abs() / torch.from_numpy(scales.observations)
        assert float(moved.max()) <= 0.5 * (1 + 1e-5)
        assert float(moved.mean()) > 0.05
        with torch.no_grad():
            changes: Tensor = (module(found) - module(window)).abs()[:, 0]
            return changes

    attacked, noisy = distance("mad"), distance("random")
    assert bool((attacked >= noisy - 1e-6).all())
    assert float(attacked.mean()) > 1.5 * float(noisy.mean())
    assert torch.equal(distance("context"), attacked), "at the first change both references are the same"


class Beyond:
    """Disturbance that breaks its rules."""

    world = None
    epsilon: float | None = 0.1

    def __init__(self, change: Callable[[Tensor], None]) -> None:
        self._change = change

    def observed(self, step: int, window: Tensor, act: Any, scales: Scales) -> Tensor:
        self._change(window)
        return window

    def acted(self, step: int, actions: Any, scales: Scales) -> Any:
        return actions


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda window: window[:, -1, 2].add_(0.2),
            BudgetExceededError,
            "moved by 0.2 deviations, more than epsilon 0.1",
        ),
        (lambda window: window[:, -1, 1].add_(1), ContractError, "more than the present observation"),
        (lambda window: window[:, -1, 2].fill_(math.nan), ContractError, "NaN or infinity"),
    ],
)
def test_the_harness_refuses_disturbances_beyond_their_bounds(change: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        played(Beyond(change))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda window: torch.full((len(window), 1), math.nan), "actions of 4 of 4 episodes by model 'mine' are NaN"),
        (lambda window: torch.zeros(len(window)), r"returned \(4,\) for 4 windows, wanted actions \(4, A\)"),
        (lambda window: torch.zeros(len(window), 3), "3"),
    ],
)
def test_a_policy_that_does_not_act_is_refused(module: Callable[[Tensor], Tensor], message: str) -> None:
    class Policy(nn.Module):
        def forward(self, window: Tensor) -> Tensor:
            return module(window)

    with pytest.raises(ContractError, match=message):
        played(module=Policy())


def test_physics_that_an_environment_lacks_is_refused_before_anything_is_measured() -> None:
    wind = EpisodeShift(type="wind", severity=1)
    assert wind.problems_on(PENDULUM) == [
        ("type", "must be no wind on pendulum, since Pendulum-v1 supports gravity, mass")
    ]
    assert EpisodeShift(type="mass", severity=1).problems_on(PENDULUM) == []
    assert wind.problems_on(DATASETS["hopper-3600"]) == []
    assert wind.problems_on(replace(PENDULUM, environment="Nowhere-v0")) == []


def test_passes_of_an_episode_are_not_known_beforehand() -> None:
    """Its steps are: one pass an example would be an estimate that is wrong by hundreds of times."""
    (condition,) = find_suite("pendulum").conditions
    assert not passes_of(condition)[-1]
    assert weighted_passes(condition) is None


def test_the_worst_tenth_is_rounded_up() -> None:
    assert _lowest_tenth([np.arange(11.0)[None]]).tolist() == [0.5]
    assert _lowest_tenth([np.array([[5.0, 3.0, 4.0]])]).tolist() == [3.0]
