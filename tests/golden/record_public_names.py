"""Write the stub that tells type checkers and editors the public names of `servo`.

    python tests/golden/record_public_names.py

The names are listed once, in `servo/__init__.py`, which loads them when they are first used. That
is too late for a type checker, so the same names stand in the stub as plain imports.
"""

from pathlib import Path

import servo

FILE = Path(servo.__file__).with_suffix(".pyi")

HEAD = """\
# Written by tests/golden/record_public_names.py from the table in __init__.py.
# `X as X` is how a stub says that it exports X.
"""


def recorded() -> str:
    """The stub as it is stored."""
    table = vars(servo)
    exports: dict[str, tuple[str, ...]] = {"servo": table["_MODULES"], **table["_EXPORTS"]}
    lines = [
        f"from {module} import {name} as {name}\n"
        for module, names in exports.items()
        for name in names
    ]
    return "".join((HEAD, "\n", *lines, "\n__all__: list[str]\n__version__: str\n"))


if __name__ == "__main__":
    _ = FILE.write_text(recorded())
