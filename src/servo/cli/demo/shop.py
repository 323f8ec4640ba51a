"""The project that `servo demo` runs: a copy of the shop among the examples."""

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from servo.errors import Conflict

CODE = "assets.py"
PAYMENTS = "data/payments.csv"
BAD_PAYMENT = "9,106,card,-4000\n"


def write_shop(folder: Path) -> None:
    """Write the shop into a folder; `Conflict` if it has been edited there."""
    with as_file(files("servo.cli") / "shop") as packaged:
        # Wheels hold a copy; a checkout holds the example itself.
        source = packaged if packaged.is_dir() else Path(__file__).parents[4] / "examples" / "shop"
        code = folder / CODE
        if code.exists() and code.read_bytes() != (source / CODE).read_bytes():
            raise Conflict(
                f"{code} already exists and differs from the demo's own file",
                remedy="choose another folder: servo demo FOLDER",
            )
        shutil.copytree(
            source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*")
        )


def spoil_payments(folder: Path) -> None:
    """Add an invalid payment."""
    with (folder / PAYMENTS).open("a") as file:
        file.write(BAD_PAYMENT)
