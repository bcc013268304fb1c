"""Gymnasium and MuJoCo: whether they are installed, registered environments, and messages that nobody shall see."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from robench.core.errors import ContractError, RobenchError, UsageError, described, did_you_mean
from robench.core.providers import install_command


def gymnasium() -> Any:
    """Return the module ``gymnasium``. Any: robench is checked without it. Raises UsageError: it is not installed."""
    try:
        with quiet():
            return import_module("gymnasium")
    except ModuleNotFoundError as error:
        raise _missing("environments need", "gymnasium") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Drop warnings of Python, and of MuJoCo, which prints them and writes MUJOCO_LOG.TXT into the working folder."""
    mujoco: Any = sys.modules.get("mujoco")
    handler = mujoco.get_mju_user_warning() if mujoco else None
    set_handler = mujoco.set_mju_user_warning if mujoco else lambda _handler: None
    # Recorded, since filters that a library adds on import would come before this one.
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")
        set_handler(lambda _message: None)
        try:
            yield
        finally:
            set_handler(handler)


def registered(environment: str) -> Any:
    """Return Gymnasium's specification of an environment. Raises UsageError: it, a library or a display is missing."""
    gym = gymnasium()
    module, _, name = environment.rpartition(":")
    try:
        with quiet():
            if module:
                import_module(module)
            spec = gym.registry.get(name)
            if spec is not None and not callable(spec.entry_point):
                import_module(spec.entry_point.partition(":")[0])
    except Exception as error:  # of a third-party module that registers or implements environments
        raise failure(environment, error) from error
    if spec is None:
        raise UsageError(f"unknown environment {environment!r}.{did_you_mean(name, gym.registry)}")
    if spec.kwargs.get("render_mode") == "human":
        raise UsageError(f"environment {environment!r} needs a display for render_mode 'human'; register it without")
    return spec


def needs_mujoco(environment: str) -> bool:
    """Return whether a module of an environment's class, or of one it inherits from, imports MuJoCo."""
    creator = registered(environment).entry_point
    if not callable(creator):
        creator = gymnasium().envs.registration.load_env_creator(creator)
    names = {each.__module__ for each in getattr(creator, "__mro__", (creator,))}
    mujoco = sys.modules.get("mujoco")
    globals_ = [each for name in names & sys.modules.keys() for each in vars(sys.modules[name]).values()]
    return mujoco is not None and any(each is mujoco for each in globals_)


def failure(environment: str, error: Exception) -> RobenchError:
    """Return the error of an environment that cannot be made."""
    name = f"environment {environment!r}"
    if not isinstance(error, ImportError | gymnasium().error.DependencyNotInstalled):
        return ContractError(f"{name} cannot be made: {described(error)}; it must need neither arguments nor a display")
    if "mujoco" in str(error).lower() and find_spec("mujoco") is None:
        return _missing(f"{name} needs", "mujoco")
    return UsageError(f"{name} needs a package that is not installed: {described(error)}")


def _missing(need: str, package: str) -> UsageError:
    extra = f"robench[control], which is not installed: {install_command('control')}"
    return UsageError(f"{need} the package {package} of {extra}")
