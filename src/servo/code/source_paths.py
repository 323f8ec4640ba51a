"""Where files lie that belong to code."""

from pathlib import Path


def file_relative_path(dunderfile: str, relative_path: str) -> str:
    """The path of a file next to code: `file_relative_path(__file__, "query.sql")`."""
    return str(Path(dunderfile).parent / relative_path)
