"""What `servo init` writes: a file of assets, the project file, and what git should ignore.

Existing files are kept; to a `pyproject.toml` or a `.gitignore` only what is missing is appended.
"""

from pathlib import Path

from servo.workspace.project_file import has_project
from servo.workspace.project_toml import PYPROJECT, SERVO_TOML, TABLE

ASSETS = "assets.py"
GITIGNORE = ".gitignore"
STORE = ".servo/"

FIRST = '''"""A first project: `servo materialize` runs all of it."""

from servo import asset


@asset
def orders():
    """A source: it returns the data that other assets read."""
    return [{"customer": "ada", "amount": 3}, {"customer": "bob", "amount": 4}]


@asset
def revenue(orders):
    """Computed from orders: the parameter name is the upstream asset."""
    return sum(order["amount"] for order in orders)
'''

SETTINGS = """\
store = ".servo"
workers = 2

[[{prefix}locations]]
file = "assets.py"
"""


def begin_project(folder: Path) -> list[str]:
    """Write the missing files of a new project; the files that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    if not (folder / ASSETS).exists():
        _ = (folder / ASSETS).write_text(FIRST)
        written.append(ASSETS)
    if not has_project(folder):
        written.append(_write_settings(folder))
    if _ignore(folder / GITIGNORE):
        written.append(GITIGNORE)
    return written


def _write_settings(folder: Path) -> str:
    if (folder / PYPROJECT).is_file():
        own = f"[{TABLE}]\n{SETTINGS.format(prefix=f'{TABLE}.')}"
        _append(folder / PYPROJECT, f"\n{own}")
        return PYPROJECT
    _ = (folder / SERVO_TOML).write_text(SETTINGS.format(prefix=""))
    return SERVO_TOML


def _ignore(path: Path) -> bool:
    """Make git ignore the store; whether that was missing before."""
    lines = path.read_text().splitlines() if path.is_file() else []
    if any(line.strip().strip("/") == STORE.strip("/") for line in lines):
        return False
    _append(path, f"{STORE}\n")
    return True


def _append(path: Path, text: str) -> None:
    """Add text to the end of a file, on a line of its own."""
    before = path.read_text() if path.is_file() else ""
    apart = "" if not before or before.endswith("\n") else "\n"
    with path.open("a") as file:
        _ = file.write(apart + text)
