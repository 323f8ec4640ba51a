"""Put `servo.dagster` in the place of `dagster`, so that files that import it run unchanged.

    with standing_in():
        import dagster as dg

This affects the current process. Submodules of `dagster` are refused: only the names of `import
dagster` are available. A process that has already imported the real one is left alone.
"""

import importlib.util
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from servo.errors import Conflict

NAME = "dagster"
PIPES = "dagster_pipes"


class _Submodules:
    """Refuses `dagster.anything`, which Python would otherwise look for among our own modules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name.startswith(f"{NAME}."):
            raise ModuleNotFoundError(
                f"{name} is not supported: only what `import dagster` gives is", name=name
            )
        return None


_submodules = _Submodules()


def stand_in() -> None:
    """Put `servo.dagster` in the place of `dagster`, until `step_down` is called."""
    ours = import_module("servo.dagster")
    if sys.modules.get(NAME, ours) is not ours:
        raise Conflict(
            "dagster is already imported in this process",
            remedy="leave out --as-dagster, or use a process that has not imported dagster",
        )
    sys.modules[NAME] = ours
    if importlib.util.find_spec("servo.pipes") is not None:
        sys.modules.setdefault(PIPES, import_module("servo.pipes"))
    if _submodules not in sys.meta_path:
        sys.meta_path.insert(0, _submodules)


def step_down() -> None:
    """Undo `stand_in`."""
    ours = {NAME: "servo.dagster", PIPES: "servo.pipes"}
    for name, own in ours.items():
        if name in sys.modules and sys.modules[name] is sys.modules.get(own):
            del sys.modules[name]
    if _submodules in sys.meta_path:
        sys.meta_path.remove(_submodules)


@contextmanager
def standing_in() -> Generator[None]:
    """Call `stand_in` for the duration of a block."""
    stand_in()
    try:
        yield
    finally:
        step_down()
