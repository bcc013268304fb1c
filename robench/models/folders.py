"""Folders of models of the library transformers: found on disk or on the hub, checked, and identified by content."""

import hashlib
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from robench.core.checkpoint import HUB, Weights
from robench.core.errors import DeclarationError, WeightsError
from robench.core.files import open_regular, read_regular
from robench.core.providers import install_command
from robench.models.shards import INDEX, MOST_BYTES

_CONFIG = "config.json"
_WEIGHTS = "*.safetensors"
_WHOLE, _INDEX = "model.safetensors", f"model{INDEX}"
# All that a model and its tokenizer are loaded from; other files are neither downloaded nor part of the digest.
_READ = (
    _CONFIG,
    _WEIGHTS,
    f"*{INDEX}",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "*.model",
)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt", "*.h5", "*.msgpack")


def resolve_folder(weights: Weights, root: Path, entry: str, *, random_weights: bool = False) -> tuple[Path, str]:
    """Return the folder with a model's files, and the SHA-256 of their names and contents.

    With ``random_weights`` the files of weights may be absent, and are neither downloaded nor read; then the SHA-256 is
    of the other files, and differs from that of a folder with these alone.

    Raises:
        WeightsError: the folder or a file is missing, unreadable or unsafe, or the digest differs from that declared.
        DeclarationError: the address on the hub is malformed.
    """
    read = tuple(each for each in _READ if not (random_weights and each.startswith(_WEIGHTS)))
    folder = _downloaded(weights, entry, read) if weights.uri.startswith(HUB) else (root / weights.uri).absolute()
    how = f" ({weights.how_to_get})" if weights.how_to_get else ""
    if not folder.is_dir():
        found = "is not a folder" if folder.exists() else "does not exist"
        raise WeightsError(f"the model of {entry}: {folder} {found}; put the files of save_pretrained there{how}")
    try:
        names = sorted(each.name for each in folder.iterdir())
        _check(folder, names, entry, needs_weights=not random_weights)
        found = _digest(folder, names, read)
    except OSError as error:
        raise WeightsError(f"the model of {entry}: cannot read {error.filename or folder}: {error.strerror}") from error
    if random_weights:
        return folder, hashlib.sha256(f"{weights.sha256} {found}".encode()).hexdigest()
    if weights.sha256 is not None and not found.startswith(weights.sha256.lower()):
        raise WeightsError(
            f"the files of {entry} in {folder} have SHA-256 {found}, the registry wants {weights.sha256}. Get them"
            f" again{how}, or, if another model is meant, change weights.sha256 in the registry"
        )
    return folder, found


def _check(folder: Path, names: Sequence[str], entry: str, *, needs_weights: bool) -> None:
    """Refuse a folder without configuration or needed safetensors, and models that need code of their own."""
    title = f"the model of {entry} in {folder}"
    if _CONFIG not in names:
        raise WeightsError(f"{title} has no {_CONFIG}: expected the files of save_pretrained")
    if needs_weights and not any(fnmatchcase(name, _WEIGHTS) for name in names):
        pickles = [name for name in names if any(fnmatchcase(name, each) for each in _PICKLES)]
        found = f"{pickles[0]}, which may hold code" if pickles else "no weights"
        raise WeightsError(f"{title} has {found}: expected *.safetensors, from save_pretrained of transformers")
    if needs_weights and {_WHOLE, _INDEX} <= {*names}:
        raise WeightsError(
            f"{title} has both {_WHOLE} and {_INDEX} with its shards, and transformers would read {_WHOLE} alone:"
            " remove what was left by an earlier save"
        )
    for name in ("tokenizer_config.json", _CONFIG):
        if name not in names:
            continue
        try:
            stated = json.loads(read_regular(folder / name, MOST_BYTES))
        except (ValueError, RecursionError) as error:
            raise WeightsError(f"{title}: {name} is not JSON ({error}); get the file again") from error
        if not isinstance(stated, dict):
            raise WeightsError(f"{title}: {name} is a {type(stated).__name__}, wanted an object; get the file again")
        if "auto_map" in stated:
            raise WeightsError(
                f"{title} needs code of its own ({name} has auto_map), which robench does not run: take a model that"
                " transformers defines, or load it in Python and pass it in memory"
            )


def _digest(folder: Path, names: Sequence[str], read: Sequence[str]) -> str:
    whole = hashlib.sha256()
    for name in names:
        if any(fnmatchcase(name, each) for each in read):
            with open_regular(folder / name) as file:
                whole.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


@cache
def _snapshot(address: str, revision: str, read: tuple[str, ...]) -> Path:
    """Return the folder of a repository, whose files that match ``read`` are downloaded once in a process."""
    # Here because it is heavy, and an optional dependency not needed for local folders.
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(address, revision=revision, allow_patterns=list(read)))


def _downloaded(weights: Weights, entry: str, read: tuple[str, ...]) -> Path:
    address, _, revision = weights.uri.removeprefix(HUB).partition("@")
    if address.count("/") != 1 or not all(address.split("/")) or not revision:
        raise DeclarationError(f"weights.uri of {entry} must be {HUB}owner/name@revision, got {weights.uri!r}")
    try:
        return _snapshot(address, revision, read)
    except ImportError as error:
        raise WeightsError(
            f"the model of {entry} lies at {weights.uri}, and huggingface_hub is not installed:"
            f" {install_command('hub')}, or download its files and write their folder into weights.uri"
        ) from error
    # Broad because the hub passes on the errors of its HTTP library, which have no common class.
    except Exception as error:
        reason = str(error).partition("\n")[0][:200]
        raise WeightsError(
            f"the model of {entry} could not be downloaded from {weights.uri} ({type(error).__name__}: {reason})."
            " Check address and network, or download its files and write their folder into weights.uri"
        ) from error
