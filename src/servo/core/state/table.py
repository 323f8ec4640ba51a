"""One table in memory, with an undo journal and the set of rows changed since the last publish."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from servo.core.state.rows.row import Row
from servo.core.state.tables import TableSpec

R = TypeVar("R", bound=Row)

Undo = tuple["Table[Any]", Any, Any]


class Table(Generic[R]):
    """Rows by primary key. Every change is journalled first, so that a batch can be taken back.

    `watch` sees every change and every undo of one; indexes are kept there and nowhere else.
    """

    __slots__ = ("dirty", "journal", "rows", "spec", "watch")

    def __init__(
        self,
        spec: TableSpec,
        journal: list[Undo],
        watch: Callable[[Any, Any, Any], None] | None = None,
    ) -> None:
        self.spec = spec
        self.rows: dict[Any, R] = {}
        self.dirty: dict[Any, R | None] = {}
        self.journal = journal
        self.watch = watch

    def get(self, key: object) -> R | None:
        return self.rows.get(key)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def values(self) -> Iterable[R]:
        return self.rows.values()

    def put(self, key: object, row: R) -> None:
        rows = self.rows
        old = rows.get(key)
        self.journal.append((self, key, old))
        rows[key] = row
        if self.watch is not None:
            self.watch(key, old, row)

    def drop(self, key: object) -> None:
        old = self.rows.pop(key, None)
        if old is None:
            return
        self.journal.append((self, key, old))
        if self.watch is not None:
            self.watch(key, old, None)

    def undo(self, key: object, old: R | None) -> None:
        """Put back what stood there before one change; called newest change first."""
        current = self.rows.get(key)
        if old is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = old
        if self.watch is not None:
            self.watch(key, current, old)

    def load(self, key: object, row: R) -> None:
        """Insert a row that is already published: not journalled, not dirty."""
        old = self.rows.get(key)
        self.rows[key] = row
        if self.watch is not None:
            self.watch(key, old, row)

    def evict(self, key: object) -> None:
        """Forget a row that is published: readers still have it, the leader no longer does."""
        old = self.rows.pop(key, None)
        if old is not None and self.watch is not None:
            self.watch(key, old, None)
