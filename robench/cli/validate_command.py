"""``robench validate``: all problems of suite and registry files at once."""

from __future__ import annotations

import json
from pathlib import Path

import click

from robench.cli.options import json_option
from robench.core.errors import RobenchError
from robench.declare import validate_file


@click.command("validate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(files: tuple[Path, ...], as_json: bool) -> int:
    """Check suite and registry FILES without measuring anything."""
    exit_code = 0
    results = []
    for file in files:
        try:
            kind = validate_file(file)
        except RobenchError as error:
            exit_code = max(exit_code, error.exit_code)
            click.echo(f"Error: {error}", err=True)
            results.append({"name": str(file), "valid": False, "error": str(error)})
        else:
            results.append({"name": str(file), "valid": True, "kind": kind})
            if not as_json:
                click.echo(f"{file}: a valid {kind}")
    if as_json:
        click.echo(json.dumps(results, indent=2, ensure_ascii=False))
    return exit_code
