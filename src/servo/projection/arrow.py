"""pyarrow, imported when it is first used.

It takes a third of a second to import and ships no types, so it is named in this one place: the
command line stays quick, and the rest of the projection says `pa`, `pc` and `pq` and gets `Any`.

Where nobody else in the process has imported it, it uses the system's allocator: its own keeps what
it was given, and a leader that publishes small tables all day holds 40 MB more for it.

To see whether a list is one of its columns, pyarrow imports pandas, if that is installed: 56 MB and
a quarter of a second. A process that runs no user code says `without_pandas()` first.
"""

import sys
from importlib import import_module
from typing import Any, TypeAlias

_settings = {"without_pandas": False}


def without_pandas() -> None:
    """Keep pyarrow from importing pandas, which no user code in this process has imported."""
    _settings["without_pandas"] = "pandas" not in sys.modules and "pyarrow" not in sys.modules


class _NoPandas:
    """Finds that there is no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name)


class _Deferred:
    """A module that is imported by the first use of one of its names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(_imported(self._name), attribute)
        setattr(self, attribute, found)
        return found


def _imported(name: str) -> Any:
    ours = "pyarrow" not in sys.modules
    module = import_module(name)
    if ours:
        pyarrow = import_module("pyarrow")
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        if _settings["without_pandas"]:
            finder: Any = _NoPandas()
            sys.meta_path.insert(0, finder)
            try:
                pyarrow.array([0])  # it looks for pandas once, and remembers
            finally:
                sys.meta_path.remove(finder)
    return module


pa: Any = _Deferred("pyarrow")
pc: Any = _Deferred("pyarrow.compute")
pq: Any = _Deferred("pyarrow.parquet")

ArrowTable: TypeAlias = Any
ArrowColumn: TypeAlias = Any
ArrowType: TypeAlias = Any
ArrowSchema: TypeAlias = Any
