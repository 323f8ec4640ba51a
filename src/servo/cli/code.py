"""Which code a command is about."""

from pathlib import Path

import click

from servo.errors import Invalid, NotFound

as_dagster_option = click.option(
    "--as-dagster", is_flag=True, help="Run a file that says `import dagster`, by standing in."
)

USUAL = ("assets.py", "definitions.py", "pipeline.py")


def find_code(given: str | None, folder: Path) -> str:
    """The file or module that was named, or the only one it can be."""
    if given is not None:
        return given
    for name in USUAL:
        if (folder / name).is_file():
            return name
    found = sorted(path.name for path in folder.glob("*.py") if "asset" in path.read_text())
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            "no Python file here defines assets",
            remedy="begin with `servo init`, which writes an assets.py, or name a file that does",
        )
    raise Invalid(f"several files may define assets: {', '.join(found)}", remedy="name one of them")
