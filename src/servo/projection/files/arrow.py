"""pyarrow, imported when it is first used.

It takes a third of a second to import and ships no types, so it is named in this one place: the
command line stays quick, and the rest of the projection says `pa`, `pc` and `pq` and gets `Any`.

If this is the first import in the process, it uses the system's allocator: its own allocator keeps
freed memory, which costs a leader that publishes small tables all day 40 MB.

To see whether a list is one of its columns, pyarrow imports pandas, if that is installed: 56 MB and
a quarter of a second. For its conversions it imports numpy: 9 MB. A process that runs no user code
needs neither and calls `without_pandas()` first. A pyarrow before version 18 requires numpy.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

_hidden: list[str] = []


def without_pandas() -> None:
    """Keep pyarrow from importing pandas and numpy, unless user code here has imported them."""
    if "pyarrow" not in sys.modules:
        _hidden[:] = [name for name in ("numpy", "pandas") if name not in sys.modules]


class _Hidden:
    """An import finder that hides some modules."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name in self._names:
            raise ModuleNotFoundError(name, name=name)


@contextmanager
def _without(*names: str) -> Generator[None]:
    finder: Any = _Hidden(*names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Deferred:
    """A module that is imported by the first use of one of its names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(_imported(self._name), attribute)
        setattr(self, attribute, found)
        return found


def _imported(name: str) -> Any:
    if "pyarrow" not in sys.modules:
        pyarrow = _lean() if _hidden else import_module("pyarrow")
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    return import_module(name)


def _lean() -> Any:
    """Import pyarrow without pandas and, if it does not require it, without numpy."""
    try:
        with _without(*_hidden):
            pyarrow = import_module("pyarrow")
    except ImportError:
        pyarrow = import_module("pyarrow")
    with _without(*_hidden):
        pyarrow.array([0])  # it looks for pandas once, and remembers
    return pyarrow


pa: Any = _Deferred("pyarrow")
pc: Any = _Deferred("pyarrow.compute")
pq: Any = _Deferred("pyarrow.parquet")

ArrowTable: TypeAlias = Any
ArrowColumn: TypeAlias = Any
ArrowType: TypeAlias = Any
ArrowSchema: TypeAlias = Any
