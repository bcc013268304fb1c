"""Reader of sets of trajectories in three layouts: D4RL's HDF5, Minari's HDF5, and npz.

D4RL's files have flat arrays ``observations`` (N, D), ``actions`` (N, A), ``rewards`` (N,), ``terminals`` (N,) and
``timeouts`` (N,). An episode ends at either; without timeouts (version 0) it is cut at 1,000 steps. The unfinished last
one is kept as cut; gym/data/download_d4rl_datasets.py of the Decision Transformer drops it. Minari's
``main_data.hdf5`` has a group ``episode_I`` for each, with T + 1 observations, ``terminations`` and ``truncations``. An
npz file has D4RL's arrays, or ``starts``, the first row of each episode, in place of the timeouts.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError, RobenchError, UsageError, described
from robench.core.files import open_regular, other_content
from robench.core.providers import install_command
from robench.datasets.prepared import check_present, folder_of
from robench.datasets.trajectories import Form, OfflineSet

Source = Mapping[str, Any]
Arrays = Mapping[str, NDArray[Any]]

_LONGEST_EPISODE: Final = 1000
_STEPS: Final = ("observations", "actions", "rewards")
_EPISODE = re.compile(r"episode_(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """Episode of T steps.

    Attributes:
        observations: (T, D), before each action; ``actions``: (T, A); ``rewards``: (T,), after each action.
        ends: whether the environment ended it; otherwise it was cut.
    """

    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    rewards: NDArray[np.float64]
    ends: bool


def read_trajectories(path: Path) -> list[Trajectory]:
    """Read a file of trajectories, whose layout is recognised by its content.

    Raises:
        MissingDataError: the file is absent, damaged, or of another layout; the message names array and row.
        UsageError: it needs h5py, which is not installed.
    """
    return _read(path)[1]


def open_trajectories(declared: OfflineSet, *, data_root: Path | None) -> list[Trajectory]:
    """Read a declared set from its folder below the data root, and compare it with its declaration."""
    folder = folder_of(declared, data_root, f", and download {declared.where} to its folder {declared.folder}")
    path = folder / str(declared.file)
    check_present(declared, [path], f"Download {declared.where} to {path}")
    form, trajectories = _read(path)
    first, digest = trajectories[0], declared.sha256 and hashlib.sha256(path.read_bytes()).hexdigest()
    for name, found, wanted in (
        ("layout", form, declared.form),
        ("observation width", first.observations.shape[1], declared.observation_width),
        ("action width", first.actions.shape[1], declared.action_width),
        ("number of steps", sum(len(each.rewards) for each in trajectories), declared.num_steps),
        ("SHA-256", digest, declared.sha256),
    ):
        if wanted not in (None, found):
            wanted = f"{wanted} for dataset {declared.name!r} of {declared.environment}"
            raise MissingDataError(f"{path} has the {name} {found}, wanted {wanted}. Download it again")
    return trajectories


def returns_to_go(rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (T,) undiscounted sums of the rewards (T,) from each step on."""
    sums: NDArray[np.float64] = np.cumsum(rewards[::-1], dtype=np.float64)[::-1]
    return sums


def statistics(trajectories: Sequence[Trajectory]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean (D,) and standard deviation (D,) of the observations of all steps.

    The deviation is that of the population plus 1e-6, as in gym/experiment.py of the Decision Transformer.
    """
    observations = np.concatenate([each.observations for each in trajectories])
    return observations.mean(axis=0, dtype=np.float64), observations.std(axis=0, dtype=np.float64) + 1e-6


def _read(path: Path) -> tuple[Form, list[Trajectory]]:
    try:
        with open_regular(path) as file:
            head = file.read(512)
        if head.startswith(b"PK"):
            with np.load(path, allow_pickle=False) as archive:
                return "npz", _flat(archive, str(path), is_npz=True)
        if head.startswith(b"\x89HDF\r\n\x1a\n"):
            return _read_hdf5(path)
    except RobenchError:
        raise
    except Exception as error:  # zip, numpy and HDF5 raise many types on broken files
        reason = getattr(error, "strerror", None) or described(error)
        advice = "Download it again, or save arrays of numbers without pickle"
        raise MissingDataError(f"{path} cannot be read, or is cut ({reason}). {advice}") from error
    found = other_content(head) or f"a file that begins with {head[:8]!r}"
    raise MissingDataError(f"{path} is {found}, wanted HDF5 of D4RL or Minari, or npz. Download the file itself")


def _read_hdf5(path: Path) -> tuple[Form, list[Trajectory]]:
    if find_spec("h5py") is None:
        command = install_command("control")
        raise UsageError(f"{path} is an HDF5 file and needs the package h5py, which is not installed: {command}")
    with import_module("h5py").File(path, "r") as file:
        numbers = sorted(int(match[1]) for name in file if (match := _EPISODE.fullmatch(name)))
        if not numbers:
            return "d4rl", _flat(file, str(path))
        episodes, widths, stops = [], None, ("terminations", "truncations")
        for name in (f"episode_{number}" for number in numbers):
            arrays = _arrays(file[name], f"{path}: {name}", stops, needed=stops, num_further=1)
            episodes += _cut(arrays, [0], f"{path}: {name}")
            found = f"observations of {arrays['observations'].shape[1]} and actions of {arrays['actions'].shape[1]}"
            if found != (widths := widths or found):
                raise MissingDataError(f"{path}: {name} has {found} values, wanted {widths}; split the file by these")
    return "minari", episodes


def _flat(source: Source, title: str, *, is_npz: bool = False) -> list[Trajectory]:
    """Return the episodes of flat arrays."""
    stops, has_starts = ("terminals", "timeouts"), is_npz and "starts" in source
    arrays = _arrays(source, title, stops, needed=() if has_starts else stops[: 1 + is_npz])
    num_steps = len(arrays["rewards"])
    if has_starts:
        return _cut(arrays, _starts(source["starts"], num_steps, f"{title}: starts"), title)
    starts = [0, *(np.flatnonzero((arrays["terminals"] | arrays["timeouts"])[:-1]) + 1).tolist()]
    longest = num_steps if "timeouts" in source else _LONGEST_EPISODE
    pieces = pairwise([*starts, num_steps])
    return _cut(arrays, [cut for start, stop in pieces for cut in range(start, stop, longest)], title)


def _cut(arrays: Arrays, starts: Sequence[int], title: str) -> list[Trajectory]:
    """Return the episodes that begin in these rows; refuse steps of an episode after its end."""
    inside = arrays["terminals"] | arrays["timeouts"]
    pieces = [*pairwise([*starts, len(inside)])]
    inside[[stop - 1 for _, stop in pieces]] = False
    if inside.any():
        row = int(inside.argmax())
        raise MissingDataError(f"{title} ends an episode in row {row}, before its last step. Cut the episode there")
    observations, actions, rewards, terminals = (arrays[name] for name in (*_STEPS, "terminals"))
    return [
        Trajectory(observations[start:stop], actions[start:stop], rewards[start:stop], bool(terminals[stop - 1]))
        for start, stop in pieces
    ]


def _arrays(source: Source, title: str, stops: Sequence[str], *, needed: Sequence[str], num_further: int = 0) -> Arrays:
    """Return steps, terminals and timeouts (named ``stops`` here), of equal lengths, without further observations."""
    if missing := [name for name in (*_STEPS, *needed) if name not in source]:
        found = ", ".join(sorted(source)[:20]) or "none"
        raise MissingDataError(
            f"{title} has no array {', '.join(missing)}, only these: {found}. Download it again, or write"
            f" {', '.join((*_STEPS, *stops))}; npz may have starts in place of the last two"
        )
    arrays = {name: _values(source[name], f"{title}: {name}", name) for name in (*_STEPS, *stops) if name in source}
    lengths = {name: len(array) - num_further * (name == _STEPS[0]) for name, array in arrays.items()}
    if len({*lengths.values()}) > 1:
        found = ", ".join(f"{len(array)} {name}" for name, array in arrays.items())
        further = f" but {num_further} more of observations" if num_further else ""
        raise MissingDataError(f"{title} has {found}, wanted equal numbers{further}. Download it again")
    if not (num_steps := lengths["rewards"]):
        raise MissingDataError(f"{title} has no steps, wanted at least one. Download it again, or leave it out")
    never, names = np.zeros(num_steps, bool), (*_STEPS, "terminals", "timeouts")
    return {name: arrays.get(own, never)[:num_steps] for name, own in zip(names, (*_STEPS, *stops), strict=True)}


def _values(found: Any, title: str, name: str) -> NDArray[Any]:
    """Return finite numbers: (T, ...) float32, rewards (T,) float64, flags (T,) as booleans."""
    num_axes = 2 if name in _STEPS[:2] else 1
    if not hasattr(found, "dtype"):
        raise MissingDataError(f"{title} is a group, such as of a dictionary; write its arrays side by side into one")
    if found.dtype.kind not in "biuf" or len(found.shape) != num_axes or 0 in found.shape[1:]:
        wanted = ("(steps,)", "(steps, values)")[num_axes - 1]
        raise MissingDataError(f"{title} is {found.dtype} of the shape {found.shape}, wanted numbers of {wanted}")
    is_flag = name not in _STEPS
    with np.errstate(over="ignore"):
        values = np.asarray(found[()]).astype(np.float32 if num_axes == 2 else np.float64, copy=False)
    fits = (values == 0) | (values == 1) if is_flag else np.isfinite(values)
    if not fits.all():
        place = tuple(np.argwhere(~fits)[0].tolist())
        wanted = "0 or 1" if is_flag else f"finite {values.dtype}"
        raise MissingDataError(f"{title} has {values[place]} in row {place[0]}, wanted {wanted}. Remove that episode")
    return values.astype(bool) if is_flag else values


def _starts(found: NDArray[Any], num_steps: int, title: str) -> list[int]:
    """Return the first rows of the episodes, which ascend from 0 and stay below ``num_steps``."""
    starts: list[int] = found.tolist() if found.dtype.kind in "iu" and found.ndim == 1 else []
    pairs = enumerate(pairwise([-1, *starts]))
    wrong = [row for row, (before, start) in pairs if not before < start < num_steps or (row == 0 and start)]
    if wrong or not starts:
        shown = f"{starts[wrong[0]]} in row {wrong[0]}" if wrong else f"{found.dtype} of the shape {found.shape}"
        raise MissingDataError(
            f"{title} has {shown}, wanted whole numbers that ascend from 0 and stay below the {num_steps} steps."
            " Write the first row of each episode"
        )
    return starts
