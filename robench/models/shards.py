"""Weights in several safetensors, and the index that names the file of each tensor, as transformers saves them."""

import json
from pathlib import Path, PurePosixPath

from robench.core.errors import WeightsError
from robench.core.files import read_regular

INDEX = ".safetensors.index.json"
MOST_BYTES = 1 << 26


def is_index(path: Path) -> bool:
    """Return whether a file is the index of others, by its name."""
    return path.name.endswith(INDEX)


def shards_of(path: Path) -> list[Path]:
    """Return the files that an index names, which lie beside it, sorted.

    Raises:
        WeightsError: it cannot be read, is not an index, or names files elsewhere.
    """
    try:
        stated = json.loads(read_regular(path, MOST_BYTES))
        names = sorted({*stated["weight_map"].values()})
        if not names or any(PurePosixPath(name).name != name or not name.endswith(".safetensors") for name in names):
            raise ValueError("it names other files than *.safetensors beside it")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(
            f"{path} is not the index of safetensors ({error}): expected an object with weight_map, from the name of"
            " each tensor to its file in the same folder"
        ) from error
    return [path.with_name(name) for name in names]
