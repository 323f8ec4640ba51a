"""One table in memory, with an undo journal and the set of rows changed since the last publish."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from servo.core.state.rows.row import Row
from servo.core.state.tables import TableSpec

R = TypeVar("R", bound=Row)

Watch = Callable[[Any, Any, Any], None]
RowChange = tuple["Table[Any]", Any, Any, Any]
"""A table, a key, the row that stood there and the one that stands there now."""


class Table(Generic[R]):
    """Rows by primary key. Every change is journalled first, so that a batch can be taken back.

    `watch` sees every change and every undo of one, or only rows that come and go if it is not
    interested in `each`; indexes are kept there and nowhere else.

    `dirty` holds what changed and waits to be published, `publishing` what is on its way: in both
    None stands for a row that was dropped.
    """

    __slots__ = (
        "dirty",
        "each",
        "journal",
        "publishing",
        "put",
        "rows",
        "spec",
        "swap",
        "watch",
    )

    def __init__(
        self,
        spec: TableSpec,
        journal: list[RowChange],
        watch: Watch | None = None,
        *,
        each: bool = True,
    ) -> None:
        self.spec = spec
        self.rows: dict[Any, R] = {}
        self.dirty: dict[Any, R | None] = {}
        self.publishing: dict[Any, R | None] = {}
        self.journal = journal
        self.watch = watch
        self.each = each
        self.put: Callable[[Any, R], None] = _putting(self)
        self.swap: Callable[[Any, R, R], None] = _swapping(self)

    def get(self, key: object) -> R | None:
        return self.rows.get(key)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def values(self) -> Iterable[R]:
        return self.rows.values()

    def lacks(self, key: object) -> bool:
        """Whether a row may be published that is not here.

        Not if it was dropped since: what is published does not know that yet.
        """
        return key not in self.rows and key not in self.dirty and key not in self.publishing

    def drop(self, key: object) -> None:
        old = self.rows.pop(key, None)
        if old is None:
            return
        self.journal.append((self, key, old, None))
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


def _putting(table: Table[R]) -> Callable[[Any, R], None]:
    """How rows are put into a table. The fold does little else, so what never changes is bound."""
    rows, watch, each = table.rows, table.watch, table.each
    get, note = rows.get, table.journal.append

    def put(key: Any, row: R) -> None:
        note((table, key, get(key), row))
        rows[key] = row

    def put_watched(key: Any, row: R) -> None:
        old = get(key)
        note((table, key, old, row))
        rows[key] = row
        if each or old is None:
            watch(key, old, row)  # pyright: ignore[reportOptionalCall] - chosen if there is one

    return put if watch is None else put_watched


def _swapping(table: Table[R]) -> Callable[[Any, R, R], None]:
    """How a row that was just looked up is put in the place of the one that stands there."""
    rows, watch = table.rows, table.watch if table.each else None
    note = table.journal.append

    def swap(key: Any, old: R, row: R) -> None:
        note((table, key, old, row))
        rows[key] = row

    def swap_watched(key: Any, old: R, row: R) -> None:
        note((table, key, old, row))
        rows[key] = row
        watch(key, old, row)  # pyright: ignore[reportOptionalCall] - chosen if there is one

    return swap if watch is None else swap_watched
