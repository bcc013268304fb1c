"""``robench validate`` lists all problems of suite, registry and leaderboard files; ``schema`` prints their schemas."""

from pathlib import Path

import click

from robench.cli.options import AbsolutePath, json_option, registry_option
from robench.cli.terminal import out, out_json, say
from robench.core.errors import DeclarationError, RobenchError
from robench.declare import find_datasets, validate_file
from robench.declare.json_schema import FILES, json_schema


@click.command("validate")
@click.argument("files", nargs=-1, required=True, type=AbsolutePath())
@registry_option
@json_option
def command(files: tuple[Path, ...], registries: tuple[Path, ...], as_json: bool) -> int:
    """Check suite, registry and leaderboard FILES without measuring; they may name the datasets of --registry.

    Your own code and plug-ins that a suite or registry names are imported, with torch if they need it.
    """
    datasets = find_datasets(registries)
    exit_code = 0
    results = []
    for file in files:
        try:
            kind = validate_file(file, datasets)
        except RobenchError as error:
            exit_code = max(exit_code, error.exit_code)
            first, *others = error.lines
            say(f"Error: {first}", *others)
            count = error.num_problems if isinstance(error, DeclarationError) else 1
            results.append({"name": str(file), "valid": False, "num_problems": count, "error": str(error)})
        else:
            results.append({"name": str(file), "valid": True, "kind": kind})
            if not as_json:
                out(f"{file}: a valid {kind}")
    if as_json:
        out_json(results)
    return exit_code


@click.command("schema")
@click.argument("kind", type=click.Choice(list(FILES)))
def schema_command(kind: str) -> int:
    """Print the JSON Schema (draft 2020-12) of suite, registry or leaderboard files.

    Editors check and complete files with it; 'robench validate' checks more. The first line of a file names it:
    # yaml-language-server: $schema=suite.json
    """
    out_json(json_schema(kind))
    return 0
