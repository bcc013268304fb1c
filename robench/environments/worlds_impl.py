"""Changes of physics: of MuJoCo's models, and of Gymnasium's classic control by attributes of its classes."""

import sys
from collections.abc import Mapping
from typing import Any

from robench.core.errors import RobenchError, UsageError
from robench.environments.base import World
from robench.environments.installed import registered

# Air at 20 degrees Celsius, in kg/m^3 and Pa s: the medium of models without one, in which no wind would act.
AIR_DENSITY, AIR_VISCOSITY = 1.2, 1.8e-5
OF_MUJOCO = ("friction", "gravity", "mass", "wind")
_CLASSIC = "gymnasium.envs.classic_control"
# By module and kind the attributes that the factor multiplies. Gravity of Acrobot is a constant of its equations.
_ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    f"{_CLASSIC}.acrobot": {"mass": "LINK_MASS_1 LINK_MASS_2 LINK_MOI"},
    f"{_CLASSIC}.cartpole": {"gravity": "gravity", "mass": "masscart masspole total_mass polemass_length"},
    f"{_CLASSIC}.pendulum": {"gravity": "g", "mass": "m"},
}


def known_worlds(environment: str) -> tuple[str, ...] | None:
    """Return the changes that an environment supports, without making it; None where that says more."""
    try:
        module = str(registered(environment).entry_point).partition(":")[0]
    except RobenchError:
        return None
    if module.startswith("gymnasium.envs.mujoco"):
        return OF_MUJOCO
    return tuple(_ATTRIBUTES.get(module, ())) if module.startswith("gymnasium.envs.") else None


def change(env: Any, world: World, environment: str) -> None:
    """Change the physics of an environment without wrappers, before its reset. Any: as ``gymnasium``.

    Mass multiplies ``body_mass`` and ``body_inertia`` of a MuJoCo model and makes the constants that follow from them
    anew (``mj_setConst``); friction ``geom_friction`` and ``pair_friction``, all coefficients; gravity ``opt.gravity``.
    Wind is ``opt.wind`` along x, in air where the model has no medium, so that there is drag, too. Raises UsageError,
    which lists what the environment supports.
    """
    mujoco: Any = sys.modules.get("mujoco")
    model = getattr(env, "model", None)
    is_mujoco = mujoco is not None and isinstance(model, mujoco.MjModel)
    modules = (each.__module__ for each in type(env).__mro__)
    attributes = next((_ATTRIBUTES[each] for each in modules if each in _ATTRIBUTES), {})
    supported = OF_MUJOCO if is_mujoco else tuple(attributes)
    if world.kind not in supported:
        which = ", ".join(supported) or "no changes of physics"
        raise UsageError(f"environment {environment!r} has no {world.kind} that can be changed; it supports {which}")
    if is_mujoco and not world.changes_nothing:
        _change_model(mujoco, model, world)
    elif not world.changes_nothing:
        for name in attributes[world.kind].split():
            setattr(env, name, getattr(env, name) * world.factor)


def _change_model(mujoco: Any, model: Any, world: World) -> None:
    if world.kind == "mass":
        model.body_mass[:] *= world.factor
        model.body_inertia[:] *= world.factor
        mujoco.mj_setConst(model, mujoco.MjData(model))
    elif world.kind == "friction":
        model.geom_friction[:] *= world.factor
        model.pair_friction[:] *= world.factor
    elif world.kind == "gravity":
        model.opt.gravity[:] *= world.factor
    else:
        model.opt.wind[0] = world.factor
        if model.opt.density == model.opt.viscosity == 0:
            model.opt.density, model.opt.viscosity = AIR_DENSITY, AIR_VISCOSITY
