"""Finding the file or module of a code location, and whether it is on this machine."""

from importlib.util import find_spec
from pathlib import Path

from servo.errors import Invalid, NotFound
from servo.workspace.code_location import CodeLocation
from servo.workspace.typed_paths import is_file, is_folder

USUAL = ("assets.py", "definitions.py", "pipeline.py")


def is_module(name: str, folder: Path) -> bool:
    """Whether a module of this name could be imported; of a dotted one only the first part."""
    first = name.partition(".")[0]
    if not first.isidentifier():
        return False
    local = any(
        is_folder(place / first) or is_file(place / f"{first}.py")
        for place in (folder, folder / "src")
    )
    return local or find_spec(first) is not None


def find_code(given: str | None, folder: Path) -> str:
    """The named file or module, or the only one that defines assets."""
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
            "no Python file in this folder defines assets",
            remedy="create a project with `servo init`, or name a file that defines assets",
        )
    raise Invalid(f"several files may define assets: {', '.join(found)}", remedy="name one of them")


def is_here(location: CodeLocation) -> bool:
    """Whether the code of a location is on this machine, at its path."""
    if location.code.endswith(".py"):
        return is_file(Path(location.folder, location.code))
    return is_module(location.code, Path(location.folder))
