"""``robench import``: converts a file of a language model's authors into weights of a registry entry."""

import hashlib
import os
from pathlib import Path

import click

from robench.cli.names import model_of_registry
from robench.cli.options import AbsolutePath, json_option, one_model_option, path_option, registry_option
from robench.cli.terminal import out, out_json, say
from robench.core.errors import UsageError
from robench.core.files import write_whole, writing
from robench.declare import find_checkpoints


@click.command("import")
@click.argument("file", type=AbsolutePath())
@one_model_option("The entry of the registry that the file must fit.")
@registry_option
@path_option(
    "--vocabulary",
    "FOLDER",
    "Folder with the token files that the model was trained on, such as wiki.train.tokens.",
    required=True,
)
@path_option("--output", "WEIGHTS", "The safetensors file to be written.", required=True)
@json_option
def command(file: Path, model: str, registries: tuple[Path, ...], vocabulary: Path, output: Path, as_json: bool) -> int:
    """Convert FILE, a language model that its authors saved whole by torch.save(model), into safetensors.

    Nothing that the file names is imported or run. Names, sizes and settings of the model must be those of the entry
    NAME; the vocabulary is made of the texts in FOLDER. An existing WEIGHTS is replaced when all is converted.
    """
    (checkpoint,) = find_checkpoints([model_of_registry(model, registries)], registries)
    # pathlib raises for links that lead to themselves.
    if os.path.realpath(output) == os.path.realpath(file):
        raise UsageError(f"--output is the file to be converted, {file}; name another one")
    from safetensors.torch import save

    from robench.training.importing import import_weights

    imported = import_weights(file, checkpoint, vocabulary)
    content = save(dict(imported.tensors))
    with writing(output):
        write_whole(output, content)
    digest = hashlib.sha256(content).hexdigest()
    num_numbers = sum(each.numel() for each in imported.tensors.values())
    if as_json:
        out_json(
            {
                "model": checkpoint.name,
                "file": str(file),
                "weights": str(output),
                "sha256": digest,
                "num_tensors": len(imported.tensors),
                "num_numbers": num_numbers,
                "classes": list(imported.class_names),
                "left_out": dict(imported.left_out),
            }
        )
        return 0
    out(f"{checkpoint.name}: {len(imported.tensors)} tensors, {num_numbers:,} numbers, sha256 {digest}, {output}")
    say(f"Classes in the file (none was run): {', '.join(imported.class_names)}")
    for each, reason in imported.left_out.items():
        say(f"Left out: {each}, as {reason}")
    return 0
