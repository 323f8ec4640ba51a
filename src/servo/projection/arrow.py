"""pyarrow, imported when it is first used.

It takes a third of a second to import and ships no types, so it is named in this one place: the
command line stays quick, and the rest of the projection says `pa`, `pc` and `pq` and gets `Any`.

Where nobody else in the process has imported it, it uses the system's allocator: its own keeps what
it was given, and a leader that publishes small tables all day holds 40 MB more for it.
"""

import sys
from importlib import import_module
from typing import Any, TypeAlias


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
    return module


pa: Any = _Deferred("pyarrow")
pc: Any = _Deferred("pyarrow.compute")
pq: Any = _Deferred("pyarrow.parquet")

ArrowTable: TypeAlias = Any
ArrowColumn: TypeAlias = Any
ArrowType: TypeAlias = Any
ArrowSchema: TypeAlias = Any
