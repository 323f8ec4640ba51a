"""Whether two folders have the same version of a code location.

They have if the source files of the location have the same content: all files of the folder that
are imported with it. A leader says which files these are and what they contain, so a caller can
compare its own folder without importing anything. Where the folders are does not matter. Installed
packages, data files and the environment are not compared.
"""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from servo.leader.loaded_code import LoadedCode
from servo.workspace.code_location import CodeLocation

_DIGITS = 16


def loaded_code(location: CodeLocation, files: Sequence[str], error: str = "") -> LoadedCode:
    """A location with these source files, as they are now."""
    folder = Path(location.folder)
    root, entry = folder.resolve(), folder / location.code
    paths = {
        str(path.relative_to(root)): path for path in map(Path, files) if path.is_relative_to(root)
    }
    if entry.is_file():
        paths[location.code] = entry  # also if it is a link out of the folder
    digests = {name: _digest(path) for name, path in sorted(paths.items())}
    return LoadedCode(code=location.code, files=digests, error=error)


def difference(loaded: LoadedCode, code: str, folder: str) -> str:
    """How the code in a folder differs from what a leader loaded; empty if it is the same."""
    if loaded.code != code:
        return f"{loaded.code} there, {code} here"
    for name, digest in loaded.files.items():
        found = _digest(Path(folder, name))
        if found != digest:
            return f"{name} differs" if found else f"{name} is not in {folder}"
    return ""


def edited_since(loaded: LoadedCode, folder: str, since: datetime) -> bool:
    """Whether the files of this folder that a leader loaded were edited or deleted lately."""
    paths = [Path(folder, name) for name in loaded.files]
    found = [path if path.exists() else path.parent for path in paths]
    return any(path.exists() and path.stat().st_mtime >= since.timestamp() for path in found)


def _digest(path: Path) -> str:
    """The digest by which file contents are compared; empty if the file does not exist."""
    try:
        return sha256(path.read_bytes()).hexdigest()[:_DIGITS]
    except OSError:
        return ""
